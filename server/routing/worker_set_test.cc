// Workers that come, go, drain and fall silent, as real servers in this process.
#include "server/routing/worker_set.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "server/edge/testing/test_upload.h"
#include "server/edge/testing/test_worker.h"
#include "server/errors/errors.h"
#include "server/net/shard_key.h"
#include "server/routing/rendezvous.h"

namespace kerf::routing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

// A guard against a hang, not a measure.
constexpr std::chrono::seconds kPatience{30};

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + kPatience;
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

// Takes connections, and says nothing.
class SilentListener {
 public:
  SilentListener() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    KERF_CHECK(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    KERF_CHECK(listen(socket_, 8) == 0);
    socklen_t size = sizeof address;
    KERF_CHECK(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    address_ = Cat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~SilentListener() { close(socket_); }

  const std::string& address() const { return address_; }

 private:
  const int socket_;
  std::string address_;
};

// What a name server says, as the test goes on. Lookups may outlive the test.
class TestNames {
 public:
  using Answer = absl::StatusOr<HostAddresses>;

  void Set(Answer answer) {
    const std::lock_guard lock(shared_->mutex);
    shared_->answer = std::move(answer);
  }
  LookUpHost look_up() const {
    return [shared = shared_](const std::string&) {
      const std::lock_guard lock(shared->mutex);
      return shared->answer;
    };
  }

 private:
  struct Shared {
    std::mutex mutex;
    Answer answer = absl::UnavailableError("no such name");
  };
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

class WorkerSetTest : public testing::Test {
 protected:
  static WorkerSetOptions Options(const std::vector<std::string>& addresses) {
    WorkerSetOptions options;
    for (const std::string& address : addresses) {
      options.workers.push_back(*ParseWorkerAddress(address));
    }
    options.check_times = {.interval = milliseconds(20), .max_interval = milliseconds(50)};
    options.refresh = milliseconds(20);
    options.seed = TestSeed();
    return options;
  }
  static std::string NameOf(const WorkerSet& workers, std::string_view key) {
    const auto route = workers.Pick(key, CallKind::kUpload);
    return route.ok() ? route->name : ReasonNameOf(route.status());
  }
  // Of many keys: who has any.
  static std::set<std::string> NamesOf(const WorkerSet& workers) {
    std::set<std::string> names;
    for (int key = 0; key < 200; ++key) names.insert(NameOf(workers, Cat("key-", key)));
    return names;
  }
};

TEST_F(WorkerSetTest, TwoFrontsAgree) {
  TestWorker one(FreshSocketAddress());
  TestWorker two(FreshSocketAddress());
  TestWorker three(FreshSocketAddress());
  const WorkerSet left(Options({one.address(), two.address(), three.address()}));
  // In another order.
  const WorkerSet right(Options({three.address(), one.address(), two.address()}));
  ASSERT_TRUE(left.WaitForFirstChecks(kPatience));
  ASSERT_TRUE(right.WaitForFirstChecks(kPatience));
  EXPECT_EQ(left.live_count(), 3u);
  for (int key = 0; key < 200; ++key) {
    EXPECT_EQ(NameOf(left, Cat("key-", key)), NameOf(right, Cat("key-", key)));
  }
  EXPECT_EQ(NamesOf(left).size(), 3u);
  const auto place = left.Locate("key-0");
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->name, NameOf(left, "key-0"));
  EXPECT_EQ(place->address, place->name);
}

TEST_F(WorkerSetTest, WhoIsGoneLosesItsKeysAndGetsThemBack) {
  TestWorker stays(FreshSocketAddress());
  const std::string address = FreshSocketAddress();
  auto leaves = std::make_unique<TestWorker>(address);
  std::mutex mutex;
  std::vector<bool> said;
  WorkerSetOptions options = Options({stays.address(), address});
  options.on_liveness = [&](bool has_live) {
    const std::lock_guard lock(mutex);
    said.push_back(has_live);
  };
  WorkerSet workers(options);
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  ASSERT_EQ(workers.live_count(), 2u);
  leaves.reset();
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 1; }));
  EXPECT_EQ(NamesOf(workers), std::set<std::string>{stays.address()});
  leaves = std::make_unique<TestWorker>(address);
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 2; }));
  // It says NOT_SERVING before it goes.
  leaves->server().BeginDrain(milliseconds(60'000));
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 1; }));
  stays.server().BeginDrain(milliseconds(60'000));
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 0; }));
  const auto none = workers.Pick("key", CallKind::kUpload);
  EXPECT_EQ(ReasonNameOf(none.status()), "NO_WORKER");
  EXPECT_THAT(std::string(none.status().message()),
              testing::AllOf(HasSubstr(stays.address()), HasSubstr("does not serve")));
  EXPECT_EQ(ReasonNameOf(workers.Locate("key").status()), "NO_WORKER");
  const std::lock_guard lock(mutex);
  EXPECT_THAT(said, testing::ElementsAre(true, false));
}

