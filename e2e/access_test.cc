// Who may do what, over TLS: each cell of docs/spec/access.md, at a front, at a worker behind it
// and at a kerfd alone; and what kerf says to those who may not.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "e2e/identities.h"
#include "e2e/redis_fixture.h"
#include "e2e/round_trip.h"
#include "kerf/v1/index.grpc.pb.h"
#include "kerf/v1/repository.pb.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

// A guard against a hang, not a measure.
constexpr seconds kPatience{30};
// What docs/spec/access.md promises of a change, and some time for a busy machine.
constexpr seconds kReloaded{5};

constexpr char kToken[] = "kerf_nightly_0123456789abcdefghijABCDEFGHIJ";
constexpr char kOldToken[] = "kerf_old_0123456789abcdefghijABCDEFGHIJ";

class AccessTest : public RedisTest {
 protected:
  AccessTest() : RedisTest(/*file_bytes=*/1'000'000) {
    for (const char* name : {"worker", "alone"}) identities_.WriteKey(name, {"127.0.0.1"});
    identities_.WriteKey("front", {"127.0.0.1", "front.example"});
    identities_.WriteKey("agent", {"kerf://client/agent"});
    WriteAccess(Rules());
  }

  void WriteAccess(const std::string& text) { identities_.WriteAccess(text); }

  static std::string Identity(const std::string& name, const std::string& role,
                              const std::string& repository, const std::string& more = "") {
    std::string text = Cat("[[identity]]\nname = \"", name, "\"\n", more);
    if (role.empty()) return text;
    text += Cat("[[identity.grant]]\nrole = \"", role, "\"\n");
    return role == "front" ? text : Cat(text, "repositories = [\"", repository, "\"]\n");
  }
  // sha256sum of both tokens.
  static std::string Rules() {
    return Cat(
        Identity("kerf://granted/nothing", "", ""), Identity("kerf://granted/read", "read", "mine"),
        Identity("kerf://granted/write", "write", "mine"),
        Identity("kerf://granted/gc", "gc", "mine"),
        Identity("kerf://granted/admin", "admin", "mine"),
        Identity("kerf://granted/all", "admin", "*"), Identity("front.example", "front", ""),
        Identity("kerf://client/agent", "write", "*"),
        Identity("token/nightly", "write", "*",
                 "sha256 = \"b9d93d96a930687fbef49895b334ee4d075273f24e78a16082401e9c17925e35\"\n"),
        Identity("token/old", "write", "*",
                 "sha256 = "
                 "\"b87a5c57b6ade79eded5365f0576ecf854bac021b467f0fcb9b281ae0c11878c\"\nexpires = "
                 "2020-01-01T00:00:00Z\n"));
  }

  // Where it serves over TLS.
  std::string StartKerfd(const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> flags = identities_.FlagsOf(name);
    flags.insert(flags.end(), more.begin(), more.end());
    flags.push_back("--tls-client-optional");
    programs_[name] = world_.StartKerfd(name, flags);
    return programs_[name] == nullptr ? "" : world_.LastAddressOf(name);
  }
  std::string StartAlone(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--data-dir", world_ / "alone"};
    flags.insert(flags.end(), more.begin(), more.end());
    return StartKerfd("alone", flags);
  }
  std::string StartWorker() {
    std::vector<std::string> flags = Flags(redis_, "0");
    flags.insert(flags.end(), {"--role", "worker", "--worker-name", "worker"});
    return StartKerfd("worker", flags);
  }
  std::string StartFront(const std::string& worker) {
    return StartKerfd("front", {"--role", "front", "--worker-check-ms", "200", "--worker-tls-ca",
                                identities_.ca_path(), "--workers", worker});
  }

  std::shared_ptr<grpc::Channel> Connect(const std::string& address, const std::string& name) {
    return identities_.Connect(address, name);
  }

  void ExpectWarningOfWhatAllCanRead(const std::string& token);

  std::string MetricsAt(const std::string& address) {
    const Completed run = world_.Run({"/usr/bin/curl", "--silent", "--show-error", "--cacert",
                                      identities_.ca_path(), Cat("https://", address, "/metrics")});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out;
  }

  TestRedis redis_{TestRedis::Kind::kSingle};
  const Identities identities_{world_};
  std::map<std::string, std::unique_ptr<Program>> programs_;
};

