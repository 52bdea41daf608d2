// What a worker's audit log tells of its calls, and what it refuses while nobody can tell of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash_chain.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/audit/guarded_index.h"
#include "server/audit/sink.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"
#include "server/quota/testing/rules_gate.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

constexpr milliseconds kPatience{20'000};

v1::RepositoryRef Home() {
  v1::RepositoryRef home;
  home.set_repository("home");
  home.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  return home;
}

template <typename Condition>
bool WaitFor(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  return condition();
}

class AuditTest : public testing::Test {
 protected:
  AuditTest() {
    const char* const base = std::getenv("TEST_TMPDIR");
    folder_ = Cat(base != nullptr ? base : "/tmp", "/audit-XXXXXX");
    KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
    audit_.path = folder_ + "/audit.log";
    audit_.worker = "w1";
    audit_.interval = milliseconds(10);
    options_.listen = {FreshSocketAddress()};
    options_.worker_threads = 1;
    options_.worker_name = "w1";
    options_.watchdog_interval = milliseconds(10);
  }
  ~AuditTest() override {
    Stop();
    std::filesystem::remove_all(folder_);
  }

  void Start() {
    auto sink = audit::Sink::Open(audit_);
    KERF_CHECK(sink.ok());
    sink_ = *std::move(sink);
    guarded_.emplace(memory_.get(), sink_.get());
    options_.audit = sink_.get();
    auto server = Server::Start(options_, &*guarded_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    Connect();
  }
  void Connect() {
    channel_ = ConnectTo(server_->addresses()[0]);
    stub_ = v1::IndexService::NewStub(channel_);
  }
  void Stop() {
    if (server_ != nullptr) server_->Stop();
    server_ = nullptr;
    sink_ = nullptr;
  }
  // Ends all.
  std::vector<nlohmann::json> Calls() {
    Stop();
    return CallsNow();
  }
  std::vector<nlohmann::json> CallsNow() const { return LinesOf("call"); }
  std::vector<nlohmann::json> LinesOf(const std::string& event) const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(audit_.path);
    for (std::string line; std::getline(file, line);) {
      const auto read = ReadChainLine(line);
      if (!read.has_value() || !read->is_intact) continue;
      nlohmann::json parsed = nlohmann::json::parse(line);
      if (parsed["event"] == event) lines.push_back(std::move(parsed));
    }
    return lines;
  }

  // A call has its line a moment after its answer: those of the next one come behind it then.
  bool Await(std::size_t call_count) const {
    return WaitFor([&] { return CallsNow().size() == call_count; });
  }

  // Reasons, or "OK".
  std::string Commit(const v1::RepositoryRef& repository, std::uint64_t epoch = 1) {
    v1::CommitChunksRequest request;
    *request.mutable_repository() = repository;
    request.set_store_epoch(epoch);
    for (int number = 0; number < 3; ++number) {
      v1::IndexEntry& entry = *request.add_entries();
      entry.set_digest(std::string(32, static_cast<char>('a' + number)));
      entry.set_length_bytes(100);
      entry.set_locator("here");
    }
    v1::CommitChunksResponse response;
    return Call([&](grpc::ClientContext* context) {
      return stub_->CommitChunks(context, request, &response);
    });
  }
  std::string Forget() {
    v1::ForgetChunksRequest request;
    *request.mutable_repository() = Home();
    for (const char digit : {'a', 'z'}) {
      request.add_entries()->set_digest(std::string(32, digit));
    }
    v1::ForgetChunksResponse response;
    return Call([&](grpc::ClientContext* context) {
      return stub_->ForgetChunks(context, request, &response);
    });
  }
  std::string ForgetOlder(std::uint64_t epoch) {
    v1::ForgetOlderChunksRequest request;
    *request.mutable_repository() = Home();
    request.set_before_epoch(epoch);
    request.set_limit(1'000);
    v1::ForgetOlderChunksResponse response;
    return Call([&](grpc::ClientContext* context) {
      return stub_->ForgetOlderChunks(context, request, &response);
    });
  }
  std::string Advance(std::uint64_t epoch) {
    v1::AdvanceEpochRequest request;
    *request.mutable_repository() = Home();
    request.set_store_epoch(epoch);
    v1::AdvanceEpochResponse response;
    return Call([&](grpc::ClientContext* context) {
      return stub_->AdvanceEpoch(context, request, &response);
    });
  }
  std::string LookUp(const v1::RepositoryRef& repository) {
    v1::LookupChunksRequest request;
    *request.mutable_repository() = repository;
    request.set_store_epoch(1);
    v1::LookupChunksResponse response;
    return Call([&](grpc::ClientContext* context) {
      return stub_->LookupChunks(context, request, &response);
    });
  }
  std::string Stats() {
    v1::GetIndexStatsRequest request;
    *request.mutable_repository() = Home();
    v1::GetIndexStatsResponse response;
    return Call([&](grpc::ClientContext* context) {
      return stub_->GetIndexStats(context, request, &response);
    });
  }
  template <typename Ask>
  static std::string Call(const Ask& ask) {
    grpc::ClientContext context;
    context.AddMetadata("kerf-request-id", "call-id");
    const grpc::Status status = ask(&context);
    return status.ok() ? "OK" : ReasonOf(status);
  }

  // An upload of one file, committed unless told otherwise; its status.
  std::string Upload(const v1::Open& open, bool commits = true) {
    std::string content(300'000, '\0');
    Random(TestSeed() + ++upload_count_)
        .Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    TestUpload upload(channel_);
    upload.SendOpen(open);
    upload.SendFile(content);
    if (upload.WaitForChunks(1, content.size()) && commits) {
      upload.CommitAnswered();
      upload.WaitForDone(1);
    }
    upload.WritesDone();
    const grpc::Status status = upload.WaitForEnd();
    chunk_count_ = upload.ChunksOf(1).size();
    return status.ok() ? "OK" : ReasonOf(status);
  }

  std::string folder_;
  audit::Sink::Options audit_;
  ServerOptions options_;
  std::unique_ptr<Index> memory_ = CreateMemoryIndex();
  std::unique_ptr<audit::Sink> sink_;
  std::optional<audit::GuardedIndex> guarded_;
  std::optional<RulesGate> rules_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IndexService::Stub> stub_;
  std::uint64_t upload_count_ = 0;
  std::size_t chunk_count_ = 0;
};

TEST_F(AuditTest, TellsOfAnUploadWhoItWasAndWhatItDid) {
  Start();
  v1::Open open = OpenFor("home");
  open.set_agent("kerf/0.1 \"host\"\n");
  EXPECT_EQ(Upload(open), "OK");
  const auto calls = Calls();
  ASSERT_THAT(calls, SizeIs(1));
  const nlohmann::json& call = calls[0];
  EXPECT_EQ(call["method"], "kerf.v1.ChunkingService/Upload");
  EXPECT_EQ(call["repository"], "home");
  EXPECT_EQ(call["digest"], "blake3");
  EXPECT_EQ(call["profile"], "fastcdc2020-8k");
  EXPECT_EQ(call["agent"], "kerf/0.1 \"host\"\n");
  EXPECT_EQ(call["outcome"], "OK");
  EXPECT_EQ(call["worker"], "w1");
  EXPECT_THAT(std::string(call["peer"]), StartsWith("unix:"));
  EXPECT_NE(call["session"], "");
  EXPECT_NE(call["request_id"], "");
  EXPECT_EQ(call["proof"], "none");
  ASSERT_GT(chunk_count_, 5u);
  EXPECT_EQ(call["counts"], nlohmann::json({{"files", 1},
                                            {"bytes", 300'000},
                                            {"chunks", chunk_count_},
                                            {"new_chunks", chunk_count_},
                                            {"commits_asked", chunk_count_},
                                            {"committed", chunk_count_}}));
}

TEST_F(AuditTest, TellsOfUploadsThatEndBadly) {
  Start();
  EXPECT_EQ(Upload(OpenFor("home"), /*commits=*/false), "OK");
  EXPECT_TRUE(Await(1));
  EXPECT_EQ(Upload(OpenFor("no/such")), "BAD_FIELD");
  EXPECT_TRUE(Await(2));
  v1::Open open = OpenFor("home");
  open.set_digest_algorithm(static_cast<v1::DigestAlgorithm>(77));
  EXPECT_EQ(Upload(open), "BAD_FIELD");
  EXPECT_TRUE(Await(3));
  EXPECT_EQ(Advance(9), "OK");
  EXPECT_TRUE(Await(4));
  EXPECT_EQ(Upload(OpenFor("home")), "EPOCH_BEHIND");
  EXPECT_TRUE(Await(5));
  {
    TestUpload upload(channel_);
    upload.SendOpen(OpenFor("home"));
    upload.WaitForAnswer(&v1::UploadAnswer::has_opened);
    upload.Cancel();
    upload.WaitForEnd();
  }
  EXPECT_TRUE(Await(6));
  const auto calls = Calls();
  ASSERT_THAT(calls, SizeIs(6));
  EXPECT_EQ(calls[0]["counts"].contains("commits_asked"), false);
  EXPECT_EQ(calls[1]["outcome"], "BAD_FIELD");
  EXPECT_EQ(calls[1]["repository"], "no/such");
  EXPECT_EQ(calls[2]["digest"], "");
  EXPECT_EQ(calls[4]["outcome"], "EPOCH_BEHIND");
  EXPECT_GT(calls[4]["counts"]["commits_asked"], 5);
  EXPECT_EQ(calls[4]["counts"].contains("committed"), false);
  EXPECT_THAT(std::string(calls[4]["message"]), HasSubstr("epoch"));
  // Who goes between two files may be taken for one who ends.
  EXPECT_THAT(std::string(calls[5]["outcome"]), testing::AnyOf("CANCELLED", "OK"));
}

TEST_F(AuditTest, TellsOfEachCallThatChangesTheIndex) {
  Start();
  EXPECT_EQ(Commit(Home()), "OK");
  EXPECT_TRUE(Await(1));
  EXPECT_EQ(Forget(), "OK");
  EXPECT_TRUE(Await(2));
  EXPECT_EQ(Advance(3), "OK");
  EXPECT_TRUE(Await(3));
  EXPECT_EQ(ForgetOlder(3), "OK");
  EXPECT_TRUE(Await(4));
  EXPECT_EQ(Commit(Home(), 2), "EPOCH_BEHIND");
  const auto calls = Calls();
  ASSERT_THAT(calls, SizeIs(5));
  for (const nlohmann::json& call : calls) {
    EXPECT_EQ(call["repository"], "home");
    EXPECT_EQ(call["request_id"], "call-id");
  }
  EXPECT_EQ(calls[0]["method"], "kerf.v1.IndexService/CommitChunks");
  EXPECT_EQ(calls[0]["counts"], nlohmann::json({{"commits_asked", 3}, {"committed", 3}}));
  EXPECT_EQ(calls[1]["method"], "kerf.v1.IndexService/ForgetChunks");
  EXPECT_EQ(calls[1]["counts"], nlohmann::json({{"forgets_asked", 2}, {"forgotten", 1}}));
  EXPECT_EQ(calls[2]["method"], "kerf.v1.IndexService/AdvanceEpoch");
  EXPECT_EQ(calls[2]["counts"], nlohmann::json({{"epoch", 3}}));
  EXPECT_EQ(calls[3]["method"], "kerf.v1.IndexService/ForgetOlderChunks");
  EXPECT_EQ(calls[3]["counts"], nlohmann::json({{"epoch", 3}, {"forgotten", 2}}));
  EXPECT_EQ(calls[4]["outcome"], "EPOCH_BEHIND");
  EXPECT_EQ(calls[4]["counts"], nlohmann::json({{"commits_asked", 3}}));
}

TEST_F(AuditTest, TellsOfReadingOnlyWhereItIsRefused) {
  Start();
  EXPECT_EQ(Stats(), "OK");
  EXPECT_EQ(LookUp(Home()), "OK");
  v1::RepositoryRef wrong = Home();
  wrong.set_repository(std::string(100'000, 'x'));
  EXPECT_EQ(LookUp(wrong), "BAD_FIELD");
  EXPECT_TRUE(Await(1));
  wrong = Home();
  wrong.set_digest_algorithm(static_cast<v1::DigestAlgorithm>(-5));
  EXPECT_EQ(Commit(wrong), "BAD_FIELD");
  EXPECT_TRUE(Await(2));
  server_->BeginDrain(milliseconds(1));
  EXPECT_EQ(Upload(OpenFor("home")), "DRAINING");
  const auto calls = Calls();
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_EQ(calls[0]["method"], "kerf.v1.IndexService/LookupChunks");
  EXPECT_EQ(std::string(calls[0]["repository"]).substr(0, 300),
            std::string(256, 'x') + "\xe2\x80\xa6");
  EXPECT_EQ(calls[1]["outcome"], "BAD_FIELD");
  EXPECT_EQ(calls[2]["method"], "kerf.v1.ChunkingService/Upload");
  EXPECT_EQ(calls[2]["outcome"], "DRAINING");
}

// By the door, which no service of kerfd has heard of.
TEST_F(AuditTest, ItNamesWhoHasTooManyConnections) {
  const std::string user = Cat("user/", getuid());
  rules_.emplace(Cat("[[identity]]\nname = \"", user,
                     "\"\nmax_connections = 2\n[[identity.grant]]\nrole = \"read\"\n",
                     "repositories = [\"home\"]\n"));
  options_.access = rules_->source();
  Start();
  EXPECT_EQ(Stats(), "OK");
  const auto first = std::exchange(channel_, nullptr);
  Connect();
  EXPECT_EQ(Stats(), "OK");
  const auto second = std::exchange(channel_, nullptr);
  Connect();
  EXPECT_EQ(Stats(), "QUOTA_EXCEEDED");
  const auto calls = Calls();
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0]["identity"], user);
  EXPECT_EQ(calls[0]["proof"], "user");
  EXPECT_EQ(calls[0]["peer"], "unix:");
  EXPECT_EQ(calls[0]["method"], "kerf.v1.IndexService/GetIndexStats");
  EXPECT_EQ(calls[0]["outcome"], "QUOTA_EXCEEDED");
  EXPECT_EQ(calls[0]["request_id"], "call-id");
  EXPECT_EQ(calls[0]["worker"], "w1");
}

// Though nobody has read the request in full.
TEST_F(AuditTest, ACallThatMayNotNamesItsRepository) {
  const std::string user = Cat("user/", getuid());
  rules_.emplace(Cat("[[identity]]\nname = \"", user,
                     "\"\n[[identity.grant]]\nrole = \"read\"\nrepositories = [\"home\"]\n"));
  options_.access = rules_->source();
  Start();
  v1::RepositoryRef of_others = Home();
  of_others.set_repository("of-others");
  of_others.set_digest_algorithm(v1::DIGEST_ALGORITHM_SHA256);
  EXPECT_EQ(LookUp(of_others), "NOT_YOURS");
  const auto calls = Calls();
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0]["outcome"], "NOT_YOURS");
  EXPECT_EQ(calls[0]["repository"], "of-others");
  EXPECT_EQ(calls[0]["digest"], "sha256");
  EXPECT_EQ(calls[0]["identity"], user);
}

TEST_F(AuditTest, ItTellsOfConnectionsThatAreNotTaken) {
  options_.listen = {"127.0.0.1:0"};
  options_.max_connections = 1;
  Start();
  TestUpload upload(channel_);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home")));
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  Connect();
  EXPECT_NE(Stats(), "OK");
  upload.Cancel();
  upload.WaitForEnd();
  Stop();
  const auto connections = LinesOf("connection");
  ASSERT_FALSE(connections.empty());
  for (const nlohmann::json& line : connections) {
    EXPECT_EQ(line["outcome"], "full");
    EXPECT_EQ(line["message"], "there are too many connections, and all have calls");
    EXPECT_THAT(line["peer"].get<std::string>(), StartsWith("ipv4:127.0.0.1:"));
    EXPECT_EQ(line["identity"], "");
    EXPECT_EQ(line["proof"], "none");
    EXPECT_EQ(line["worker"], "w1");
  }
}

// The file may not grow while it lives.
class FullDisk {
 public:
  explicit FullDisk(const std::string& path) {
    std::signal(SIGXFSZ, SIG_IGN);
    KERF_CHECK(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{std::filesystem::file_size(path), before_.rlim_max};
    KERF_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(AuditTest, NothingIsChangedWhileNobodyCanTellOfIt) {
  Start();
  EXPECT_EQ(Commit(Home()), "OK");
  ASSERT_TRUE(WaitFor([&] { return CallsNow().size() == 1; }));
  {
    const FullDisk full(audit_.path);
    // The first one that cannot be told of waits, and all others with it.
    EXPECT_EQ(Commit(Home()), "OK");
    ASSERT_TRUE(WaitFor([&] { return !sink_->status().ok(); }));
    EXPECT_EQ(Commit(Home()), "AUDIT_UNAVAILABLE");
    EXPECT_EQ(Forget(), "AUDIT_UNAVAILABLE");
    EXPECT_EQ(ForgetOlder(1), "AUDIT_UNAVAILABLE");
    EXPECT_EQ(Advance(7), "AUDIT_UNAVAILABLE");
    EXPECT_EQ(Upload(OpenFor("home")), "AUDIT_UNAVAILABLE");
    EXPECT_EQ(LookUp(Home()), "OK");
    EXPECT_EQ(Stats(), "OK");
    EXPECT_THAT(std::string(guarded_->health().status.message()),
                StartsWith("the audit log cannot be written: "));
  }
  ASSERT_TRUE(WaitFor([&] { return sink_->status().ok(); }));
  EXPECT_TRUE(guarded_->health().status.ok());
  EXPECT_EQ(Advance(2), "OK") << "nor has 7 been told";
  EXPECT_EQ(Upload(OpenFor("home")), "EPOCH_BEHIND");
  const auto calls = Calls();
  ASSERT_THAT(calls, SizeIs(9));
  EXPECT_EQ(calls[1]["outcome"], "OK");
  for (int refused = 2; refused < 7; ++refused) {
    EXPECT_EQ(calls[static_cast<std::size_t>(refused)]["outcome"], "AUDIT_UNAVAILABLE");
  }
}

TEST_F(AuditTest, ItGoesOnWhereThatWasAskedFor) {
  audit_.refuses = false;
  Start();
  EXPECT_EQ(Commit(Home()), "OK");
  ASSERT_TRUE(WaitFor([&] { return CallsNow().size() == 1; }));
  {
    const FullDisk full(audit_.path);
    EXPECT_EQ(Commit(Home()), "OK");
    ASSERT_TRUE(WaitFor([&] { return !sink_->status().ok(); }));
    EXPECT_EQ(Commit(Home()), "OK");
    EXPECT_TRUE(guarded_->health().status.ok());
    ASSERT_THAT(guarded_->health().findings, SizeIs(1));
    EXPECT_THAT(guarded_->health().findings[0], HasSubstr("--audit-on-failure go-on"));
  }
  EXPECT_THAT(Calls(), SizeIs(3));
}

}  // namespace
}  // namespace kerf