TEST_F(WorkerSetTest, WhoIsSilentIsLostLater) {
  const SilentListener silent;
  const std::string nobody = FreshSocketAddress();
  WorkerSetOptions options = Options({silent.address(), nobody});
  options.check_timeout = milliseconds(100);
  const WorkerSet workers(options);
  const auto began = steady_clock::now();
  EXPECT_TRUE(workers.WaitForFirstChecks(kPatience));
  EXPECT_LT(steady_clock::now() - began, std::chrono::seconds(10));
  EXPECT_EQ(workers.live_count(), 0u);
  const std::string message(workers.Pick("key", CallKind::kUpload).status().message());
  EXPECT_THAT(message, HasSubstr(Cat(silent.address(), ": it does not answer")));
  EXPECT_THAT(message, HasSubstr(Cat(nobody, ": ")));
}

TEST_F(WorkerSetTest, AWorkerTakesSoManyCalls) {
  TestWorker one(FreshSocketAddress());
  WorkerSetOptions options = Options({one.address()});
  options.max_calls_per_worker = {2, 1};
  const WorkerSet workers(options);
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  auto first = workers.Pick("a", CallKind::kUpload);
  auto second = workers.Pick("", CallKind::kUpload);
  ASSERT_TRUE(first.ok() && second.ok());
  const auto third = workers.Pick("b", CallKind::kUpload);
  EXPECT_EQ(ReasonNameOf(third.status()), "TOO_MANY_STREAMS");
  EXPECT_THAT(std::string(third.status().message()), HasSubstr(one.address()));
  // Others have places of their own.
  const auto other = workers.Pick("b", CallKind::kOther);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(ReasonNameOf(workers.Pick("b", CallKind::kOther).status()), "TOO_MANY_CALLS");
  *first = *std::move(second);
  EXPECT_TRUE(workers.Pick("b", CallKind::kUpload).ok());
}

TEST_F(WorkerSetTest, CallsWithoutAKeyGoWhereThereAreFewest) {
  TestWorker one(FreshSocketAddress());
  TestWorker two(FreshSocketAddress());
  const WorkerSet workers(Options({one.address(), two.address()}));
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  std::map<std::string, int> counts;
  std::vector<Route> routes;
  for (int call = 0; call < 10; ++call) {
    auto route = workers.Pick("", CallKind::kUpload);
    ASSERT_TRUE(route.ok());
    ++counts[route->name];
    routes.push_back(*std::move(route));
  }
  EXPECT_EQ(counts[one.address()], 5);
  EXPECT_EQ(counts[two.address()], 5);
}

// As whoever watches the workers sees them: alive or not, one line each.
std::vector<std::string> StatesOf(const WorkerSet& workers) {
  std::vector<std::string> states;
  for (const WorkerState& state : workers.States()) {
    states.push_back(Cat(state.place.name, " at ", state.place.address, " ",
                         state.lost.empty() ? "lives" : state.lost));
  }
  return states;
}

