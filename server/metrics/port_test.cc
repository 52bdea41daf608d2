// The HTTP port as peers see it, good ones and others.
#include "server/metrics/port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf::metrics {
namespace {

using std::chrono::milliseconds;

UniqueFd Connect(const std::string& address) {
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port =
      htons(static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1))));
  inet_pton(AF_INET, "127.0.0.1", &peer.sin_addr);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // A test that would hang fails.
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof peer), 0);
  return fd;
}

void Say(const UniqueFd& fd, const std::string& text) {
  // The other side may have closed.
  static_cast<void>(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL));
}

// Until the other side closes; "TIMEOUT" at the end if it does not.
std::string HearOut(const UniqueFd& fd) {
  std::string heard;
  char buffer[4096];
  while (true) {
    const ssize_t got = recv(fd.get(), buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return heard + "TIMEOUT";
    if (got <= 0) return heard;
    heard.append(buffer, static_cast<std::size_t>(got));
  }
}

std::string Get(const std::string& address, const std::string& path,
                const std::string& method = "GET") {
  const UniqueFd fd = Connect(address);
  Say(fd, Cat(method, " ", path, " HTTP/1.1\r\nHost: h\r\n\r\n"));
  return HearOut(fd);
}

std::size_t OpenFdCount() {
  return static_cast<std::size_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

HttpAnswer Hello(const HttpQuestion& question) {
  return {.body = Cat("hello ", question.path, "\n")};
}

std::unique_ptr<HttpListener> Listen(const HttpLimits& limits) {
  auto listener = HttpListener::Start("127.0.0.1:0", limits, Hello);
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

TEST(PortTest, HasAPageForPeople) {
  // From the start, whatever serves.
  const auto port = Port::Open("127.0.0.1:0", "all");
  ASSERT_TRUE(port.ok()) << port.status();
  for (const auto& [path, type, text] : std::vector<std::array<std::string, 3>>{
           {"/", "text/html", "<script src=\"status.js\" defer>"},
           {"/?x", "text/html", "<link rel=\"stylesheet\" href=\"status.css\">"},
           {"/status.css", "text/css", "prefers-color-scheme"},
           {"/status.js", "text/javascript", "'use strict'"}}) {
    const std::string answer = Get((*port)->address(), path);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
    EXPECT_NE(answer.find(Cat("Content-Type: ", type, "; charset=utf-8\r\n")), std::string::npos);
    EXPECT_NE(answer.find("Content-Security-Policy: default-src 'none'; script-src 'self'; "),
              std::string::npos);
    EXPECT_NE(answer.find(text), std::string::npos) << path;
  }
  for (const std::string path : {"/status", "/status.js/", "//", "/status.html", "/index.html"}) {
    EXPECT_TRUE(Get((*port)->address(), path).starts_with("HTTP/1.1 404 ")) << path;
  }
  EXPECT_EQ(Get((*port)->address(), "/metrics").find("Content-Security-Policy"), std::string::npos);
}

TEST(PortTest, TellsWhetherItIsAliveAndReady) {
  const auto port = Port::Open("127.0.0.1:0", "all");
  ASSERT_TRUE(port.ok()) << port.status();
  const std::string& address = (*port)->address();
  EXPECT_TRUE(Get(address, "/healthz").starts_with("HTTP/1.1 200 "));
  // There is nothing yet that serves.
  EXPECT_TRUE(Get(address, "/readyz").starts_with("HTTP/1.1 503 "));
  absl::Status readiness;
  (*port)->Show({.readiness = [&] { return readiness; },
                 .add_metrics = [](Page& page) { page.Add(kStreams, 7); }});
  EXPECT_TRUE(Get(address, "/readyz").starts_with("HTTP/1.1 200 "));
  const std::string page = Get(address, "/metrics?collect[]=x");
  EXPECT_TRUE(page.starts_with("HTTP/1.1 200 ")) << page;
  EXPECT_NE(page.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("\nkerf_streams 7\n"), std::string::npos) << page;
  EXPECT_NE(page.find("\nkerf_ready 1\n"), std::string::npos) << page;
  EXPECT_NE(page.find("role=\"all\"} 1\n"), std::string::npos) << page;
  for (const Metric* metric :
       {&kProcessCpuSeconds, &kProcessStartTime, &kProcessResidentBytes, &kProcessVirtualBytes,
        &kProcessOpenFds, &kProcessMaxFds, &kProcessThreads, &kLogLinesLost}) {
    EXPECT_NE(page.find(Cat("\n", metric->name, " ")), std::string::npos) << metric->name;
  }
  readiness = absl::UnavailableError("the sky is falling");
  EXPECT_NE(Get(address, "/readyz").find("not ready: the sky is falling\n"), std::string::npos);
  readiness = absl::OkStatus();
  absl::Status liveness;
  (*port)->Show({.readiness = [&] { return readiness; },
                 .add_metrics = [](Page& /*page*/) {},
                 .liveness = [&] { return liveness; }});
  EXPECT_TRUE(Get(address, "/healthz").starts_with("HTTP/1.1 200 "));
  liveness = absl::UnavailableError("it is deaf");
  const std::string dead = Get(address, "/healthz");
  EXPECT_TRUE(dead.starts_with("HTTP/1.1 503 ")) << dead;
  EXPECT_NE(dead.find("to be started anew: it is deaf\n"), std::string::npos) << dead;
  liveness = absl::OkStatus();
  (*port)->BeginDrain();
  const std::string draining = Get(address, "/readyz");
  EXPECT_TRUE(draining.starts_with("HTTP/1.1 503 ")) << draining;
  EXPECT_NE(Get(address, "/metrics").find("\nkerf_draining 1\n"), std::string::npos);
  EXPECT_TRUE(Get(address, "/healthz").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(Get(address, "/elsewhere").starts_with("HTTP/1.1 404 "));
}

TEST(HttpListenerTest, AnswersGetAndHeadAlone) {
  const auto listener = Listen({});
  EXPECT_TRUE(Get(listener->address(), "/x").ends_with("\r\n\r\nhello /x\n"));
  const std::string head = Get(listener->address(), "/x", "HEAD");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 ")) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
  EXPECT_NE(head.find("Content-Length: 9\r\n"), std::string::npos) << head;
  for (const char* method : {"POST", "PUT", "DELETE", "NONSENSE"}) {
    const std::string answer = Get(listener->address(), "/x", method);
    EXPECT_EQ(answer.find("hello"), std::string::npos) << answer;
    EXPECT_FALSE(answer.ends_with("TIMEOUT")) << answer;
  }
}

TEST(HttpListenerTest, SurvivesWhatIsNoHttp) {
  const auto listener = Listen({.max_request_bytes = 4096});
  const std::vector<std::string> messages = {
      "\r\n\r\n",
      std::string(64, '\0') + "\r\n\r\n",
      "GET\r\n\r\n",
      "GET  HTTP/1.1\r\n\r\n",
      "GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\n\r\n",
      "GET /x HTTP/1.1\r\n" + std::string(1 << 20, 'h'),
      "GET /x HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
      "GET /x HTTP/1.1\r\nno colon\r\n\r\n",
      "GET /x HTTP/9.9\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
  for (const std::string& message : messages) {
    const UniqueFd fd = Connect(listener->address());
    Say(fd, message);
    shutdown(fd.get(), SHUT_WR);
    EXPECT_FALSE(HearOut(fd).ends_with("TIMEOUT")) << message.substr(0, 40);
    EXPECT_TRUE(Get(listener->address(), "/x").ends_with("hello /x\n")) << message.substr(0, 40);
  }
}

TEST(HttpListenerTest, AConnectionHasItsTime) {
  const auto listener = Listen({.connection_time = milliseconds(300)});
  const UniqueFd silent = Connect(listener->address());
  // A byte now and then is no reason to go on waiting.
  const UniqueFd slow = Connect(listener->address());
  std::atomic<bool> is_over{false};
  std::thread talker([&] {
    while (!is_over.load()) {
      Say(slow, "G");
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  EXPECT_FALSE(HearOut(silent).ends_with("TIMEOUT"));
  EXPECT_FALSE(HearOut(slow).ends_with("TIMEOUT"));
  is_over = true;
  talker.join();
}

TEST(HttpListenerTest, ManySilentConnectionsKeepNobodyOut) {
  constexpr std::size_t kConnections = 300;
  const auto listener = Listen({.max_connections = 8, .connection_time = milliseconds(60'000)});
  const std::size_t fds_before = OpenFdCount();
  {
    std::vector<UniqueFd> silent;
    silent.reserve(kConnections);
    for (std::size_t index = 0; index < kConnections; ++index) {
      silent.push_back(Connect(listener->address()));
    }
    EXPECT_TRUE(Get(listener->address(), "/x").ends_with("hello /x\n"));
    // Those that are still open have one on either side.
    for (int round = 0; round < 200 && OpenFdCount() > fds_before + kConnections + 16; ++round) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_LE(OpenFdCount(), fds_before + kConnections + 16);
  }
  for (int round = 0; round < 200 && OpenFdCount() > fds_before; ++round) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_LE(OpenFdCount(), fds_before) << "a socket is left open";
}

TEST(HttpListenerTest, SaysWhatIsWrongWithAnAddress) {
  const auto listener = Listen({});
  EXPECT_EQ(HttpListener::Start(listener->address(), {}, Hello).status().code(),
            absl::StatusCode::kFailedPrecondition);
  for (const char* address : {"unix:/tmp/x", "nonsense", "h:99999", ":1"}) {
    EXPECT_EQ(HttpListener::Start(address, {}, Hello).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

}  // namespace
}  // namespace kerf::metrics
