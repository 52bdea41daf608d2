// Of calls about a repository in which their caller may do nothing: they cost that repository
// nothing, they cost him what any call costs, and they tell him nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/forwarding_index.h"
#include "server/index/memory_index.h"
#include "server/metrics/page.h"
#include "server/quota/testing/rules_gate.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

// A guard against a hang, not a measure.
constexpr std::chrono::seconds kPatience{30};

constexpr char kToken[] = "kerf_nightly_0123456789abcdefghijABCDEFGHIJ";
constexpr char kOwner[] =
    "[[identity]]\nname = \"token/nightly\"\n"
    "sha256 = \"b9d93d96a930687fbef49895b334ee4d075273f24e78a16082401e9c17925e35\"\n"
    "[[identity.grant]]\nrole = \"admin\"\nrepositories = [\"*\"]\n";

// Holds the thread that asks how large a repository is, until it is told to let it go.
class HoldingIndex final : public ForwardingIndex {
 public:
  HoldingIndex() : ForwardingIndex(CreateMemoryIndex()) {}

  void LetGo() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void WaitForCalls(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_count_ >= count; });
  }
  Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) override {
    {
      std::unique_lock lock(mutex_);
      ++held_count_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return is_open_; });
    }
    return ForwardingIndex::Stats(repository);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t held_count_ = 0;
  bool is_open_ = false;
};

// The owner of all shows a token; a stranger, who may read "mine", is this process' user.
class ForbiddenCallsTest : public ::testing::Test {
 protected:
  ~ForbiddenCallsTest() override {
    index_.LetGo();
    if (server_ != nullptr) server_->Stop();
    for (std::thread& caller : callers_) caller.join();
  }

  // `quota` is the stranger's; `repositories` may say more.
  void Start(const std::string& quota = "", const std::string& repositories = "") {
    rules_ = std::make_unique<RulesGate>(
        Cat(kOwner, "[[identity]]\nname = \"user/", getuid(), "\"\n", quota,
            "[[identity.grant]]\nrole = \"read\"\nrepositories = [\"mine\"]\n", repositories));
    ServerOptions options;
    options.listen = {FreshSocketAddress()};
    options.watchdog_interval = milliseconds(0);
    options.clock = [this] { return TimePoint(milliseconds(now_ms_.load())); };
    options.index_calls.max_calls = kMaxCalls;
    options.access = rules_->source();
    auto server = Server::Start(options, &index_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::IndexService::NewStub(ConnectTo(server_->addresses()[0]));
  }

  grpc::Status Ask(const std::string& repository, bool as_owner = false) {
    v1::GetIndexStatsRequest request;
    request.mutable_repository()->set_repository(repository);
    request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    v1::GetIndexStatsResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    if (as_owner) context.AddMetadata("authorization", Cat("Bearer ", kToken));
    return stub_->GetIndexStats(&context, request, &response);
  }
  // That are not answered yet.
  double CallCount() const {
    metrics::Page page;
    server_->AddMetrics(page);
    const std::string series = "\nkerf_index_calls ";
    return std::stod(page.text().substr(page.text().find(series) + series.size()));
  }
  // `count` calls of the owner, which have come to the index, and stay there.
  void Hold(const std::string& repository, std::size_t count) {
    for (std::size_t number = 0; number < count; ++number) {
      callers_.emplace_back([this, repository] { Ask(repository, /*as_owner=*/true); });
    }
    index_.WaitForCalls(held_count_ += count);
  }

  // Three quarters of them about one repository, and as many of one caller. Four have a thread.
  static constexpr std::size_t kMaxCalls = 8;
  static constexpr std::size_t kThreads = 4;

  HoldingIndex index_;
  std::unique_ptr<RulesGate> rules_;
  std::atomic<std::int64_t> now_ms_{1'000'000};
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::IndexService::Stub> stub_;
  std::vector<std::thread> callers_;
  std::size_t held_count_ = 0;
};

// They need no thread, so they wait for none, and for no place: that somebody else's calls wait is
// not heard in their answer, nor in how long it takes.
TEST_F(ForbiddenCallsTest, AreAnsweredThoughTheRepositoryIsBusy) {
  Start();
  Hold("victim", kThreads);
  const grpc::Status busy = Ask("victim");
  const grpc::Status unknown = Ask("nowhere");
  EXPECT_EQ(busy.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReasonOf(busy), "NOT_YOURS");
  EXPECT_EQ(ReasonOf(unknown), "NOT_YOURS");
  EXPECT_EQ(busy.error_message(), unknown.error_message());
}

TEST_F(ForbiddenCallsTest, SayTheSameWhereTheRepositoryHasNoPlaceLeft) {
  Start();
  Hold("victim", kThreads);
  // Two more of the owner's have its last places, and wait for a thread.
  const auto owners_reason = [&](std::string* reason) {
    callers_.emplace_back([this, reason] {
      const grpc::Status status = Ask("victim", /*as_owner=*/true);
      *reason = status.ok() ? "OK" : ReasonOf(status);
    });
  };
  std::vector<std::string> reasons(2);
  for (std::string& reason : reasons) owners_reason(&reason);
  while (CallCount() < 6) std::this_thread::yield();
  const grpc::Status full = Ask("victim");
  const grpc::Status unknown = Ask("nowhere");
  EXPECT_EQ(ReasonOf(full), "NOT_YOURS");
  EXPECT_EQ(full.error_message(), unknown.error_message());
  EXPECT_EQ(full.error_code(), unknown.error_code());
  index_.LetGo();
  for (std::thread& caller : std::exchange(callers_, {})) caller.join();
  EXPECT_EQ(reasons, std::vector<std::string>(2, "OK"));
}

// Each costs him one of his own, whatever it names, and the repository none of its.
TEST_F(ForbiddenCallsTest, CountForTheirCallerAlone) {
  Start("max_calls_per_second = 4\n",
        "[[repository]]\nname = \"victim\"\nmax_calls_per_second = 2\n");
  index_.LetGo();
  for (const char* name : {"victim", "nowhere", "victim", "nowhere"}) {
    EXPECT_EQ(ReasonOf(Ask(name)), "NOT_YOURS") << name;
  }
  for (const char* name : {"victim", "nowhere", "mine"}) {
    const grpc::Status status = Ask(name);
    EXPECT_EQ(ReasonOf(status), "QUOTA_EXCEEDED") << name;
    EXPECT_NE(status.error_message().find(Cat("user/", getuid())), std::string::npos) << name;
  }
  EXPECT_TRUE(Ask("victim", /*as_owner=*/true).ok());
  EXPECT_TRUE(Ask("victim", /*as_owner=*/true).ok());
  EXPECT_EQ(ReasonOf(Ask("victim", /*as_owner=*/true)), "QUOTA_EXCEEDED");
  now_ms_ += 1000;
  EXPECT_TRUE(Ask("mine").ok());
}

}  // namespace
}  // namespace kerf
