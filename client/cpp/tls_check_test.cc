#include "client/cpp/tls_check.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/socket.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"
#include "base/tls/tls_context.h"
#include "base/unique_fd.h"
#include "client/cpp/channel.h"
#include "client/cpp/retry.h"

namespace kerf::client {
namespace {

using Side = TlsRules::Side;
using ::testing::HasSubstr;

// Each connection gets what `serve` does with it; on a port of loopback.
class Server {
 public:
  explicit Server(std::function<void(int socket)> serve)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), serve_(std::move(serve)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    KERF_CHECK(bind(listener_.get(), generic, length) == 0 && listen(listener_.get(), 8) == 0);
    KERF_CHECK(getsockname(listener_.get(), generic, &length) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      // OpenSSL's writes to who has gone away; this thread's alone.
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
      while (true) {
        const UniqueFd accepted(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!accepted.valid()) return;
        serve_(accepted.get());
      }
    });
  }
  ~Server() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string At(const std::string& host = "127.0.0.1") const { return Cat(host, ":", port_); }

 private:
  const UniqueFd listener_;
  const std::function<void(int)> serve_;
  int port_ = 0;
  std::thread thread_;
};

// Says something after the handshake, as a server of HTTP/2 does.
std::function<void(int)> ServeTls(std::shared_ptr<const TlsContext> context) {
  return [context = std::move(context)](int socket) {
    const TlsSession session = context->NewSession();
    SSL_set_fd(session.get(), socket);
    char byte = 'x';
    if (SSL_accept(session.get()) == 1 && SSL_write(session.get(), &byte, 1) == 1) {
      SSL_read(session.get(), &byte, 1);
    }
    TakeTlsError();
  };
}

class TlsCheckTest : public ::testing::Test {
 protected:
  ~TlsCheckTest() override { std::filesystem::remove_all(folder_); }

  static std::string MakeFolder() {
    const std::string folder =
        Cat(::testing::TempDir(), "tls-check-",
            ::testing::UnitTest::GetInstance()->current_test_info()->name(), "/");
    std::filesystem::create_directories(folder);
    return folder;
  }
  std::string CaFile(const TestCertificates& all, const std::string& name) {
    WriteTlsFile(folder_ + name, all.ca.certificate);
    return folder_ + name;
  }
  TlsChoice Choice(const std::string& ca, const CertifiedKey* own = nullptr,
                   const std::string& name = "") {
    TlsFiles files{.ca = ca};
    if (own != nullptr) files = WriteTlsFiles(folder_, Cat("own", ++count_), *own, ca);
    const auto choice = TlsChoice::Make(files, name);
    KERF_CHECK(choice.ok());
    return *choice;
  }
  static void ExpectTrouble(const absl::Status& status, const std::string& text) {
    EXPECT_TRUE(IsTlsTrouble(status)) << status;
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    EXPECT_EQ(LossOf(status), Loss::kRetryBriefly);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
  static absl::Status Check(const std::string& server, const TlsChoice& tls) {
    return CheckTls(server, tls, nullptr);
  }

  const TestCertificates& all_ = TestCertificates::Get();
  const std::string folder_ = MakeFolder();
  const std::string ca_ = CaFile(all_, "ca.pem");
  int count_ = 0;
};

TEST_F(TlsCheckTest, WhatIsWrongWithTheServersCertificateIsSaid) {
  const Server server(ServeTls(all_.ContextOf(Side::kHttp2Server, all_.server, false)));
  EXPECT_TRUE(Check(server.At(), Choice(ca_)).ok());
  EXPECT_TRUE(Check(server.At("localhost"), Choice(ca_)).ok());
  EXPECT_TRUE(Check(server.At("127.0.0.1"), Choice(ca_, nullptr, "localhost")).ok());
  ExpectTrouble(Check(server.At(), Choice(ca_, nullptr, "other.example")),
                "not known to be other.example: its certificate is for localhost, 127.0.0.1, ::1");
  const TestCertificates others;
  ExpectTrouble(Check(server.At(), Choice(CaFile(others, "others.pem"))), "is of no CA in ");

  const auto old = all_.Of("old", {"127.0.0.1"}, true, false, std::chrono::hours(-1));
  const Server expired(ServeTls(all_.ContextOf(Side::kHttp2Server, old, false)));
  ExpectTrouble(Check(expired.At(), Choice(ca_)), "has ended on ");
  const Server client(ServeTls(all_.ContextOf(Side::kHttp2Server, all_.client, false)));
  ExpectTrouble(Check(client.At(), Choice(ca_)), "is not");
}

TEST_F(TlsCheckTest, WhatTheServerSaysOfTheClientsCertificateIsSaid) {
  const Server server(ServeTls(all_.ContextOf(Side::kHttp2Server, all_.server)));
  EXPECT_TRUE(Check(server.At(), Choice(ca_, &all_.client)).ok());
  ExpectTrouble(Check(server.At(), Choice(ca_)), "serves those alone who show a certificate");
  const TestCertificates others;
  ExpectTrouble(Check(server.At(), Choice(ca_, &others.client)), "CA is not one of those");
  const auto old = all_.Of("client", {}, false, true, std::chrono::hours(-1));
  ExpectTrouble(Check(server.At(), Choice(ca_, &old)), "its time is over");
  ExpectTrouble(Check(server.At(), Choice(ca_, &all_.server)), "not one for clients");
}

TEST_F(TlsCheckTest, WhoSpeaksTlsAndWhoDoesNotIsSaid) {
  const Server tls(ServeTls(all_.ContextOf(Side::kHttp2Server, all_.server)));
  ExpectTrouble(Check(tls.At(), TlsChoice()), "speaks TLS: give the CA");
  // As gRPC: its settings at once.
  const Server clear([](int socket) {
    const char settings[9] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    static_cast<void>(send(socket, settings, sizeof settings, MSG_NOSIGNAL));
    char byte = 0;
    recv(socket, &byte, 1, 0);
  });
  EXPECT_TRUE(Check(clear.At(), TlsChoice()).ok());
  ExpectTrouble(Check(clear.At(), Choice(ca_)), "speaks no TLS");
}

TEST_F(TlsCheckTest, NobodyIsAccusedOfWhatIsNotKnown) {
  const Server closing([](int) {});
  EXPECT_TRUE(Check(closing.At(), Choice(ca_)).ok());
  EXPECT_TRUE(Check(closing.At(), TlsChoice()).ok());
  std::string gone;
  {
    const Server ended([](int) {});
    gone = ended.At();
  }
  EXPECT_TRUE(Check(gone, Choice(ca_)).ok());
  EXPECT_TRUE(Check("unix:/none", Choice(ca_)).ok());
  const absl::Status refused = absl::UnavailableError("no");
  EXPECT_EQ(ExplainByTls(refused, {Cat(gone, ",unix:/none"), Choice(ca_)}, nullptr), refused);
}

TEST_F(TlsCheckTest, ASilentServerIsNotWaitedForAfterACancellation) {
  const Server silent([](int socket) {
    char text[512];
    while (recv(socket, text, sizeof text, 0) > 0) {
    }
  });
  CallCancellation cancellation;
  cancellation.Cancel();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(CheckTls(silent.At(), Choice(ca_), &cancellation).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));
}

