// docs/exit_codes.md, verb by verb: each code that the page gives a verb is seen here, and no
// other.
#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/random.h"
#include "base/strings.h"
#include "client/store/snapshots/collector_lock.h"
#include "client/store/snapshots/store.h"
#include "e2e/round_trip.h"

namespace kerf::e2e {
namespace {

using Arguments = std::vector<std::string>;
using Codes = std::map<std::string, std::set<int>>;

// Packs with content are larger, those with metadata smaller.
constexpr std::uint64_t kDataPackBytes = 200'000;
constexpr char kSmallBench[] = "bench kernels --algorithm ram --size 1M --rounds 1";
constexpr char kSmallAnalyze[] = "analyze --algorithm fixed --average 4K tree";

// A server that answers every call in the same way.
class Refusing {
 public:
  explicit Refusing(grpc::StatusCode code) : service_(code) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }

  std::string address() const { return Cat("127.0.0.1:", port_); }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(grpc::StatusCode code) { Finish({code, "not for you"}); }
    void OnDone() override { delete this; }
  };
  class Service final : public grpc::CallbackGenericService {
   public:
    explicit Service(grpc::StatusCode code) : code_(code) {}
    grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
      return new Reactor(code_);
    }

   private:
    const grpc::StatusCode code_;
  };

  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class ExitCodes : public RoundTrip {
 protected:
  ExitCodes() {
    std::filesystem::create_directory(tree_);
    std::string content(300'000, '\0');
    Random(1).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    WriteText(tree_ + "/file", content);
    WriteText(tree_ + "/other", "text");
    WriteText(world_ / "empty", "");
  }

  // `command` has spaces between its arguments.
  void Expect(int code, const std::string& command) {
    const Arguments arguments = absl::StrSplit(command, ' ');
    const Completed run = world_.Kerf(arguments);
    EXPECT_EQ(run.exit_code, code) << command << ": " << run.err;
    Note(arguments, code);
  }

  void Note(const Arguments& arguments, int code) {
    static const std::set<std::string> kWithSubverbs = {"audit", "index", "repo",
                                                        "store", "tls",   "token"};
    const bool has_subverb = kWithSubverbs.contains(arguments[0]);
    seen_[has_subverb ? Cat(arguments[0], " ", arguments[1]) : arguments[0]].insert(code);
  }

  // A copy of the store, of which something becomes worse.
  std::string CopyOfStore(const std::string& name) {
    const std::string copy = world_ / name;
    std::filesystem::copy(world_.store(), copy, std::filesystem::copy_options::recursive);
    return copy;
  }
  static std::vector<std::string> FilesOf(const std::string& store, const std::string& suffix) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store)) {
      if (entry.path().string().ends_with(suffix)) files.push_back(entry.path());
    }
    return files;
  }
  static std::string NewestOf(const std::string& directory) {
    const auto store = agent::Store::Open(directory);
    const auto snapshot = store.ok() ? (*store)->FindSnapshot("latest") : store.status();
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return snapshot.ok() ? snapshot->id() : "";
  }
  static void CutShort(const std::string& path) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  }

  void WhatIsWell();
  void WhatCannotBeDone();
  void WhatIsDoneInPart();
  void WhatNeedsAServer();
  void WhatIsDamaged();
  // What the page says, without column 7.
  static Codes Documented();

  Codes seen_;
};

void ExitCodes::WhatIsWell() {
  for (const char* command : {"backup tree",
                              "restore latest --target out",
                              "snapshots",
                              "ls latest",
                              "verify",
                              "copy --to copied --create",
                              "repair",
                              "parity --percent 5 --store copied",
                              "parity --store copied",
                              "forget --keep-last 5",
                              "gc",
                              "stats",
                              "init --store made",
                              "pin latest",
                              "unpin latest",
                              "index stats",
                              "index check",
                              "index rebuild",
                              "index export",
                              "repo create other",
                              "repo list",
                              "repo stats other",
                              "repo quota other",
                              "repo reset-epoch other --epoch 0",
                              "repo drop other --yes",
                              "ping",
                              "top --once",
                              "tls init certificates --name localhost --client one",
                              "token new one --output one.token --repository a-*",
                              "audit verify empty",
                              "profiles",
                              "plan 1T",
                              "completion bash",
                              "chunk tree/file",
                              kSmallAnalyze,
                              kSmallBench}) {
    Expect(kOk, command);
  }
  const std::string newest = NewestOf(world_.store());
  Expect(kOk, Cat("forget ", newest));
  Expect(kOk, Cat("undelete ", newest));
  CopyOfStore("adopted");
  Expect(kOk, "store adopt --new-id --store adopted");
}

