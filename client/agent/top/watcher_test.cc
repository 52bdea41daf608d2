// What is asked, and what is made of the answers, of servers that say what a test tells them to.
#include "client/agent/top/watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/strings.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "kerf/v1/routing.grpc.pb.h"
#include "kerf/v1/status.grpc.pb.h"

namespace kerf::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// A front if it has a list, else a worker. Listens on a free port until it is destroyed.
class FakeServer final : public v1::RoutingService::Service, public v1::StatusService::Service {
 public:
  explicit FakeServer(bool is_front) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    if (is_front) builder.RegisterService(static_cast<v1::RoutingService::Service*>(this));
    builder.RegisterService(static_cast<v1::StatusService::Service*>(this));
    server_ = builder.BuildAndStart();
    KERF_CHECK(server_ != nullptr);
  }
  ~FakeServer() override { Stop(); }

  std::string address() const { return Cat("127.0.0.1:", port_); }
  void Stop() { server_->Shutdown(std::chrono::system_clock::now()); }

  void Add(const std::string& name, const std::string& address, const std::string& lost) {
    const std::lock_guard lock(mutex_);
    v1::WorkerState& worker = *list_.add_workers();
    worker.set_worker(name);
    worker.set_address(address);
    worker.set_lost(lost);
  }
  void Forget(const std::string& address) {
    const std::lock_guard lock(mutex_);
    v1::ListWorkersResponse left;
    for (const v1::WorkerState& worker : list_.workers()) {
      if (worker.address() != address) *left.add_workers() = worker;
    }
    list_ = std::move(left);
  }
  void SetLost(const std::string& address, const std::string& lost) {
    const std::lock_guard lock(mutex_);
    for (v1::WorkerState& worker : *list_.mutable_workers()) {
      if (worker.address() == address) worker.set_lost(lost);
    }
  }
  void CallEveryWorker(const std::string& name) { name_ = name; }
  // Of the worker that is asked for by this name.
  void SetProcess(const std::string& name, std::uint64_t process) {
    const std::lock_guard lock(mutex_);
    processes_[name] = process;
  }
  // As fronts from before there were lists.
  void KnowNoLists() { knows_lists_ = false; }
  void RefuseWorker(const std::string& name) { refused_ = name; }
  void StaySilent() { is_silent_ = true; }
  // That workers were asked for, "" for the server itself.
  std::multiset<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  grpc::Status ListWorkers(grpc::ServerContext* /*context*/,
                           const v1::ListWorkersRequest* /*request*/,
                           v1::ListWorkersResponse* response) override {
    if (!knows_lists_) return {grpc::StatusCode::UNIMPLEMENTED, "says the worker behind it"};
    const std::lock_guard lock(mutex_);
    *response = list_;
    return grpc::Status::OK;
  }
  grpc::Status Locate(grpc::ServerContext* /*context*/, const v1::LocateRequest* /*request*/,
                      v1::LocateResponse* /*response*/) override {
    return grpc::Status::OK;
  }
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* /*request*/,
                         v1::GetStatusResponse* response) override {
    const auto found = context->client_metadata().find("kerf-worker-bin");
    const std::string name = found == context->client_metadata().end()
                                 ? ""
                                 : std::string(found->second.data(), found->second.size());
    {
      const std::lock_guard lock(mutex_);
      asked_.insert(name);
      response->mutable_counts()->set_process(processes_[name]);
    }
    while (is_silent_ && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!refused_.empty() && name == refused_) return {grpc::StatusCode::UNAVAILABLE, "it is away"};
    response->mutable_counts()->set_worker(name_.empty() ? Cat("I am ", name) : name_);
    return grpc::Status::OK;
  }

  bool knows_lists_ = true;
  std::string refused_;
  std::string name_;
  bool is_silent_ = false;
  int port_ = 0;
  std::mutex mutex_;
  v1::ListWorkersResponse list_;
  std::map<std::string, std::uint64_t> processes_;
  std::multiset<std::string> asked_;
  // Last: its calls use all of the above.
  std::unique_ptr<grpc::Server> server_;
};

class WatcherTest : public testing::Test {
 protected:
  WorkerLooks LookAt(const std::vector<std::string>& servers) {
    auto watcher = Watcher::Create({absl::StrJoin(servers, ",")}, cancelled_);
    KERF_CHECK(watcher.ok());
    return (*watcher)->Look();
  }
  static std::vector<std::string> StatesOf(const WorkerLooks& looks) {
    std::vector<std::string> states;
    for (const WorkerLook& look : looks) {
      states.push_back(
          Cat(look.name, " ", StateOf(look), look.error.empty() ? "" : ": ", look.error));
    }
    return states;
  }

  std::atomic<bool> cancelled_ = false;
  std::chrono::steady_clock::time_point now_;
};