TEST_F(TlsCheckTest, OneOfSeveralServersIsEnoughToSayIt) {
  const Server closing([](int) {});
  const Server tls(ServeTls(all_.ContextOf(Side::kHttp2Server, all_.server, false)));
  const TestCertificates others;
  const TlsChoice choice = Choice(CaFile(others, "others.pem"));
  const absl::Status found = ExplainByTls(absl::UnavailableError("no"),
                                          {Cat(closing.At(), ",", tls.At()), choice}, nullptr);
  ExpectTrouble(found, Cat("the certificate of ", tls.At()));
  // What is no failure of a connection stays as it is.
  const absl::Status other = absl::NotFoundError("no");
  EXPECT_EQ(ExplainByTls(other, {tls.At(), choice}, nullptr), other);
}

TEST_F(TlsCheckTest, FilesThatAreWrongAreNamed) {
  const auto expect = [](const TlsFiles& files, const std::string& text) {
    const auto choice = TlsChoice::Make(files, "");
    EXPECT_THAT(std::string(choice.status().message()), HasSubstr(text));
  };
  expect({.ca = folder_ + "none.pem"}, "none.pem");
  WriteTlsFile(folder_ + "bad.pem", "no certificate");
  expect({.ca = folder_ + "bad.pem"}, "bad.pem: there is no certificate in it");
  TlsFiles mixed = WriteTlsFiles(folder_, "one", all_.client, ca_);
  mixed.key = WriteTlsFiles(folder_, "two", all_.server).key;
  expect(mixed, "two.key: it is not the key of the certificate in ");
}

// Files are changed while connections are made: good ones are taken, and until then the last.
TEST_F(TlsCheckTest, CredentialsFollowTheFiles) {
  const TlsFiles files = WriteTlsFiles(folder_, "live", all_.client, ca_);
  const auto choice = TlsChoice::Make(files, "");
  ASSERT_TRUE(choice.ok()) << choice.status();
  const auto first = choice->credentials();
  EXPECT_EQ(choice->credentials(), first);
  const auto next = all_.Of("next", {"kerf://client/next"}, false, true);
  WriteTlsFile(files.certificate, next.certificate);
  EXPECT_EQ(choice->credentials(), first) << "its key is not there yet";
  WriteTlsFile(files.key, next.key);
  const auto second = choice->credentials();
  EXPECT_NE(second, first);
  std::filesystem::remove(files.certificate);
  EXPECT_EQ(choice->WithName("").credentials(), second);
}

}  // namespace
}  // namespace kerf::client