template <typename Request>
Request Naming(const std::string& repository) {
  Request request;
  request.mutable_repository()->set_repository(repository);
  request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  return request;
}

void FillEntry(v1::IndexEntry& entry) {
  entry.set_digest(std::string(32, 'x'));
  entry.set_length_bytes(1);
  entry.set_locator("here");
}

// The same of the Repository service.
std::string RepositoryRequestOf(const std::string& method, const std::string& where) {
  if (method.ends_with("/CreateRepository")) {
    return Naming<v1::CreateRepositoryRequest>(where).SerializeAsString();
  }
  if (method.ends_with("/ListRepositories")) {
    v1::ListRepositoriesRequest request;
    request.set_limit(1);
    return request.SerializeAsString();
  }
  // In one step: what is begun and not ended keeps others out.
  if (method.ends_with("/DropRepository")) {
    auto request = Naming<v1::DropRepositoryRequest>(where);
    request.set_limit(65'536);
    return request.SerializeAsString();
  }
  if (method.ends_with("/ResetEpoch")) {
    auto request = Naming<v1::ResetEpochRequest>(where);
    request.set_limit(65'536);
    return request.SerializeAsString();
  }
  return "";
}

// A good request of a method that has one answer; `where` is the repository, if it names one.
std::string RequestOf(const std::string& method, const std::string& where) {
  if (method.ends_with("/GetIndexStats")) {
    return Naming<v1::GetIndexStatsRequest>(where).SerializeAsString();
  }
  if (method.ends_with("/LookupChunks")) {
    auto request = Naming<v1::LookupChunksRequest>(where);
    request.set_store_epoch(1);
    request.add_digests(std::string(32, 'x'));
    return request.SerializeAsString();
  }
  if (method.ends_with("/ScanChunks")) {
    auto request = Naming<v1::ScanChunksRequest>(where);
    request.set_limit(1);
    return request.SerializeAsString();
  }
  if (method.ends_with("/CommitChunks")) {
    auto request = Naming<v1::CommitChunksRequest>(where);
    request.set_store_epoch(1);
    FillEntry(*request.add_entries());
    return request.SerializeAsString();
  }
  if (method.ends_with("/ForgetChunks")) {
    auto request = Naming<v1::ForgetChunksRequest>(where);
    FillEntry(*request.add_entries());
    return request.SerializeAsString();
  }
  if (method.ends_with("/ForgetOlderChunks")) {
    auto request = Naming<v1::ForgetOlderChunksRequest>(where);
    request.set_before_epoch(1);
    request.set_limit(1);
    return request.SerializeAsString();
  }
  if (method.ends_with("/AdvanceEpoch")) {
    auto request = Naming<v1::AdvanceEpochRequest>(where);
    request.set_store_epoch(1);
    return request.SerializeAsString();
  }
  return RepositoryRequestOf(method, where);
}

// Until the stream is open, or has ended.
grpc::Status OpenUpload(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                        const std::string& where) {
  const auto stub = v1::ChunkingService::NewStub(channel);
  const auto stream = stub->Upload(&context);
  v1::UploadRequest request;
  *request.add_frames()->mutable_open() = OpenFor(where);
  stream->Write(request);
  stream->WritesDone();
  v1::UploadResponse response;
  while (stream->Read(&response)) {
  }
  return stream->Finish();
}

grpc::Status WatchHealth(const std::shared_ptr<grpc::Channel>& channel,
                         grpc::ClientContext& context) {
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  const auto stream = stub.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
  void* const tag = &queue;
  void* got = nullptr;
  bool is_well = false;
  const auto wait = [&] { return queue.Next(&got, &is_well) && is_well; };
  grpc::ByteBuffer message;
  grpc::Status status;
  stream->StartCall(tag);
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  bool has_answer = wait();
  if (has_answer) {
    stream->WriteLast(request, {}, tag);
    has_answer = wait();
  }
  if (has_answer) {
    stream->Read(&message, tag);
    has_answer = wait();
  }
  if (has_answer) context.TryCancel();
  stream->Finish(&status, tag);
  wait();
  return has_answer ? grpc::Status::OK : status;
}

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

grpc::Status Ask(const std::string& method, const std::shared_ptr<grpc::Channel>& channel,
                 grpc::ClientContext& context, const std::string& where) {
  if (method.ends_with("/Upload")) return OpenUpload(channel, context, where);
  if (method.ends_with("/Watch")) return WatchHealth(channel, context);
  const grpc::Slice slice(RequestOf(method, where));
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> ended;
  grpc::GenericStub stub(channel);
  stub.UnaryCall(&context, method, {}, &request, &response,
                 [&](const grpc::Status& status) { ended.set_value(status); });
  return ended.get_future().get();
}

const std::map<std::string, std::string>& NamesOfColumns() {
  static const std::map<std::string, std::string> names = {{"nobody", ""},
                                                           {"no grant", "kerf://granted/nothing"},
                                                           {"read", "kerf://granted/read"},
                                                           {"write", "kerf://granted/write"},
                                                           {"gc", "kerf://granted/gc"},
                                                           {"admin", "kerf://granted/admin"},
                                                           {"admin of all", "kerf://granted/all"},
                                                           {"front", "front.example"}};
  return names;
}

struct Row {
  std::string method;
  // By the title of its column.
  std::map<std::string, bool> may;
};

std::vector<Row> ReadTable() {
  std::ifstream file("docs/spec/access.md");
  std::vector<std::string> titles;
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| method |") && !line.starts_with("| /")) continue;
    std::vector<std::string> cells;
    std::istringstream parts(line.substr(2));
    for (std::string cell; std::getline(parts, cell, '|');) {
      const std::size_t begin = cell.find_first_not_of(' ');
      cells.push_back(cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
    }
    if (titles.empty()) {
      titles = cells;
      continue;
    }
    rows.push_back({cells[0], {}});
    for (std::size_t column = 1; column < cells.size(); ++column) {
      rows.back().may[titles[column]] = cells[column] == "yes";
    }
  }
  return rows;
}

// What the answer to a call says of its caller.
std::string VerdictOf(const grpc::Status& status) {
  if (status.ok()) return "yes";
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return Cat("unknown ", ReasonOf(status));
  }
  if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
    return Cat("forbidden ", ReasonOf(status));
  }
  return Cat(status.error_code(), ": ", status.error_message());
}

