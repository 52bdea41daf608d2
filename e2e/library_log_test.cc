// What gRPC and protobuf say by themselves comes out as kerf's own lines, whatever peers put in it.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/rpc/line_rate.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "e2e/raw_http2.h"
#include "e2e/world.h"
#include "kerf/v1/chunking.grpc.pb.h"

namespace kerf::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

// A whole line in each format, what steers a terminal in 7 bits, in 8 and in UTF-8, and further
// ends of lines.
const std::string kEvil =
    "1S\n{\"time\":\"2000-01-01T00:00:00.000+00:00\",\"level\":\"error\",\"message\":\"FORGED\"}\n"
    "2000-01-01T00:00:00.000+00:00 error FORGED peer=FORGED\r\x1b[2J\x7f\x9b"
    "2J\xc2\x9b"
    "2J\xe2\x80\xa8"
    "FORGED";

Http2Headers HeadersOf(const std::string& path) {
  return {{":method", "POST"},    {":scheme", "http"}, {":path", path},
          {":authority", "kerf"}, {"te", "trailers"},  {"content-type", "application/grpc"},
          {"grpc-timeout", "9S"}};
}
constexpr char kUnary[] = "/kerf.v1.ChunkingService/GetCapabilities";

// With `value` under that name, in place of what there was.
Http2Headers HeadersWith(const std::string& name, const std::string& value) {
  Http2Headers headers = HeadersOf(kUnary);
  for (auto& header : headers) {
    if (header.first == name) {
      header.second = value;
      return headers;
    }
  }
  headers.emplace_back(name, value);
  return headers;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(in, line)) lines.push_back(line);
  return lines;
}

// Whom each peer meets: a kerfd, and a front of it.
class LibraryLogTest : public testing::Test {
 protected:
  static constexpr const char* kWorker = "w";
  static constexpr const char* kFront = "f";

  void Start(const std::string& format) {
    const std::vector<std::string> flags = {"--listen", "127.0.0.1:0", "--log-format",
                                            format,     "--log-level", "debug"};
    std::vector<std::string> of_worker = flags;
    of_worker.insert(of_worker.end(), {"--data-dir", world_ / "server/data"});
    std::vector<std::string> of_front = flags;
    of_front.insert(of_front.end(), {"--role", "front", "--workers", World::AddressOf(kWorker)});
    kerfds_.push_back(world_.StartKerfd(kWorker, of_worker));
    kerfds_.push_back(world_.StartKerfd(kFront, of_front));
    for (const auto& kerfd : kerfds_) ASSERT_NE(kerfd, nullptr);
  }
  // Over TCP there is a door, which says less than gRPC.
  std::vector<std::string> Addresses() const {
    return {Cat("unix:", world_ / "server/w.sock"), Cat("unix:", world_ / "server/f.sock"),
            world_.LastAddressOf(kWorker), world_.LastAddressOf(kFront)};
  }
  // What each has logged.
  std::vector<std::string> Stop() {
    std::vector<std::string> logs;
    for (auto kerfd = kerfds_.rbegin(); kerfd != kerfds_.rend(); ++kerfd) {
      (*kerfd)->Signal(SIGTERM);
      const Completed end = (*kerfd)->Wait();
      EXPECT_EQ(end.exit_code, 0) << end.err;
      logs.push_back(end.err);
    }
    return logs;
  }

  static RawConnection Connect(const std::string& address) {
    RawConnection connection(address);
    connection.Send(Cat(http2::kPreface, http2::Frame(http2::kSettings, 0, 0, "")));
    return connection;
  }
  static void Call(const std::string& address, const Http2Headers& headers,
                   const std::string& message = "") {
    RawConnection connection = Connect(address);
    connection.Send(
        Cat(http2::HeadersFrame(0, 1, headers), http2::DataFrame(http2::kEndStream, 1, message)));
    connection.AwaitRead();
  }
  // Everything that a stranger may send in words.
  static void SendEvil(const std::string& address) {
    for (const std::string name : {":method",
                                   ":scheme",
                                   ":path",
                                   ":authority",
                                   "te",
                                   "content-type",
                                   "grpc-timeout",
                                   "user-agent",
                                   "host",
                                   "grpc-encoding",
                                   "grpc-accept-encoding",
                                   "grpc-internal-encoding-request",
                                   "grpc-previous-rpc-attempts",
                                   "grpc-retry-pushback-ms",
                                   "grpc-status",
                                   "grpc-message",
                                   "grpc-tags-bin",
                                   "grpc-trace-bin",
                                   "grpc-server-stats-bin",
                                   "lb-token",
                                   "lb-cost-bin",
                                   "endpoint-load-metrics-bin",
                                   "x-envoy-peer-metadata",
                                   "kerf-request-id",
                                   "kerf-shard-key",
                                   "kerf-front",
                                   "kerf-worker",
                                   "x-anything",
                                   "x-anything-bin"}) {
      Call(address, HeadersWith(name, kEvil));
    }
    Call(address, HeadersWith(kEvil, "1"));
    Call(address, HeadersWith(":" + kEvil, "1"));
    // Field 1, of three bytes that are not UTF-8: a repository.
    Call(address, HeadersOf("/kerf.v1.IndexService/LookupChunks"), "\x0a\x03\x1b\xff\n");
    Call(address, HeadersOf("/kerf.v1.ChunkingService/Upload"), kEvil);
    RawConnection(address).Send(kEvil);
  }
  // That do not follow the rules of HTTP/2.
  static void SendBadFrames(const std::string& address) {
    for (int type = 0; type < 12; ++type) {
      for (const std::uint32_t stream : {0u, 1u, 2u}) {
        RawConnection connection = Connect(address);
        connection.Send(http2::Frame(static_cast<std::uint8_t>(type), http2::kEndHeaders, stream,
                                     "\xff\xff\n"));
        connection.AwaitRead();
      }
    }
  }

