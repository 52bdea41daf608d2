// What the release of a version wrote, and what its programs said to each other, are what today's
// programs read, write on and say. e2e/releases/README.md tells of the records.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/fs/testing/compare_trees.h"
#include "client/fs/testing/settle.h"
#include "e2e/message_log.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

using agent::testing::CompareTrees;
using agent::testing::RemoveTree;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kOk = 0;
constexpr int kPartial = 3;

// Where the recorded files lay: part of the snapshots.
constexpr const char* kRecordedTree = "/tmp/kerf-release/tree";
// What is in here only root can make, and restore.
constexpr const char* kRootOnly = "root-only";
// Of one of the trees: more than its metadata takes, and less than its content.
constexpr int kMetadataBytes = 70'000;

bool IsRoot() { return geteuid() == 0; }

std::vector<std::string> LinesOf(const std::string& path) {
  std::istringstream text(ReadText(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  EXPECT_FALSE(lines.empty()) << path;
  return lines;
}

// Messages may have got more keys and kinds since; what was there must be there still.
void ExpectAllOf(const std::vector<nlohmann::json>& recorded,
                 const std::vector<nlohmann::json>& today) {
  ASSERT_EQ(recorded.size(), today.size());
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    for (const auto& [key, value] : recorded[i].items()) {
      EXPECT_EQ(today[i].value(key, nlohmann::json()), value) << key << " of " << recorded[i];
    }
  }
}

class ReleaseTest : public ::testing::Test {
 protected:
  ReleaseTest() : records_(world_ / "release"), target_(world_ / "restored") {
    std::filesystem::create_directory(records_);
  }
  ~ReleaseTest() override {
    RemoveTree(records_);
    RemoveTree(target_);
  }

  void SetUp() override {
    std::vector<std::string> unpack = {"/bin/tar",
                                       "--extract",
                                       "--preserve-permissions",
                                       "--xattrs",
                                       "--xattrs-include=*",
                                       "--acls",
                                       "--numeric-owner",
                                       "--file",
                                       BuiltProgram("e2e/releases/0.1.0.tar.gz"),
                                       "--directory",
                                       records_};
    if (!IsRoot()) unpack.push_back(Cat("--exclude=", kRootOnly));
    const Completed unpacked = world_.Run(unpack);
    ASSERT_EQ(unpacked.exit_code, 0) << unpacked.err;
    for (const std::string& line : LinesOf(records_ + "/snapshots")) {
      std::istringstream words(line);
      std::string store, snapshot, version;
      words >> store >> snapshot >> version;
      versions_[snapshot] = version;
    }
  }

  void UseStore(const std::string& name) { world_.SetEnvironment("KERF_STORE", StorePath(name)); }
  std::string StorePath(const std::string& name) const { return records_ + "/stores/" + name; }
  std::string TreePath(const std::string& version) const { return records_ + "/trees/" + version; }

  void ServeIndex(const std::string& data_dir) {
    server_.reset();
    server_ = world_.StartKerfd(
        "kerfd", {"--data-dir", data_dir, "--listen", "127.0.0.1:0", "--worker-name", "kerf"});
    ASSERT_NE(server_, nullptr);
  }
  std::string KeptIndex() const { return records_ + "/index"; }

  std::vector<nlohmann::json> RecordedList(const std::string& store, const std::string& name) {
    std::vector<nlohmann::json> list;
    for (const std::string& line : LinesOf(Cat(records_, "/lists/", store, "/", name))) {
      list.push_back(nlohmann::json::parse(line));
    }
    return list;
  }

  // The ids of the store's snapshots, oldest first.
  std::vector<std::string> Snapshots() {
    std::vector<std::string> ids;
    for (const nlohmann::json& one : world_.KerfJson({"snapshots"}).Of("snapshot")) {
      ids.push_back(one["snapshot"]);
    }
    return ids;
  }

  void ExpectRestored(const std::string& snapshot, const std::string& tree,
                      const std::string& backed_up_as) {
    SCOPED_TRACE(Cat("snapshot ", snapshot));
    const JsonRun run = world_.KerfJson({"restore", snapshot, "--target", target_});
    EXPECT_TRUE(run.exit_code == kOk || (run.exit_code == kPartial && !IsRoot()));
    const std::string restored = target_ + backed_up_as;
    if (!IsRoot()) RemoveTree(restored + "/" + kRootOnly);
    EXPECT_THAT(CompareTrees(tree, restored, {.owners = IsRoot(), .holes = true}), IsEmpty());
    RemoveTree(target_);
  }
  void ExpectRecordedRestored(const std::string& snapshot) {
    if (versions_.contains(snapshot)) {
      ExpectRestored(snapshot, TreePath(versions_[snapshot]), kRecordedTree);
    } else {
      // Its tree is not kept.
      EXPECT_EQ(
          world_.KerfJson({"restore", snapshot, "--target", target_}).Only("summary")["errors"], 0);
      RemoveTree(target_);
    }
  }
  void ExpectVerified() {
    const JsonRun run = world_.KerfJson({"verify", "--read-data"});
    EXPECT_EQ(run.exit_code, kOk);
    EXPECT_EQ(run.Only("summary")["findings"], 0);
  }
  nlohmann::json CheckIndex() {
    const JsonRun run = world_.KerfJson({"index", "check"});
    EXPECT_EQ(run.exit_code, kOk);
    return run.Only("summary");
  }

  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& name) const {
    return grpc::CreateChannel(world_.LastAddressOf(name), grpc::InsecureChannelCredentials());
  }
  void ExpectSameAnswers(const std::string& log) {
    const std::vector<LoggedEvent> events =
        ParseMessageLog(ReadText(records_ + "/messages/" + log));
    const auto all = [](const std::string& /*method*/) { return true; };
    const std::map<int, LoggedCall> today = ReplayMessageLog(events, ChannelTo("kerfd"), all);
    const std::map<int, LoggedCall> recorded = LoggedCalls(events);
    for (const auto& [number, call] : recorded) {
      SCOPED_TRACE(Cat(log, ": call ", number, ", ", call.method));
      const auto found = today.find(number);
      if (found == today.end()) {
        ADD_FAILURE() << "was not answered";
      } else {
        EXPECT_EQ(found->second.answers, call.answers);
      }
    }
  }

  World world_;
  const std::string records_;
  const std::string target_;
  // Of each snapshot, which tree it is of.
  std::map<std::string, std::string> versions_;
  std::unique_ptr<Program> server_;
};