TEST_F(WorkerSetTest, AWorkerIsFoundByItsName) {
  TestWorker one(FreshSocketAddress());
  auto two = std::make_unique<TestWorker>(FreshSocketAddress());
  const std::string lost = two->address();
  const WorkerSet workers(Options({one.address(), lost}));
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  for (const std::string& name : {one.address(), lost}) {
    const auto route = workers.PickNamed(name, CallKind::kOther);
    ASSERT_TRUE(route.ok());
    EXPECT_EQ(route->name, name);
    EXPECT_EQ(route->permit.worker()->address(), name);
  }
  EXPECT_EQ(ReasonNameOf(workers.PickNamed("nobody", CallKind::kOther).status()), "NO_WORKER");
  EXPECT_EQ(ReasonNameOf(workers.PickNamed("", CallKind::kOther).status()), "NO_WORKER");
  EXPECT_EQ(workers.States().size(), 2u);
  two.reset();
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 1; }));
  EXPECT_EQ(ReasonNameOf(workers.PickNamed(lost, CallKind::kOther).status()), "NO_WORKER");
  const std::vector<std::string> states = StatesOf(workers);
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[0], Cat(one.address(), " at ", one.address(), " lives"));
  EXPECT_THAT(states[1], testing::StartsWith(Cat(lost, " at ", lost, " ")));
  EXPECT_THAT(states[1], testing::Not(HasSubstr("lives")));
}

TEST_F(WorkerSetTest, BadKeysAreRefused) {
  TestWorker one(FreshSocketAddress());
  const WorkerSet workers(Options({one.address()}));
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  EXPECT_TRUE(workers.Pick(std::string(kMaxShardKeyBytes, 'k'), CallKind::kUpload).ok());
  EXPECT_TRUE(workers.Pick("home/my files", CallKind::kUpload).ok());
  for (const std::string& key : {std::string(kMaxShardKeyBytes + 1, 'k'), std::string(" a"),
                                 std::string("\x7f"), std::string("a\0b", 3)}) {
    EXPECT_EQ(ReasonNameOf(workers.Pick(key, CallKind::kUpload).status()), "BAD_FIELD");
  }
}

TEST_F(WorkerSetTest, AGroupIsWhatItsNameSays) {
  // Two addresses of this machine with one port: pods behind a headless Service.
  TestWorker one("127.0.0.1:0", "pod-0");
  const std::string port = one.address().substr(one.address().rfind(':') + 1);
  TestNames names;
  WorkerSetOptions options = Options({Cat("dns:workers.test:", port)});
  options.look_up = names.look_up();
  WorkerSet workers(options);
  EXPECT_FALSE(workers.WaitForFirstChecks(milliseconds(50)));
  EXPECT_THAT(std::string(workers.Pick("key", CallKind::kUpload).status().message()),
              testing::AnyOf(HasSubstr("no such name"), HasSubstr("being looked up")));
  EXPECT_THAT(StatesOf(workers),
              testing::ElementsAre(testing::StartsWith(" at dns:workers.test:")));
  names.Set(HostAddresses{"127.0.0.1"});
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 1; }));
  // Not its address, which is another one after the next restart.
  EXPECT_EQ(NameOf(workers, "key"), "pod-0");
  EXPECT_EQ(workers.Locate("key")->address, Cat("127.0.0.1:", port));

  TestWorker two(Cat("127.0.0.2:", port), "pod-1");
  names.Set(HostAddresses{"127.0.0.2", "127.0.0.1"});
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 2; }));
  EXPECT_EQ(NamesOf(workers), (std::set<std::string>{"pod-0", "pod-1"}));
  // Nobody is lost with the name server.
  names.Set(absl::UnavailableError("the name server is away"));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(workers.live_count(), 2u);
  names.Set(HostAddresses{"127.0.0.2"});
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 1; }));
  EXPECT_EQ(NameOf(workers, "key"), "pod-1");
}