void ExitCodes::WhatCannotBeDone() {
  for (const char* command : {"backup tree --store tree",
                              "restore none --target out",
                              "restore latest --target out-few --max-bytes 0",
                              "ls none",
                              "ls latest:/none",
                              "copy --to nowhere",
                              "copy --to copied none",
                              "forget none",
                              "init",
                              "pin none",
                              "unpin none",
                              "unpin latest",
                              "undelete none",
                              "parity",
                              "repair --accept-loss 0000000000000000 --apply",
                              "index export --output none/list",
                              "tls init certificates --name elsewhere",
                              "token new one --output one.token --repository a-*",
                              "audit verify none",
                              "chunk none",
                              "chunk none neither",
                              "analyze none",
                              "bench service --kerfd none",
                              "snapshots --store nowhere",
                              "verify --store nowhere",
                              "stats --store nowhere"}) {
    Expect(kFailure, command);
  }
  {
    const auto collection = agent::LockCollector(world_.store());
    ASSERT_TRUE(collection.ok()) << collection.status();
    for (const char* command : {"gc", "index rebuild", "repair --packs --apply"}) {
      Expect(kFailure, command);
    }
  }
  {
    const Refusing of_before_repositories(grpc::StatusCode::UNIMPLEMENTED);
    world_.SetEnvironment("KERF_SERVER", of_before_repositories.address());
    for (const char* command : {"repo create other", "repo list", "repo drop other --yes",
                                "repo reset-epoch other --epoch 0"}) {
      Expect(kFailure, command);
    }
    world_.SetEnvironment("KERF_SERVER", world_.address());
  }
  // That there is no store is not this verb's own.
  for (const char* verb : {"snapshots", "verify", "stats"}) seen_[verb].erase(kFailure);
}

void ExitCodes::WhatIsDoneInPart() {
  // What was restored is in the way.
  for (const char* command :
       {"backup tree none", "restore latest --target out", "chunk none tree/file"}) {
    Expect(kPartial, command);
  }
  Expect(kPartial, Cat(kSmallAnalyze, " none"));
  // Nobody tells the index of this one.
  world_.UnsetEnvironment("KERF_SERVER");
  Expect(kOk, "copy --to third --create");
  world_.SetEnvironment("KERF_SERVER", world_.address());
  Expect(kPartial, "index check --store third");
  const auto third = agent::Store::Open(world_ / "third");
  ASSERT_TRUE(third.ok()) << third.status();
  auto snapshot = (*third)->FindSnapshot("latest");
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  *snapshot->mutable_tree() = snapshot->identity();
  ASSERT_TRUE((*third)->WriteSnapshot(*snapshot).ok());
  Expect(kPartial, "copy --to third");
}

void ExitCodes::WhatNeedsAServer() {
  world_.StopServer();
  for (const char* command :
       {"backup tree", "gc", "index stats", "index check", "index rebuild", "index export",
        "repo create other", "repo list", "repo drop other --yes", "repo stats other",
        "repo quota other", "repo reset-epoch other --epoch 0", "ping", "top --once"}) {
    Expect(kUnavailable, command);
  }
  // A kerf without its kerf-lab.
  std::filesystem::create_directory(world_ / "bin");
  std::filesystem::copy_file(std::filesystem::canonical(BuiltProgram("client/agent/kerf")),
                             world_ / "bin/kerf");
  for (const char* command : {kSmallAnalyze, kSmallBench}) {
    Arguments arguments = absl::StrSplit(command, ' ');
    Note(arguments, kUnavailable);
    arguments.insert(arguments.begin(), world_ / "bin/kerf");
    EXPECT_EQ(world_.Run(arguments).exit_code, kUnavailable) << command;
  }
  world_.StartServer();
}