TEST_F(WatcherTest, AWorkerIsAskedItself) {
  FakeServer worker(/*is_front=*/false);
  const WorkerLooks looks = LookAt({worker.address()});
  ASSERT_EQ(looks.size(), 1u);
  EXPECT_EQ(looks[0].address, worker.address());
  EXPECT_EQ(looks[0].status.value().counts().worker(), "I am ");
  EXPECT_THAT(worker.asked(), ElementsAre(""));
}

// Whoever watches may not reach the workers, nor believe what a front says of where they are.
TEST_F(WatcherTest, AFrontIsAskedForEachOfItsWorkers) {
  FakeServer worker(/*is_front=*/false);
  FakeServer front(/*is_front=*/true);
  const std::string odd = "b\n\x1b[2J";
  front.Add("c", "10.255.255.1:1", "");
  front.Add(odd, worker.address(), "");
  front.Add("a", "10.255.255.1:2", "it has gone");
  front.Add("d", "10.255.255.1:3", "");
  front.RefuseWorker("d");
  const WorkerLooks looks = LookAt({front.address()});
  // Those that answer have the names that they give themselves.
  EXPECT_THAT(StatesOf(looks), ElementsAre(Cat("I am ", odd, " serving"), "I am c serving",
                                           "a lost: it has gone", "d lost: it is away"));
  EXPECT_THAT(front.asked(), ElementsAre(odd, "c", "d"));
  EXPECT_THAT(worker.asked(), ElementsAre());
}

TEST_F(WatcherTest, WorkersOfTwoFrontsAreShownOnce) {
  FakeServer left(/*is_front=*/true);
  FakeServer right(/*is_front=*/true);
  left.Add("a", "host:1", "it is away for me");
  left.Add("b", "host:2", "");
  right.Add("a", "host:1", "");
  right.Add("b", "host:2", "it is away for me");
  EXPECT_THAT(StatesOf(LookAt({left.address(), right.address()})),
              ElementsAre("I am a serving", "I am b serving"));
}

TEST_F(WatcherTest, AServerThatDoesNotAnswerIsLostAndNoOtherIs) {
  FakeServer gone(/*is_front=*/true);
  FakeServer worker(/*is_front=*/false);
  gone.Stop();
  const WorkerLooks looks = LookAt({gone.address(), worker.address()});
  ASSERT_EQ(looks.size(), 2u);
  EXPECT_EQ(LostCountOf(looks), 1u);
  const WorkerLook* const lost = FindLook(looks, gone.address());
  ASSERT_NE(lost, nullptr);
  EXPECT_FALSE(lost->status.has_value());
  EXPECT_THAT(lost->error, HasSubstr("refused"));
}

TEST_F(WatcherTest, WhoIsLostKeepsItsName) {
  FakeServer worker(/*is_front=*/false);
  const auto watcher = *Watcher::Create({worker.address()}, cancelled_);
  EXPECT_THAT(StatesOf(watcher->Look()), ElementsAre("I am  serving"));
  worker.Stop();
  EXPECT_THAT(StatesOf(watcher->Look()), ElementsAre(::testing::StartsWith("I am  lost: ")));
}

// It would meet just any worker.
TEST_F(WatcherTest, AWorkerWithoutANameIsNotAsked) {
  FakeServer front(/*is_front=*/true);
  front.Add("", "host:1", "");
  EXPECT_THAT(StatesOf(LookAt({front.address()})),
              ElementsAre(" lost: its front does not know its name"));
  EXPECT_THAT(front.asked(), ElementsAre());
}

TEST_F(WatcherTest, AFrontThatKnowsNoListsIsToldFromAWorker) {
  FakeServer front(/*is_front=*/true);
  front.KnowNoLists();
  EXPECT_THAT(StatesOf(LookAt({front.address()})),
              ElementsAre(" lost: a front that is older than this kerf, and does not list its "
                          "workers"));
  EXPECT_THAT(front.asked(), ElementsAre());
}

TEST_F(WatcherTest, WhomNobodyNamesAnyMoreIsShownForAWhile) {
  FakeServer front(/*is_front=*/true);
  front.Add("a", "host:1", "");
  front.Add("b", "host:2", "");
  front.Add("c", "host:3", "it was never there");
  const auto watcher = *Watcher::Create({front.address()}, cancelled_, [this] { return now_; });
  EXPECT_EQ(LostCountOf(watcher->Look()), 1u);
  // As when its machine dies: lost at first, and then its name server forgets it.
  front.SetLost("host:1", "it does not answer");
  now_ += std::chrono::seconds(50);
  EXPECT_THAT(StatesOf(watcher->Look()),
              ElementsAre("I am a lost: it does not answer", "I am b serving",
                          "c lost: it was never there"));
  front.Forget("host:1");
  front.Forget("host:3");
  now_ += Watcher::kGoneTime - std::chrono::seconds(1);
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(
        StatesOf(watcher->Look()),
        ElementsAre("I am a lost: no front that answers names it any more", "I am b serving"));
  }
  now_ += std::chrono::seconds(1);
  EXPECT_THAT(StatesOf(watcher->Look()), ElementsAre("I am b serving"));
}

