// The HTTP listener over TLS, as peers see it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"
#include "base/tls/tls_source.h"
#include "base/unique_fd.h"
#include "server/metrics/http_listener.h"
#include "server/metrics/port.h"

namespace kerf::metrics {
namespace {

using std::chrono::milliseconds;

// As kerfd does: OpenSSL writes to sockets that are closed already.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

constexpr std::string_view kRequest = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

// A client whose bytes go where the test says, and when.
class Client {
 public:
  Client(const std::string& address, const TlsContext& context) : session_(context.NewSession()) {
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port =
        htons(static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1))));
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // A test that would hang fails.
    const timeval patience{.tv_sec = 5, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof peer), 0);
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in_, -1);
    SSL_set_bio(session_.get(), in_, out_);
    SSL_set_connect_state(session_.get());
  }

  // All but what it says last: that is not sent yet.
  void Shake() {
    while (SSL_do_handshake(session_.get()) != 1) {
      Send();
      if (!Receive()) break;
    }
    ERR_clear_error();
    EXPECT_EQ(SSL_is_init_finished(session_.get()), 1);
  }
  // Each part in a record of its own.
  void Seal(std::string_view text, std::size_t part_bytes) {
    for (; !text.empty(); text.remove_prefix(std::min(part_bytes, text.size()))) {
      const auto size = static_cast<int>(std::min(part_bytes, text.size()));
      EXPECT_EQ(SSL_write(session_.get(), text.data(), size), size);
    }
  }
  // All that was sealed, at once.
  void Send() {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out_, &bytes);
    static_cast<void>(send(socket_.get(), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL));
    BIO_reset(out_);
  }
  std::string HearOut() {
    std::string heard;
    std::array<char, 4096> part;
    while (true) {
      const int size = SSL_read(session_.get(), part.data(), part.size());
      if (size > 0) heard.append(part.data(), static_cast<std::size_t>(size));
      if (size <= 0 && !Receive()) break;
    }
    ERR_clear_error();
    return heard;
  }

 private:
  bool Receive() {
    std::array<char, 65'536> part;
    const ssize_t size = recv(socket_.get(), part.data(), part.size(), 0);
    return size > 0 && BIO_write(in_, part.data(), static_cast<int>(size)) > 0;
  }

  UniqueFd socket_;
  TlsSession session_;
  BIO* in_ = nullptr;
  BIO* out_ = nullptr;
};