void ExitCodes::WhatIsDamaged() {
  Expect(kIntegrity, "audit verify tree/file");
  const std::string cut_pack = CopyOfStore("cut-pack");
  for (const std::string& pack : FilesOf(cut_pack, ".pack")) CutShort(pack);
  for (const std::string command :
       {"restore latest --target out-cut", "ls latest", "verify", "copy --to fourth --create",
        "stats", "index check", "index rebuild", "parity --percent 5", "gc"}) {
    Expect(kIntegrity, Cat(command, " --store cut-pack"));
  }
  // The metadata is there, and the content is not.
  const std::string no_data = CopyOfStore("no-data");
  for (const std::string& pack : FilesOf(no_data, ".pack")) {
    if (std::filesystem::file_size(pack) > kDataPackBytes) std::filesystem::remove(pack);
  }
  Expect(kOk, "ls latest --store no-data");
  for (const std::string command :
       {"restore latest --target out-no", "verify", "copy --to fifth --create", "gc"}) {
    Expect(kIntegrity, Cat(command, " --store no-data"));
  }
  const std::string newest = NewestOf(no_data);
  Expect(kOk, Cat("forget ", newest, " --store no-data"));
  Expect(kIntegrity, Cat("undelete ", newest, " --store no-data"));
  const std::string no_config = CopyOfStore("no-config");
  std::filesystem::remove(no_config + "/config");
  std::filesystem::remove(no_config + "/copies/config");
  Expect(kIntegrity, "init --store no-config");
  const std::string cut_snapshot = CopyOfStore("cut-snapshot");
  for (const std::string& snapshot : FilesOf(cut_snapshot, ".snap")) CutShort(snapshot);
  for (const std::string command :
       {"snapshots", "forget --keep-last 1", "verify", "stats", "copy --to sixth --create",
        "pin latest", "repair", "restore latest --target out-s", "gc"}) {
    Expect(kIntegrity, Cat(command, " --store cut-snapshot"));
  }
}

Codes ExitCodes::Documented() {
  constexpr int kColumns[] = {kFailure, kPartial, kUnavailable, kIntegrity};
  std::istringstream page(ReadText(BuiltProgram("docs/exit_codes.md")));
  Codes codes;
  std::string line;
  while (std::getline(page, line) && !line.starts_with("| verb |")) {
  }
  while (std::getline(page, line) && line.starts_with('|')) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() < 7 || cells[1].starts_with(" ---")) continue;
    const std::string verb(absl::StripAsciiWhitespace(cells[1]));
    codes[verb].insert(kOk);
    for (std::size_t column = 0; column < std::size(kColumns); ++column) {
      const std::string& cell = cells[2 + column];
      if (!absl::StripAsciiWhitespace(cell).empty()) codes[verb].insert(kColumns[column]);
    }
  }
  return codes;
}

TEST_F(ExitCodes, AreThoseOfThePage) {
  WhatIsWell();
  WhatCannotBeDone();
  WhatIsDoneInPart();
  WhatNeedsAServer();
  WhatIsDamaged();
  // It takes a disk that fails; client/store/collect/collection_parity_test.cc has one.
  Codes documented = Documented();
  EXPECT_EQ(documented["gc"].erase(kPartial), 1u);
  // It takes a kerfd with quotas; e2e/quota_test.cc has one.
  EXPECT_EQ(documented["index rebuild"].erase(kPartial), 1u);
  // It takes a machine without the library.
  EXPECT_EQ(documented["parity"].erase(kUnavailable), 1u);
  EXPECT_EQ(seen_, documented);
}

// Who one is, or what one may: kerfd itself asks neither, a proxy before it may.
TEST_F(ExitCodes, AServerThatRefusesWhoAsks) {
  Expect(kOk, "backup tree");
  for (const grpc::StatusCode code :
       {grpc::StatusCode::UNAUTHENTICATED, grpc::StatusCode::PERMISSION_DENIED}) {
    SCOPED_TRACE(static_cast<int>(code));
    const Refusing refusing(code);
    world_.SetEnvironment("KERF_SERVER", refusing.address());
    for (const char* command :
         {"backup tree --force", "gc", "index stats", "index check", "index rebuild",
          "index export", "repo create other", "repo list", "repo drop other --yes",
          "repo stats other", "repo quota other", "repo reset-epoch other --epoch 0", "ping"}) {
      Expect(kAuthentication, command);
    }
  }
}

TEST_F(ExitCodes, EveryVerbIsOnThePage) {
  std::set<std::string> documented;
  for (const auto& [verb, codes] : Documented()) documented.insert(verb.substr(0, verb.find(' ')));
  std::set<std::string> known;
  std::istringstream help(world_.Kerf({"--help"}).out);
  std::string line;
  while (std::getline(help, line) && line != "Subcommands:") {
  }
  while (std::getline(help, line) && line.starts_with("  ")) {
    if (line[2] != ' ') known.insert(line.substr(2, line.find(' ', 2) - 2));
  }
  EXPECT_FALSE(known.empty());
  EXPECT_EQ(documented, known);
}

}  // namespace
}  // namespace kerf::e2e