std::string Expected(bool may, const std::string& column) {
  if (may) return "yes";
  return column == "nobody" ? "unknown UNKNOWN_CALLER" : "forbidden NOT_YOURS";
}

TEST_F(AccessTest, EachCellOfTheTableHolds) {
  const std::string worker = StartWorker();
  const std::map<std::string, std::string> places = {
      {"alone", StartAlone()}, {"worker", worker}, {"front", StartFront(worker)}};
  const std::vector<Row> rows = ReadTable();
  ASSERT_EQ(rows.size(), 18u);
  int cell_count = 0;
  for (const auto& [place, address] : places) {
    ASSERT_NE(address, "");
    for (const auto& [column, name] : NamesOfColumns()) {
      const auto channel = Connect(address, name);
      for (const Row& row : rows) {
        const bool is_of_fronts = row.method.starts_with("/kerf.v1.RoutingService/");
        if (is_of_fronts && place != "front") continue;
        const bool names_repository =
            row.method.starts_with("/kerf.v1.IndexService/") || row.method.ends_with("/Upload") ||
            row.method.ends_with("Repository") || row.method.ends_with("/ResetEpoch");
        for (const std::string where : {"mine", "theirs"}) {
          if (where == "theirs" && !names_repository) continue;
          const bool is_theirs = where == "theirs" && column != "admin of all";
          const bool may = row.may.at(is_theirs && column != "nobody" ? "no grant" : column);
          grpc::ClientContext context;
          context.set_deadline(std::chrono::system_clock::now() + kPatience);
          const grpc::Status status = Ask(row.method, channel, context, where);
          SCOPED_TRACE(Cat(place, ": ", row.method, " of ", column, " in ", where));
          // A front that does not say for whom it calls is unknown, and no less refused.
          const std::string verdict = VerdictOf(status);
          if (column == "front" && names_repository) {
            EXPECT_EQ(verdict, "unknown UNKNOWN_CALLER");
          } else {
            EXPECT_EQ(verdict, Expected(may, column)) << status.error_message();
          }
          ++cell_count;
        }
      }
    }
  }
  EXPECT_EQ(cell_count, 8 * (2 * (5 + 11 * 2) + (7 + 11 * 2)));
}