class HttpsTest : public testing::Test {
 protected:
  HttpsTest() {
    std::filesystem::create_directories(folder_);
    WriteTlsFile(folder_ + "/ca.pem", all_.ca.certificate);
    Open("");
  }
  ~HttpsTest() override {
    listener_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Asks for certificates of that CA, as kerfd does; empty: for none.
  void Open(const std::string& ca_path) {
    source_ = *TlsSource::Open({.side = TlsRules::Side::kHttpServer,
                                .files = WriteTlsFiles(folder_, "server", all_.server, ca_path),
                                .is_certificate_optional = true},
                               nullptr);
  }
  void Start(const HttpLimits& limits = {}) {
    auto listener = HttpListener::Start(
        "127.0.0.1:0", limits,
        [](const HttpQuestion& question) {
          return HttpAnswer{
              .body = Cat("hello ", question.path, question.is_proven ? " of mine" : "", "\n")};
        },
        source_.get());
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  std::unique_ptr<Client> Connect() const {
    return std::make_unique<Client>(listener_->address(), *context_);
  }
  std::string Get() const { return Get(listener_->address(), kRequest, *context_); }
  static std::string Get(const std::string& address, std::string_view request,
                         const TlsContext& context) {
    Client client(address, context);
    client.Shake();
    client.Seal(request, request.size());
    client.Send();
    return client.HearOut();
  }
  std::shared_ptr<const TlsContext> ContextOf(const CertifiedKey& own) const {
    return all_.ContextOf(TlsRules::Side::kClient, own);
  }

  const TestCertificates& all_ = TestCertificates::Get();
  // Shows none.
  const std::shared_ptr<const TlsContext> context_ = *TlsContext::Make(
      {.side = TlsRules::Side::kClient, .files = {.ca = "ca"}}, {.ca = all_.ca.certificate});
  const std::string folder_ = Cat(testing::TempDir(), "https-",
                                  testing::UnitTest::GetInstance()->current_test_info()->name());
  std::unique_ptr<TlsSource> source_;
  std::unique_ptr<HttpListener> listener_;
};

// The request comes with the last message of the handshake, and in one piece or many: OpenSSL has
// all of it before the listener asks for any.
TEST_F(HttpsTest, ARequestIsAnsweredHoweverItsRecordsCome) {
  Start();
  for (const std::size_t part_bytes : {kRequest.size(), std::size_t{10}, std::size_t{1}}) {
    const auto client = Connect();
    client->Shake();
    client->Seal(kRequest, part_bytes);
    client->Send();
    EXPECT_TRUE(client->HearOut().ends_with("hello /x\n")) << part_bytes;
  }
}

TEST_F(HttpsTest, WhoeverDoesNotGoOnKeepsNobodyOut) {
  Start({.max_connections = 4, .connection_time = milliseconds(60'000)});
  std::vector<std::unique_ptr<Client>> silent;
  for (int count = 0; count < 40; ++count) {
    silent.push_back(Connect());
    // Some in the middle of it.
    if (count % 2 == 0) silent.back()->Shake();
  }
  EXPECT_TRUE(Get().ends_with("hello /x\n"));
}

TEST_F(HttpsTest, AHandshakeHasItsTime) {
  Start({.connection_time = milliseconds(300)});
  const auto slow = Connect();
  slow->Shake();
  EXPECT_EQ(slow->HearOut(), "");
  EXPECT_TRUE(Get().ends_with("hello /x\n"));
}

TEST_F(HttpsTest, WhoShowsACertificateOfTheCaIsProven) {
  Open(folder_ + "/ca.pem");
  Start();
  EXPECT_TRUE(Get().ends_with("hello /x\n"));
  const std::string& address = listener_->address();
  EXPECT_TRUE(Get(address, kRequest, *ContextOf(all_.client)).ends_with("hello /x of mine\n"));
  const TestCertificates others;
  const std::string said = Get(address, kRequest, *ContextOf(others.client));
  EXPECT_EQ(said.find("hello"), std::string::npos) << said;
}

TEST_F(HttpsTest, NobodyIsProvenWhereNoCertificateIsAskedFor) {
  Start();
  EXPECT_TRUE(Get(listener_->address(), kRequest, *ContextOf(all_.client)).ends_with("hello /x\n"));
}

TEST_F(HttpsTest, MetricsMayBeForThoseAloneWhoAreProven) {
  Open(folder_ + "/ca.pem");
  const auto port = Port::Open("127.0.0.1:0", "all", source_.get(), MetricsReaders::kProven);
  ASSERT_TRUE(port.ok()) << port.status();
  const auto get = [&](std::string_view path, const TlsContext& context) {
    return Get((*port)->address(), Cat("GET ", path, " HTTP/1.1\r\nHost: h\r\n\r\n"), context);
  };
  const auto proven = ContextOf(all_.client);
  for (const char* path : {"/metrics", "/metrics?x", "/metrics?/healthz"}) {
    const std::string said = get(path, *context_);
    EXPECT_TRUE(said.starts_with("HTTP/1.1 403 ")) << path << ": " << said;
    EXPECT_EQ(said.find("kerf_"), std::string::npos) << path << ": " << said;
    EXPECT_NE(get(path, *proven).find("\nkerf_ready 0\n"), std::string::npos) << path;
  }
  // A kubelet has no certificate.
  EXPECT_TRUE(get("/healthz", *context_).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(get("/readyz", *context_).starts_with("HTTP/1.1 503 "));
  EXPECT_TRUE(get("/healthz", *proven).starts_with("HTTP/1.1 200 "));
}

TEST_F(HttpsTest, MetricsMayBeForEverybody) {
  Open(folder_ + "/ca.pem");
  const auto port = Port::Open("127.0.0.1:0", "all", source_.get());
  ASSERT_TRUE(port.ok()) << port.status();
  const std::string said =
      Get((*port)->address(), "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n", *context_);
  EXPECT_TRUE(said.starts_with("HTTP/1.1 200 ")) << said;
}

}  // namespace
}  // namespace kerf::metrics