class ReleasedStore : public ReleaseTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(ReleasedStore, IsReadAsItWas) {
  UseStore(GetParam());
  const std::vector<nlohmann::json> snapshots = RecordedList(GetParam(), "snapshots");
  ExpectAllOf(snapshots, world_.KerfJson({"snapshots"}).messages);
  for (const nlohmann::json& snapshot : snapshots) {
    const std::string id = snapshot["snapshot"];
    ExpectAllOf(RecordedList(GetParam(), id), world_.KerfJson({"ls", id}).messages);
    ExpectRecordedRestored(id);
  }
  ExpectVerified();
}

TEST_P(ReleasedStore, IsAddedToAndCollected) {
  UseStore(GetParam());
  ServeIndex(KeptIndex());
  ASSERT_FALSE(HasFatalFailure());
  const std::vector<std::string> recorded = Snapshots();
  EXPECT_THAT(recorded, Not(IsEmpty()));
  // A collection that was killed in the middle is done by the next one.
  EXPECT_EQ(world_.Kerf({"gc"}).exit_code, kOk);
  const nlohmann::json check = CheckIndex();
  EXPECT_GT(check["chunks"], 30);
  EXPECT_EQ(check["known"], check["chunks"]);

  const std::string tree = TreePath("3");
  agent::testing::LetFilesSettle();
  const nlohmann::json added = world_.Backup({tree});
  EXPECT_LT(added["new_bytes"], kMetadataBytes) << added;
  EXPECT_EQ(added["healed_chunks"], 0) << added;
  EXPECT_EQ(added["stale_chunks"], 0) << added;
  const nlohmann::json unchanged = world_.Backup({tree});
  constexpr int kHardLinks = 2;
  EXPECT_EQ(int{unchanged["unchanged_files"]} + kHardLinks, unchanged["files"]) << unchanged;
  world_.ExpectNothingNew(unchanged);

  for (const std::string& id : recorded) ExpectRecordedRestored(id);
  ExpectRestored("latest", tree, tree);
  for (const std::string& id : recorded) EXPECT_EQ(world_.Kerf({"forget", id}).exit_code, kOk);
  const nlohmann::json collected = world_.KerfJson({"gc", "--max-waste", "0.01"}).Only("summary");
  EXPECT_GT(collected["deleted_packs"], 0) << collected;
  EXPECT_THAT(collected["findings"], IsEmpty());
  ExpectRestored("latest", tree, tree);
  ExpectVerified();
  EXPECT_EQ(CheckIndex()["gone"], 0);
}