// What a call that shows this token is answered.
std::string ShowToken(const std::shared_ptr<grpc::Channel>& channel, const std::string& token) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", Cat("Bearer ", token));
  return VerdictOf(OpenUpload(channel, context, "theirs"));
}

TEST_F(AccessTest, ATokenIsShownOverTls) {
  const std::string worker = StartWorker();
  for (const std::string& address : {StartAlone(), StartFront(worker)}) {
    const auto channel = Connect(address, "");
    EXPECT_EQ(ShowToken(channel, kToken), "yes");
    std::string wrong = kToken;
    wrong.back() = 'x';
    EXPECT_EQ(ShowToken(channel, wrong), "unknown UNKNOWN_CALLER");
    EXPECT_EQ(ShowToken(channel, kOldToken), "unknown UNKNOWN_CALLER") << "expired";
    EXPECT_EQ(ShowToken(channel, "kerf_nobody_0123456789abcdefghijABCDEFGHIJ"),
              "unknown UNKNOWN_CALLER");
    EXPECT_EQ(ShowToken(channel, "x"), "unknown UNKNOWN_CALLER");
    // Who shows one that is not good is not taken for whom his certificate says he is.
    const auto certified = Connect(address, "kerf://granted/all");
    EXPECT_EQ(ShowToken(certified, wrong), "unknown UNKNOWN_CALLER");
    EXPECT_EQ(ShowToken(certified, kToken), "yes");
  }
}

// Whoever is no front speaks for himself, whatever he says of others, and of doors.
TEST_F(AccessTest, NobodySaysThatHeIsAnother) {
  const std::string worker = StartWorker();
  for (const std::string& address : {StartAlone(), worker, StartFront(worker)}) {
    for (const auto& [name, expected] : std::map<std::string, std::string>{
             {"kerf://granted/read", "forbidden NOT_YOURS"}, {"", "unknown UNKNOWN_CALLER"}}) {
      const auto channel = Connect(address, name);
      grpc::ClientContext context;
      context.AddMetadata("kerf-identity", "certificate kerf://granted/all");
      context.AddMetadata("kerf-door-seen", "tls kerf://granted/all");
      context.AddMetadata("kerf-door-peer", "ipv4:127.0.0.1:1");
      EXPECT_EQ(VerdictOf(OpenUpload(channel, context, "mine")), expected) << address;
    }
    // Of somebody whom a front lets through.
    const auto channel = Connect(address, "kerf://granted/write");
    for (const char* where : {"mine", "theirs"}) {
      grpc::ClientContext context;
      context.AddMetadata("kerf-identity", "certificate kerf://granted/all");
      EXPECT_EQ(VerdictOf(OpenUpload(channel, context, where)),
                std::string(where) == "mine" ? "yes" : "forbidden NOT_YOURS")
          << address;
    }
  }
}

// A front may say who has called it, and nothing that is no identity.
TEST_F(AccessTest, AFrontSpeaksForItsCallers) {
  const auto channel = Connect(StartAlone(), "front.example");
  const auto as = [&](const std::string& said) {
    grpc::ClientContext context;
    context.AddMetadata("kerf-identity", said);
    return VerdictOf(OpenUpload(channel, context, "mine"));
  };
  EXPECT_EQ(as("certificate kerf://granted/write"), "yes");
  EXPECT_EQ(as("certificate kerf://granted/read"), "forbidden NOT_YOURS");
  EXPECT_EQ(as("token token/nightly"), "yes");
  EXPECT_EQ(as("token token/old"), "unknown UNKNOWN_CALLER");
  EXPECT_EQ(as("token kerf://granted/write"), "unknown UNKNOWN_CALLER");
  EXPECT_EQ(as("certificate front.example"), "forbidden NOT_YOURS");
  EXPECT_EQ(as(""), "unknown UNKNOWN_CALLER");
}