TEST_F(WorkerSetTest, OfTwoWithOneNameOneIsUsed) {
  TestWorker one("127.0.0.1:0", "twin");
  const std::string port = one.address().substr(one.address().rfind(':') + 1);
  TestWorker two(Cat("127.0.0.2:", port), "twin");
  TestNames names;
  names.Set(HostAddresses{"127.0.0.2", "127.0.0.1"});
  WorkerSetOptions options = Options({Cat("dns:workers.test:", port)});
  options.look_up = names.look_up();
  const WorkerSet workers(options);
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  ASSERT_TRUE(Eventually([&] {
    const auto place = workers.Locate("");
    return place.ok() && place->address == Cat("127.0.0.1:", port);
  }));
  EXPECT_EQ(workers.live_count(), 1u);
  EXPECT_TRUE(Eventually([&] { return workers.States().size() == 2; }));
  EXPECT_THAT(StatesOf(workers).back(),
              testing::AllOf(testing::StartsWith(Cat("twin at 127.0.0.2:", port)),
                             HasSubstr("has the same name")));
  std::vector<Route> routes;
  for (int key = 0; key < 50; ++key) {
    EXPECT_EQ(workers.Locate(Cat("key-", key))->address, Cat("127.0.0.1:", port));
    // Nor do calls without a key go to the other.
    auto route = workers.Pick("", CallKind::kOther);
    ASSERT_TRUE(route.ok());
    EXPECT_EQ(route->permit.worker()->address(), Cat("127.0.0.1:", port));
    routes.push_back(*std::move(route));
  }
}

// A server of somebody else, healthy as it is, would refuse every call.
TEST_F(WorkerSetTest, WhoIsNoKerfdIsNoWorker) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> stranger = builder.BuildAndStart();
  ASSERT_NE(stranger, nullptr);
  grpc::EnableDefaultHealthCheckService(false);
  grpc::ServerBuilder without_health;
  int other_port = 0;
  without_health.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &other_port);
  const std::unique_ptr<grpc::Server> other = without_health.BuildAndStart();
  ASSERT_NE(other, nullptr);
  const WorkerSet workers(Options({Cat("127.0.0.1:", port), Cat("127.0.0.1:", other_port)}));
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  EXPECT_EQ(workers.live_count(), 0u);
  const std::string message(workers.Pick("key", CallKind::kUpload).status().message());
  EXPECT_THAT(message, HasSubstr(Cat("127.0.0.1:", port, ": it is no kerfd")));
  EXPECT_THAT(message, HasSubstr(Cat("127.0.0.1:", other_port, ": it is no kerfd")));
}

// Answers every call with this code, and with no word of why.
class CurtServer {
 public:
  explicit CurtServer(grpc::StatusCode code, const std::string& message = "")
      : service_({code, message}) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    KERF_CHECK(server_ != nullptr);
  }
  ~CurtServer() { server_->Shutdown(); }

  std::string address() const { return Cat("127.0.0.1:", port_); }

 private:
  class Refusal final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Refusal(const grpc::Status& status) { Finish(status); }
    void OnDone() override { delete this; }
  };
  class Service final : public grpc::CallbackGenericService {
   public:
    explicit Service(grpc::Status status) : status_(std::move(status)) {}
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* /*context*/) override {
      return new Refusal(status_);
    }

   private:
    const grpc::Status status_;
  };

  Service service_;
  int port_ = 0;
  // Last: its calls use the service.
  std::unique_ptr<grpc::Server> server_;
};

// Without one it would be listed as alive.
TEST_F(WorkerSetTest, WhoIsLostWithoutAWordHasAReasonAllTheSame) {
  const CurtServer drained(grpc::StatusCode::FAILED_PRECONDITION);
  const CurtServer broken(grpc::StatusCode::UNAVAILABLE);
  const WorkerSet workers(Options({drained.address(), broken.address()}));
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  EXPECT_EQ(workers.live_count(), 0u);
  EXPECT_THAT(StatesOf(workers),
              testing::UnorderedElementsAre(Cat(drained.address(), " at ", drained.address(),
                                                " it answers with status 9 and no message"),
                                            Cat(broken.address(), " at ", broken.address(),
                                                " it answers with status 14 and no message")));
}