  World world_;
  std::vector<std::unique_ptr<Program>> kerfds_;
};

void ExpectNoControls(const std::string& line) {
  for (const char character : line) {
    const auto byte = static_cast<unsigned char>(character);
    EXPECT_TRUE(byte >= 0x20 && byte < 0x7F) << "byte " << static_cast<int>(byte) << " in " << line;
    if (testing::Test::HasFailure()) return;
  }
}

nlohmann::json ExpectJsonLine(const std::string& line) {
  ExpectNoControls(line);
  nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  EXPECT_TRUE(object.is_object()) << "not an object: " << line;
  if (!object.is_object()) return {};
  for (const char* key : {"time", "level", "message"}) EXPECT_TRUE(object.contains(key)) << line;
  EXPECT_THAT(object.value("time", ""), Not(HasSubstr("2000-01-01"))) << line;
  return object;
}

TEST_F(LibraryLogTest, NoWordOfAStrangerForgesALineOfJson) {
  Start("json");
  ASSERT_FALSE(HasFailure());
  for (const std::string& address : Addresses()) {
    SendEvil(address);
    SendBadFrames(address);
  }
  for (const std::string& log : Stop()) {
    std::set<std::string> components;
    for (const std::string& line : LinesOf(log)) {
      const nlohmann::json object = ExpectJsonLine(line);
      if (object.contains("component")) components.insert(object["component"]);
    }
    EXPECT_THAT(components, testing::Contains("grpc")) << "the test provokes nothing any more";
  }
}