TEST_F(WatcherTest, WhoComesBackElsewhereIsNotMissed) {
  FakeServer front(/*is_front=*/true);
  front.Add("a", "host:1", "");
  front.Add("b", "host:2", "");
  const auto watcher = *Watcher::Create({front.address()}, cancelled_, [this] { return now_; });
  EXPECT_EQ(LostCountOf(watcher->Look()), 0u);
  front.Forget("host:1");
  EXPECT_EQ(LostCountOf(watcher->Look()), 1u);
  front.Add("a", "host:9", "");
  EXPECT_THAT(StatesOf(watcher->Look()), ElementsAre("I am a serving", "I am b serving"));
}

class WaysTest : public WatcherTest {
 protected:
  WaysTest() {
    worker_.SetProcess("", 7);
    front_.Add("one", "0.0.0.1:1", "");
    front_.SetProcess("one", 7);
    front_.Add("two", "0.0.0.2:1", "");
    front_.SetProcess("two", 8);
  }
  // What is shown, and where.
  std::vector<std::string> Shown() {
    std::vector<std::string> shown;
    for (const WorkerLook& look : watcher_->Look()) {
      shown.push_back(
          Cat(look.address == worker_.address() ? "worker" : look.address, " ", StateOf(look)));
    }
    return shown;
  }

  FakeServer worker_{/*is_front=*/false};
  FakeServer front_{/*is_front=*/true};
  const std::unique_ptr<Watcher> watcher_ =
      *Watcher::Create({Cat(front_.address(), ",", worker_.address())}, cancelled_);
};

TEST_F(WaysTest, AProcessIsShownOnceWhereTheUserNamedIt) {
  EXPECT_THAT(Shown(), UnorderedElementsAre("worker serving", "0.0.0.2:1 serving"));
  // Lost in one way, and then in both.
  front_.SetLost("0.0.0.1:1", "it does not answer");
  EXPECT_THAT(Shown(), UnorderedElementsAre("worker serving", "0.0.0.2:1 serving"));
  worker_.Stop();
  EXPECT_THAT(Shown(), UnorderedElementsAre("worker lost", "0.0.0.2:1 serving"));
  // The front still reaches it.
  front_.SetLost("0.0.0.1:1", "");
  EXPECT_THAT(Shown(), UnorderedElementsAre("worker serving", "0.0.0.2:1 serving"));
  // It has gone from the front, and is hidden no more, nor missed.
  front_.Forget("0.0.0.1:1");
  EXPECT_THAT(Shown(), UnorderedElementsAre("worker lost", "0.0.0.2:1 serving"));
}

TEST_F(WaysTest, AnotherProcessAtItsAddressIsShown) {
  EXPECT_EQ(Shown().size(), 2u);
  front_.SetProcess("one", 9);
  EXPECT_THAT(Shown(),
              UnorderedElementsAre("worker serving", "0.0.0.1:1 serving", "0.0.0.2:1 serving"));
  // Those that do not tell who they are are as many as their addresses.
  worker_.SetProcess("", 0);
  front_.SetProcess("one", 0);
  EXPECT_EQ(Shown().size(), 3u);
}

TEST_F(WatcherTest, AFrontCannotMakeItAskForEver) {
  FakeServer front(/*is_front=*/true);
  for (int number = 0; number < 3000; ++number) front.Add(Cat(number), Cat("host:", number), "");
  EXPECT_EQ(LookAt({front.address()}).size(), 1024u);
  EXPECT_EQ(front.asked().size(), 1024u);
}

TEST_F(WatcherTest, WhatAServerSaysTakesLittleRoom) {
  FakeServer front(/*is_front=*/true);
  front.Add("a", "host:1", std::string(1'000'000, 'x'));
  front.Add("b", "host:2", "");
  front.CallEveryWorker(std::string(1'000'000, 'y'));
  const WorkerLooks looks = LookAt({front.address()});
  ASSERT_EQ(looks.size(), 2u);
  EXPECT_EQ(looks[0].error, std::string(500, 'x'));
  EXPECT_FALSE(looks[1].status.has_value());
  EXPECT_EQ(looks[1].error, "its answer has more than 65536 bytes");
}

TEST_F(WatcherTest, AnInterruptEndsTheQuestions) {
  FakeServer worker(/*is_front=*/false);
  worker.StaySilent();
  auto looks = std::async(std::launch::async, [&] { return LookAt({worker.address()}); });
  while (worker.asked().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto begin = std::chrono::steady_clock::now();
  cancelled_ = true;
  EXPECT_EQ(LostCountOf(looks.get()), 1u);
  // Before the server's time to answer is over.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
}

TEST_F(WatcherTest, WhatIsNoAddressIsRefused) {
  EXPECT_FALSE(Watcher::Create({"nonsense"}, cancelled_).ok());
}

}  // namespace
}  // namespace kerf::agent