// All clients of the front are told of it.
TEST_F(WorkerSetTest, OfWhatALostWorkerSaysLittleIsKept) {
  const CurtServer wordy(grpc::StatusCode::UNAVAILABLE,
                         "so\xff\n\x1b[2J" + std::string(5'000, 'x'));
  const WorkerSet workers(Options({wordy.address()}));
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  EXPECT_THAT(StatesOf(workers), testing::ElementsAre(Cat(wordy.address(), " at ", wordy.address(),
                                                          " so???[2J", std::string(192, 'x'))));
}

IndexHealth Gone() { return {absl::UnavailableError("Redis is away"), "x"}; }
const IndexHealth kWell{absl::OkStatus(), "x"};

TEST_F(WorkerSetTest, WhoIsWithoutItsIndexLosesItsKeysToThoseWhoHaveTheirs) {
  TestWorker one(FreshSocketAddress());
  TestWorker two(FreshSocketAddress());
  std::mutex mutex;
  std::vector<std::string> told;
  std::vector<bool> said;
  WorkerSetOptions options = Options({one.address(), two.address()});
  options.unused_grace = milliseconds(50);
  options.on_unused = [&](const std::string& name, const std::string& why) {
    const std::lock_guard lock(mutex);
    told.push_back(name + ": " + why);
  };
  options.on_liveness = [&](bool has_live) {
    const std::lock_guard lock(mutex);
    said.push_back(has_live);
  };
  WorkerSet workers(options);
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  ASSERT_EQ(workers.live_count(), 2u);
  one.SetIndexHealth(Gone());
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 1; }));
  EXPECT_EQ(NamesOf(workers), std::set<std::string>{two.address()});
  const std::vector<WorkerState> states = workers.States();
  ASSERT_EQ(states.size(), 2u);
  EXPECT_EQ(states[1].lost, "Redis is away");
  EXPECT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return told == std::vector<std::string>{one.address() + ": Redis is away"};
  }));
  // All are without: they are used, and nobody says that there is nobody.
  two.SetIndexHealth(Gone());
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 2; }));
  EXPECT_EQ(NamesOf(workers).size(), 2u);
  // The first that has it back is the only one.
  one.SetIndexHealth(kWell);
  ASSERT_TRUE(Eventually(
      [&] { return workers.live_count() == 1 && NameOf(workers, "key") == one.address(); }));
  two.SetIndexHealth(kWell);
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 2; }));
  // One that drains is not used for want of others.
  one.SetIndexHealth(Gone());
  two.SetIndexHealth(Gone());
  one.server().BeginDrain(milliseconds(60'000));
  ASSERT_TRUE(Eventually(
      [&] { return NameOf(workers, "") == two.address() && NamesOf(workers).size() == 1; }));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(said, testing::ElementsAre(true));
}

TEST_F(WorkerSetTest, WhoHasAnotherIndexThanMostIsNotUsed) {
  TestWorker one(FreshSocketAddress());
  TestWorker two(FreshSocketAddress());
  TestWorker three(FreshSocketAddress());
  for (TestWorker* const worker : {&one, &two}) worker->SetIndexHealth(kWell);
  three.SetIndexHealth({absl::OkStatus(), "y"});
  const WorkerSet workers(Options({one.address(), two.address(), three.address()}));
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 2; }));
  EXPECT_EQ(NamesOf(workers), (std::set<std::string>{one.address(), two.address()}));
  EXPECT_THAT(workers.States()[2].lost, HasSubstr("another index, y"));
  three.SetIndexHealth(kWell);
  EXPECT_TRUE(Eventually([&] { return workers.live_count() == 3; }));
}

TEST_F(WorkerSetTest, WhoseCallsFailIsDoneWithoutForAWhile) {
  TestWorker one(FreshSocketAddress());
  TestWorker two(FreshSocketAddress());
  WorkerSetOptions options = Options({one.address(), two.address()});
  options.ejection_times.first = milliseconds(200);
  WorkerSet workers(options);
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  const auto record = [&](const std::string& name, bool is_well) {
    const auto route = workers.PickNamed(name, CallKind::kUpload);
    if (route.ok()) workers.Record(*route->permit.worker(), is_well);
  };
  // One that goes well in between.
  for (const bool is_well : {false, false, true, false, false}) record(one.address(), is_well);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(workers.live_count(), 2u);
  record(one.address(), false);
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 1; }));
  EXPECT_EQ(NamesOf(workers), std::set<std::string>{two.address()});
  EXPECT_THAT(workers.States()[1].lost, HasSubstr("its calls fail"));
  // Not the last one.
  for (int count = 0; count < 2 * kFailuresUntilEjected; ++count) record(two.address(), false);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_GE(workers.live_count(), 1u);
  EXPECT_TRUE(Eventually([&] { return workers.live_count() == 2; }));
}