// Its packs stay as they are, and what is lost of each of them comes back.
TEST_P(ReleasedStore, GetsParityAndIsMended) {
  UseStore(GetParam());
  const auto packs = [&] {
    std::map<std::string, std::string> content;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(StorePath(GetParam()) + "/packs")) {
      if (entry.is_regular_file()) content[entry.path()] = ReadText(entry.path());
    }
    return content;
  };
  const std::map<std::string, std::string> sound = packs();
  const nlohmann::json made = world_.KerfJson({"parity", "--percent", "5"}).Only("summary");
  EXPECT_EQ(made["made"], sound.size());
  EXPECT_EQ(made["failed"], 0);
  EXPECT_EQ(packs(), sound);
  ExpectVerified();
  // A sector of each, and all behind the footer's beginning of every other one.
  bool is_cut = false;
  for (const auto& [path, content] : sound) {
    std::string damaged = content;
    damaged.replace(damaged.size() / 2, 8, "DAMAGED!");
    is_cut = !is_cut;
    if (is_cut) damaged.resize(damaged.size() - 70);
    WriteText(path, damaged);
  }
  for (const nlohmann::json& snapshot : RecordedList(GetParam(), "snapshots")) {
    ExpectRecordedRestored(snapshot["snapshot"]);
  }
  const JsonRun verify = world_.KerfJson({"verify", "--read-data"});
  EXPECT_EQ(verify.Only("summary")["damaged_packs"].size(), sound.size());
  EXPECT_EQ(verify.Only("summary")["mendable_packs"].size(), sound.size());
  EXPECT_EQ(world_.Kerf({"repair", "--packs", "--apply"}).exit_code, kOk);
  EXPECT_EQ(packs(), sound);
  ExpectVerified();
  // The way back to that release.
  EXPECT_EQ(world_.KerfJson({"parity", "--off"}).Only("summary")["removed"], sound.size());
  EXPECT_EQ(packs(), sound);
}

INSTANTIATE_TEST_SUITE_P(Stores, ReleasedStore,
                         ::testing::Values("plain", "collected", "interrupted"),
                         [](const auto& name) { return std::string(name.param); });

// The paths below `folder` and how many chunks each file has.
std::map<std::string, int> ChunkCounts(const std::vector<nlohmann::json>& entries,
                                       const std::string& folder) {
  std::map<std::string, int> counts;
  for (const nlohmann::json& entry : entries) {
    const std::string path = entry.value("path", "");
    // What is not UTF-8 is not told apart here.
    if (!entry.contains("path_base64") && path.starts_with(folder) && entry.contains("chunks")) {
      counts[path.substr(folder.size())] = entry["chunks"];
    }
  }
  return counts;
}

