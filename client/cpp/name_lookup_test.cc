#include "client/cpp/name_lookup.h"

#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "client/cpp/call_cancellation.h"

namespace kerf::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr char kHost[] = "a-name.example";
constexpr seconds kEndless{600};

// A name server that answers once it is told to; then, with an address of this machine.
class NameServer {
 public:
  // Whoever is left behind ends.
  ~NameServer() {
    Answer();
    while (state_->waiting > 0) std::this_thread::sleep_for(milliseconds(1));
  }

  Resolver resolver() const {
    return
        [state = state_](const char*, const char* port, const addrinfo* hints, addrinfo** found) {
          ++state->waiting;
          ++state->asked;
          while (!state->answers) std::this_thread::sleep_for(milliseconds(1));
          const int result = getaddrinfo("127.0.0.1", port, hints, found);
          --state->waiting;
          return result;
        };
  }
  void Answer() { state_->answers = true; }
  int asked() const { return state_->asked; }

 private:
  struct State {
    std::atomic<bool> answers = false;
    std::atomic<int> waiting = 0;
    std::atomic<int> asked = 0;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

TEST(NameLookupTest, AnAnswerIsGiven) {
  NameServer server;
  server.Answer();
  const Addresses found = LookUpName(kHost, "7461", kEndless, nullptr, server.resolver());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->ai_family, AF_INET);
  EXPECT_EQ(found->ai_socktype, SOCK_STREAM);
}

TEST(NameLookupTest, NobodyIsAskedForNumbers) {
  const NameServer server;
  for (const char* host : {"127.0.0.1", "::1"}) {
    EXPECT_NE(LookUpName(host, "7461", kEndless, nullptr, server.resolver()), nullptr) << host;
  }
  EXPECT_EQ(server.asked(), 0);
}

TEST(NameLookupTest, ANameServerThatDoesNotAnswerIsNotWaitedForLongerThanThat) {
  const NameServer server;
  EXPECT_EQ(LookUpName(kHost, "7461", milliseconds(100), nullptr, server.resolver()), nullptr);
}

// As by Ctrl-C, and at the end of a backup that has failed.
TEST(NameLookupTest, ACancellationEndsTheWait) {
  const NameServer server;
  CallCancellation cancellation;
  std::thread ends([&] {
    while (server.asked() == 0) std::this_thread::sleep_for(milliseconds(1));
    cancellation.Cancel();
  });
  const auto began = steady_clock::now();
  EXPECT_EQ(LookUpName(kHost, "7461", kEndless, &cancellation, server.resolver()), nullptr);
  EXPECT_LT(steady_clock::now() - began, kEndless);
  ends.join();
}

TEST(NameLookupTest, NotManyAreLeftBehind) {
  const NameServer server;
  for (int count = 0; count < kMaxLookups + 5; ++count) {
    EXPECT_EQ(LookUpName(kHost, "7461", milliseconds(20), nullptr, server.resolver()), nullptr);
  }
  EXPECT_LE(server.asked(), kMaxLookups);
}

}  // namespace
}  // namespace kerf::client