TEST_F(WorkerSetTest, WhoIsAvoidedIsPassedOverWhileThereAreOthers) {
  TestWorker one(FreshSocketAddress());
  TestWorker two(FreshSocketAddress());
  TestWorker three(FreshSocketAddress());
  const WorkerSet workers(Options({one.address(), two.address(), three.address()}));
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  const auto name_of = [&](std::string_view key, const Avoid& avoid) {
    const auto route = workers.Pick(key, CallKind::kUpload, avoid);
    const auto place = workers.Locate(key, avoid);
    EXPECT_TRUE(route.ok() && place.ok());
    if (!key.empty()) {
      EXPECT_EQ(place->name, route->name);
    }
    return route->name;
  };
  for (int number = 0; number < 50; ++number) {
    const std::string key = Cat("key-", number);
    const std::string first = name_of(key, {});
    const std::string second = name_of(key, {first, "nobody"});
    const std::string third = name_of(key, {first, second});
    EXPECT_EQ((std::set<std::string>{first, second, third}.size()), 3u);
    EXPECT_GT(RendezvousScore(key, second), RendezvousScore(key, third));
    // There is nobody else.
    EXPECT_EQ(name_of(key, {first, second, third}), first);
    EXPECT_NE(name_of("", {first}), first);
  }
}

// A thousand workers are checked a thousand times a second: to sort them each time would take half
// a processor.
TEST_F(WorkerSetTest, ChecksThatFindEverythingAsItWasCostNoMore) {
  std::vector<std::unique_ptr<TestWorker>> servers;
  std::vector<std::string> addresses;
  for (int number = 0; number < 4; ++number) {
    servers.push_back(std::make_unique<TestWorker>(FreshSocketAddress()));
    addresses.push_back(servers.back()->address());
  }
  // Nobody is there; how it is told may change with the attempts to reach it.
  addresses.push_back(FreshSocketAddress());
  const WorkerSet workers(Options(addresses));
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 4; }));
  const auto checked = [&](std::uint64_t count) {
    const std::uint64_t before = workers.work().check_count;
    return Eventually([&] { return workers.work().check_count >= before + count; });
  };
  ASSERT_TRUE(checked(50));
  const WorkerSetWork before = workers.work();
  ASSERT_TRUE(checked(200));
  // A few, for a machine that is so busy that a worker is lost meanwhile.
  EXPECT_LE(workers.work().publish_count, before.publish_count + 10);
  // Each change is published, by the check that has found it.
  servers[1]->SetIndexHealth({.status = absl::UnavailableError("Redis is gone")});
  ASSERT_TRUE(Eventually([&] { return NamesOf(workers).size() == 3; }));
  servers[1]->SetIndexHealth({});
  ASSERT_TRUE(Eventually([&] { return NamesOf(workers).size() == 4; }));
  servers[2]->server().BeginDrain(milliseconds(60'000));
  ASSERT_TRUE(Eventually([&] { return workers.live_count() == 3; }));
  EXPECT_GT(workers.work().publish_count, before.publish_count);
}

TEST_F(WorkerSetTest, ADoubtIsCheckedAtOnce) {
  const std::string address = FreshSocketAddress();
  auto one = std::make_unique<TestWorker>(address);
  WorkerSetOptions options = Options({address});
  options.check_times = {.interval = std::chrono::hours(1), .max_interval = std::chrono::hours(1)};
  WorkerSet workers(options);
  ASSERT_TRUE(workers.WaitForFirstChecks(kPatience));
  auto route = workers.Pick("key", CallKind::kUpload);
  ASSERT_TRUE(route.ok());
  one.reset();
  EXPECT_EQ(workers.live_count(), 1u);
  workers.Doubt(*route->permit.worker());
  EXPECT_TRUE(Eventually([&] { return workers.live_count() == 0; }));
}

}  // namespace
}  // namespace kerf::routing