TEST_F(LibraryLogTest, NoWordOfAStrangerForgesALineOfText) {
  Start("text");
  ASSERT_FALSE(HasFailure());
  for (const std::string& address : Addresses()) SendEvil(address);
  const std::regex wanted(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d (debug|info|warning|error) .*)");
  for (const std::string& log : Stop()) {
    for (const std::string& line : LinesOf(log)) {
      ExpectNoControls(line);
      EXPECT_TRUE(std::regex_match(line, wanted)) << line;
      EXPECT_THAT(line, Not(testing::StartsWith("2000-01-01"))) << line;
      // Outside of quotation marks there are kerf's own fields alone.
      const std::string unquoted = std::regex_replace(line, std::regex(R"("(\\.|[^"\\])*")"), "");
      EXPECT_THAT(unquoted, Not(HasSubstr("peer=FORGED"))) << line;
    }
    EXPECT_THAT(log, HasSubstr("component=grpc"));
  }
}

TEST_F(LibraryLogTest, AFloodIsCutToALineOrTenAndCounted) {
  constexpr std::uint32_t kFrames = 1'000;
  Start("json");
  ASSERT_FALSE(HasFailure());
  const std::string address = Addresses().front();
  RawConnection connection = Connect(address);
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t frame = 0; frame < kFrames; ++frame) {
    connection.Send(
        http2::HeadersFrame(http2::kEndStream, 2 * frame + 1, HeadersWith("grpc-timeout", kEvil)));
  }
  connection.AwaitRead();
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin)
          .count() +
      1;
  struct Lines {
    std::size_t said = 0;
    std::size_t left_out = 0;
  };
  std::map<std::string, Lines> by_source;
  for (const std::string& line : LinesOf(Stop().back())) {
    const nlohmann::json object = ExpectJsonLine(line);
    if (!object.contains("source")) continue;
    Lines& lines = by_source[object["source"]];
    if (object.contains("left_out")) {
      lines.left_out += std::stoul(object["left_out"].get<std::string>());
    } else {
      ++lines.said;
    }
  }
  EXPECT_FALSE(by_source.empty());
  std::size_t most = 0;
  for (const auto& [source, lines] : by_source) {
    EXPECT_LE(lines.said, LineRate::kLinesASecond * static_cast<std::size_t>(seconds)) << source;
    most = std::max(most, lines.said + lines.left_out);
  }
  EXPECT_EQ(most, kFrames) << "not every line was said or counted";
}

TEST_F(LibraryLogTest, APortThatIsTakenIsToldInJsonAlone) {
  Start("json");
  ASSERT_FALSE(HasFailure());
  for (const std::vector<std::string>& role :
       {std::vector<std::string>{"--data-dir", world_ / "server/other"},
        std::vector<std::string>{"--role", "front", "--workers", "127.0.0.1:1"}}) {
    std::vector<std::string> arguments = {BuiltProgram("server/kerfd"), "--listen",
                                          world_.LastAddressOf(kWorker), "--log-format", "json"};
    arguments.insert(arguments.end(), role.begin(), role.end());
    const Completed end = world_.Run(arguments);
    EXPECT_EQ(end.exit_code, 1);
    EXPECT_EQ(end.out, "");
    for (const std::string& line : LinesOf(end.err)) ExpectJsonLine(line);
    EXPECT_THAT(end.err, HasSubstr("the address is in use"));
  }
}

// Answers one call with a status that is no number.
class EvilServer {
 public:
  EvilServer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    KERF_CHECK(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&at), size) == 0 &&
               listen(listener_.get(), 8) == 0 &&
               getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
    address_ = Cat("127.0.0.1:", ntohs(at.sin_port));
    thread_ = std::jthread([this] { Serve(); });
  }
  ~EvilServer() { shutdown(listener_.get(), SHUT_RDWR); }
  EvilServer(const EvilServer&) = delete;
  EvilServer& operator=(const EvilServer&) = delete;

  const std::string& address() const { return address_; }

 private:
  void Serve() {
    while (true) {
      UniqueFd accepted(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (accepted.get() < 0) return;
      RawConnection connection(std::move(accepted));
      connection.Send(http2::Frame(http2::kSettings, 0, 0, ""));
      if (!connection.AwaitPreface() || !connection.AwaitFrame(http2::kHeaders)) continue;
      connection.Send(http2::HeadersFrame(http2::kEndStream, 1,
                                          {{":status", "200"},
                                           {"content-type", "application/grpc"},
                                           {"grpc-message", kEvil},
                                           {"grpc-status", kEvil}}));
      connection.AwaitEnd();
    }
  }

  UniqueFd listener_;
  std::string address_;
  std::jthread thread_;
};

TEST_F(LibraryLogTest, NoWordOfAServerForgesALineOfKerf) {
  const EvilServer server;
  const Completed ping = world_.Kerf({"ping", "--server", server.address()});
  EXPECT_NE(ping.exit_code, 0);
  EXPECT_EQ(ping.out, "");
  for (const std::string& line : LinesOf(ping.err)) {
    ExpectNoControls(line);
    EXPECT_THAT(line, testing::StartsWith("kerf: "));
  }
  EXPECT_THAT(ping.err, HasSubstr("kerf: grpc error: "));
}

// KerfJson looks at each line, and that there is nothing on standard error.
TEST_F(LibraryLogTest, NoWordOfAServerForgesALineOfJsonOfKerf) {
  const EvilServer server;
  const JsonRun ping = world_.KerfJson({"ping", "--server", server.address()});
  EXPECT_NE(ping.exit_code, 0);
  EXPECT_EQ(ping.messages.size(), ping.Of("library").size() + 1);
  EXPECT_GE(ping.Of("library").size(), 1u);
}

// Answers GetCapabilities well, in bad words.
class WordyServer {
 public:
  WordyServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }

  std::string address() const { return Cat("127.0.0.1:", port_); }

 private:
  class Service final : public v1::ChunkingService::Service {
   public:
    grpc::Status GetCapabilities(grpc::ServerContext*, const v1::GetCapabilitiesRequest*,
                                 v1::GetCapabilitiesResponse* response) override {
      response->set_version("1\nkerf: FORGED\x1b[2J\xc2\x9b");
      response->set_worker(response->version());
      return grpc::Status::OK;
    }
  };

  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(LibraryLogTest, NoAnswerOfAServerForgesALineOfKerf) {
  const WordyServer server;
  const Completed ping = world_.Kerf({"ping", "--server", server.address()});
  EXPECT_EQ(ping.exit_code, 0) << ping.err;
  const std::vector<std::string> lines = LinesOf(ping.out);
  EXPECT_EQ(lines.size(), 1u) << ping.out;
  for (const std::string& line : lines) ExpectNoControls(line);
  EXPECT_THAT(ping.out, HasSubstr("kerfd 1\\x0akerf: FORGED"));
}

}  // namespace
}  // namespace kerf::e2e