TEST_F(AccessTest, WhoIsTakenOutIsRefusedAndHisStreamsEnd) {
  const std::string worker = StartWorker();
  for (const std::string& address : {StartAlone(), StartFront(worker)}) {
    WriteAccess(Rules());
    const auto channel = Connect(address, "kerf://granted/write");
    const auto is_let_in = [&] {
      grpc::ClientContext context;
      return VerdictOf(OpenUpload(channel, context, "mine")) == "yes";
    };
    for (const auto until = steady_clock::now() + kReloaded;
         !is_let_in() && steady_clock::now() < until;) {
      std::this_thread::sleep_for(milliseconds(100));
    }
    TestUpload upload(channel);
    ASSERT_TRUE(upload.SendOpen(OpenFor("mine")));
    ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
    ASSERT_TRUE(upload.SendFile(std::string(100'000, 'a')));
    ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_chunks).has_value());
    ASSERT_TRUE(upload.CommitAnswered());
    ASSERT_TRUE(upload.WaitForDone(1));
    WriteAccess(Identity("kerf://granted/all", "admin", "*") +
                Identity("front.example", "front", ""));
    const auto began = steady_clock::now();
    while (is_let_in() && steady_clock::now() < began + kReloaded) {
      std::this_thread::sleep_for(milliseconds(100));
    }
    EXPECT_FALSE(is_let_in());
    const grpc::Status end = upload.WaitForEnd();
    EXPECT_EQ(VerdictOf(end), "forbidden NOT_YOURS");
    EXPECT_LT(steady_clock::now() - began, seconds(60));
    // What was committed is kept.
    const auto request = Naming<v1::GetIndexStatsRequest>("mine");
    grpc::ClientContext context;
    v1::GetIndexStatsResponse response;
    const grpc::Status status = v1::IndexService::NewStub(Connect(address, "kerf://granted/all"))
                                    ->GetIndexStats(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_GE(response.entry_count(), 1u);
  }
}

TEST_F(AccessTest, AFileThatIsNoneChangesNothing) {
  const std::string address = StartAlone();
  WriteAccess("[[identity]]\nname = \"kerf://granted/all\"\nrole = \"admin\"\n");
  std::this_thread::sleep_for(kReloaded);
  grpc::ClientContext context;
  EXPECT_EQ(VerdictOf(OpenUpload(Connect(address, "kerf://granted/write"), context, "mine")),
            "yes");
  programs_["alone"]->Signal(SIGTERM);
  const std::string log = programs_["alone"]->Wait().err;
  EXPECT_THAT(log, HasSubstr("--access goes on as it was"));
  EXPECT_THAT(log, HasSubstr("access.toml: line 3: nobody knows 'role' here"));
  EXPECT_THAT(log, Not(HasSubstr(kToken)));
}

TEST_F(AccessTest, AUnixSocketKnowsItsUsers) {
  WriteAccess(Rules() + Identity(Cat("user/", getuid()), "write", "*"));
  ASSERT_NE(StartAlone(), "");
  world_.SetEnvironment("KERF_SERVER", World::AddressOf("alone"));
  BackupAll();
  ExpectNothingNew();
  const Completed collected = world_.Kerf({"gc"});
  EXPECT_EQ(collected.exit_code, kAuthentication) << collected.err;
  // A token goes before the user.
  identities_.Write("old.token", kOldToken);
  const Completed expired = world_.Kerf({"ping", "--token-file", "old.token"});
  EXPECT_EQ(expired.exit_code, kAuthentication) << expired.err;
  EXPECT_THAT(expired.err, HasSubstr("has expired"));
  EXPECT_THAT(expired.err, Not(HasSubstr(kOldToken)));
  // Whom else it may be shown to has to be somebody.
  for (const auto& [user, exit_code] :
       {std::pair{"root", kAuthentication}, {"23456", kAuthentication}, {"no such", kUsage}}) {
    const Completed run = world_.Kerf({"ping", "--token-file", "old.token", "--server-user", user});
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
  }
}

// A secret that everybody can read is one no longer; its group may have to, and who cannot come
// through the folders above it reads nothing.
void AccessTest::ExpectWarningOfWhatAllCanRead(const std::string& token) {
  std::string folder = "/tmp/kerf-open-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::filesystem::copy(token, folder + "/laptop.token");
  struct Case {
    mode_t folder_mode;
    mode_t file_mode;
    bool is_warned;
  };
  for (const Case& now : {Case{0755, 0604, true}, {0755, 0640, false}, {0700, 0644, false}}) {
    ASSERT_EQ(chmod(folder.c_str(), now.folder_mode), 0);
    ASSERT_EQ(chmod((folder + "/laptop.token").c_str(), now.file_mode), 0);
    const Completed pinged = world_.Kerf({"ping", "--token-file", folder + "/laptop.token"});
    EXPECT_EQ(pinged.exit_code, kOk) << pinged.err;
    EXPECT_EQ(pinged.err.find("laptop.token: every user of this machine can read this secret") !=
                  std::string::npos,
              now.is_warned)
        << pinged.err;
  }
  std::filesystem::remove_all(folder);
}

TEST_F(AccessTest, KerfShowsWhoItIs) {
  const std::string worker = StartWorker();
  world_.SetEnvironment("KERF_SERVER", StartFront(worker));
  world_.SetEnvironment("KERF_TLS_CA", "ca.pem");
  const Completed nobody = world_.Kerf({"backup", tree_});
  EXPECT_EQ(nobody.exit_code, kAuthentication) << nobody.err;
  EXPECT_THAT(nobody.err, HasSubstr("who calls?"));
  const Completed made =
      world_.Kerf({"token", "new", "laptop", "--output", "laptop.token", "--repository", "*"});
  ASSERT_EQ(made.exit_code, kOk) << made.err;
  EXPECT_THAT(made.out, Not(HasSubstr("kerf_laptop_")));
  EXPECT_EQ(
      std::filesystem::status(world_ / "laptop.token").permissions() & std::filesystem::perms::mask,
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  WriteAccess(Rules() + made.out);
  world_.SetEnvironment("KERF_TOKEN_FILE", "laptop.token");
  for (const auto until = steady_clock::now() + kReloaded;
       world_.Kerf({"ping"}).exit_code == kAuthentication && steady_clock::now() < until;) {
    std::this_thread::sleep_for(milliseconds(100));
  }
  const nlohmann::json said = world_.KerfJson({"ping"}).Only("summary");
  EXPECT_EQ(said["worker"], "worker") << said.dump();
  EXPECT_TRUE(said["degraded"].is_null()) << said.dump();
  ExpectWarningOfWhatAllCanRead(world_ / "laptop.token");
  BackupAll();
  ExpectNothingNew();
  world_.Backup({tree_, "--force", "--direct"});
  ExpectAllThere();
  // One that only stores does not collect.
  const Completed collected = world_.Kerf({"gc"});
  EXPECT_EQ(collected.exit_code, kAuthentication) << collected.err;
  EXPECT_THAT(collected.err, HasSubstr("may not do this here"));
  // In the clear nothing is said to anybody.
  world_.UnsetEnvironment("KERF_TLS_CA");
  const Completed clear = world_.Kerf({"ping"});
  EXPECT_EQ(clear.exit_code, kUsage) << clear.err;
  EXPECT_THAT(clear.err, HasSubstr("a token is shown over TLS or a unix socket alone"));
}

TEST_F(AccessTest, WhatIsRefusedIsCounted) {
  const std::string ready = world_ / "metrics.ready";
  const std::string address =
      StartAlone({"--metrics-listen", "127.0.0.1:0", "--metrics-ready-file", ready});
  ASSERT_NE(address, "");
  const auto nobody = Connect(address, "");
  grpc::ClientContext first;
  OpenUpload(nobody, first, "mine");
  ShowToken(nobody, kOldToken);
  ShowToken(nobody, "kerf_nobody_0123456789abcdefghijABCDEFGHIJ");
  ShowToken(nobody, "x");
  grpc::ClientContext second;
  OpenUpload(Connect(address, "kerf://granted/write"), second, "theirs");
  grpc::ClientContext third;
  OpenUpload(Connect(address, "front.example"), third, "mine");
  const std::string page = MetricsAt(ReadLine(ready));
  for (const auto& [reason, count] : std::map<std::string, int>{{"no_proof", 1},
                                                                {"expired", 1},
                                                                {"bad_token", 2},
                                                                {"forbidden", 1},
                                                                {"front_without_caller", 1},
                                                                {"token_in_the_clear", 0}}) {
    EXPECT_THAT(page,
                HasSubstr(Cat("kerf_access_refused_total{reason=\"", reason, "\"} ", count, "\n")));
  }
}

}  // namespace
}  // namespace kerf::e2e