TEST_F(ReleaseTest, NewStoreCutsAsTheOldOneDoes) {
  ServeIndex(world_ / "empty");
  ASSERT_FALSE(HasFatalFailure());
  const std::string tree = TreePath("3");
  world_.Backup({tree});
  const nlohmann::json recorded = RecordedList("plain", "snapshots").back();
  EXPECT_EQ(versions_[recorded["snapshot"]], "3");
  EXPECT_EQ(world_.KerfJson({"snapshots"}).Only("snapshot")["profile"], recorded["profile"]);
  const std::map<std::string, int> counts =
      ChunkCounts(RecordedList("plain", recorded["snapshot"]), kRecordedTree);
  EXPECT_GT(counts.size(), 40);
  EXPECT_EQ(ChunkCounts(world_.KerfJson({"ls", "latest"}).messages, tree), counts);
  for (const std::string& store : {world_.store(), StorePath("plain")}) {
    EXPECT_THAT(ReadText(store + "/config"),
                HasSubstr("fastcdc2020:min=512,avg=2048,max=16384,level=1"))
        << "how metadata is cut";
  }
}

TEST_F(ReleaseTest, CollectionThatWasKilledIsDoneAgain) {
  UseStore("interrupted");
  const std::string pending = StorePath("interrupted") + "/pending";
  ASSERT_TRUE(std::filesystem::exists(StorePath("interrupted") + "/gc/plan"));
  const std::filesystem::directory_iterator published(pending);
  ASSERT_NE(published, std::filesystem::directory_iterator());
  const std::filesystem::path file = published->path();
  ServeIndex(KeptIndex());
  ASSERT_FALSE(HasFatalFailure());
  const nlohmann::json done = world_.KerfJson({"gc", "--max-waste", "0.01"}).Only("summary");
  EXPECT_GT(done["condemned_chunks"], 0) << done;
  EXPECT_GT(done["deleted_packs"], 0) << done;
  EXPECT_FALSE(std::filesystem::exists(StorePath("interrupted") + "/gc/plan"));
  // What nobody had checked yet was kept whole.
  std::filesystem::rename(
      file, std::filesystem::path(StorePath("interrupted")) / "snapshots" / file.filename());
  ExpectVerified();
  ExpectRecordedRestored(file.stem());
}

TEST_F(ReleaseTest, IndexKnowsTheChunksThatWereCommitted) {
  ServeIndex(KeptIndex());
  ASSERT_FALSE(HasFatalFailure());
  for (const char* name : {"plain", "collected"}) {
    UseStore(name);
    const nlohmann::json check = CheckIndex();
    EXPECT_GT(check["chunks"], 30);
    EXPECT_EQ(check["known"], check["chunks"]);
    EXPECT_EQ(check["index_entries"], check["chunks"]);
  }
}

TEST_F(ReleaseTest, MessagesOfTheAgentGetTheSameAnswers) {
  ServeIndex(world_ / "empty");
  ASSERT_FALSE(HasFatalFailure());
  ExpectSameAnswers("empty-index");
}

TEST_F(ReleaseTest, MessagesGetTheSameAnswersFromTheIndexThatWasKept) {
  ServeIndex(KeptIndex());
  ASSERT_FALSE(HasFatalFailure());
  ExpectSameAnswers("kept-index");
}

TEST_F(ReleaseTest, FrontAnswersWhereAWorkerIs) {
  server_ = world_.StartKerfd("worker", {"--worker-name", "kerf"});
  ASSERT_NE(server_, nullptr);
  const std::unique_ptr<Program> front = world_.StartKerfd(
      "front",
      {"--role", "front", "--workers", World::AddressOf("worker"), "--listen", "127.0.0.1:0"});
  ASSERT_NE(front, nullptr);
  const std::vector<LoggedEvent> events = ParseMessageLog(ReadText(records_ + "/messages/front"));
  const auto is_locate = [](const std::string& method) {
    return method == "/kerf.v1.RoutingService/Locate";
  };
  const std::map<int, LoggedCall> today = ReplayMessageLog(events, ChannelTo("front"), is_locate);
  EXPECT_FALSE(today.empty());
  std::map<int, LoggedCall> recorded = LoggedCalls(events);
  for (const auto& [number, call] : today) EXPECT_EQ(call.answers, recorded[number].answers);
}

}  // namespace
}  // namespace kerf::e2e
