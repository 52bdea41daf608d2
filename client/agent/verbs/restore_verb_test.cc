// What `kerf restore` makes of its flags.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/agent/verbs/verbs_fixture.h"
#include "client/store/format/file_hook.h"
#include "client/store/format/tree_codec.h"
#include "client/store/snapshots/recipe_stream.h"

namespace kerf::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class RestoreVerbTest : public VerbsTest {};

TEST_F(RestoreVerbTest, ARestoreReadsBackWhatItWrote) {
  AddSnapshot(kFirst, "first");
  const Outcome plain = OnStore({"restore", "latest", "--target", target(), "--no-sync"});
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_EQ(plain.messages.back()["verified"], 0);
  const Outcome verified =
      OnStore({"restore", "latest", "--target", target(), "--overwrite", "always", "--verify"});
  EXPECT_EQ(verified.exit_code, 0);
  EXPECT_EQ(verified.messages.back()["verified"], 1);
  const Outcome both =
      OnStore({"restore", "latest", "--target", target() + "2", "--verify", "--no-sync"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.message(), HasSubstr("--no-sync"));
  EXPECT_FALSE(std::filesystem::exists(target() + "2"));
}

TEST_F(RestoreVerbTest, ARestoreRemovesWhatTheSnapshotHasNot) {
  std::vector<std::string> chunks;
  store::v1::Snapshot snapshot = test_.Describe({{"file", {"first"}}}, chunks);
  snapshot.set_id(kFirst);
  snapshot.add_paths("/");
  chunks.emplace_back("first");
  test_.WritePack(chunks);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  const auto restore = [&](Arguments more) {
    Arguments arguments = {"restore", "latest", "--target", target(), "--delete"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return OnStore(arguments);
  };
  EXPECT_EQ(restore({}).exit_code, 2) << "it needs --overwrite";
  EXPECT_EQ(OnStore({"restore", "latest", "--target", target(), "--dry-run"}).exit_code, 2);
  std::filesystem::create_directories(target() + "/other/below");
  const Outcome dry = restore({"--overwrite", "always", "--dry-run"});
  EXPECT_EQ(dry.exit_code, 0);
  ASSERT_THAT(dry.messages, SizeIs(2));
  EXPECT_EQ(dry.messages[0]["message_type"], "deleted");
  EXPECT_EQ(dry.messages[0]["path"], target() + "/other");
  EXPECT_EQ(dry.messages[0]["dry_run"], true);
  EXPECT_EQ(dry.messages[1]["deleted"], 2);
  EXPECT_FALSE(std::filesystem::exists(target() + "/file"));
  // Nothing goes unless all is there.
  std::filesystem::create_directory(target() + "/file");
  const Outcome failed = restore({"--overwrite", "always"});
  EXPECT_EQ(failed.exit_code, 3);
  EXPECT_EQ(failed.messages.back()["deleted"], 0);
  EXPECT_TRUE(std::filesystem::exists(target() + "/other/below"));
  std::filesystem::remove(target() + "/file");
  const Outcome done = restore({"--overwrite", "always"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_EQ(done.messages.back()["deleted"], 2);
  EXPECT_FALSE(std::filesystem::exists(target() + "/other"));
  EXPECT_EQ(ReadTestFile(target() + "/file"), "first");
}

TEST_F(RestoreVerbTest, ARestoreLeavesAloneWhatTheBackupLeftOut) {
  std::vector<std::string> chunks;
  store::v1::Snapshot snapshot = test_.Describe({{"file", {"first"}}}, chunks);
  snapshot.set_id(kFirst);
  snapshot.add_paths("/");
  for (const char* pattern : {"*.o", "/made/cache/"}) {
    snapshot.mutable_left_out()->add_excludes(pattern);
  }
  snapshot.mutable_left_out()->add_directories("/store");
  chunks.emplace_back("first");
  test_.WritePack(chunks);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  const auto restore = [&](Arguments more) {
    Arguments arguments = {"restore",     kFirst,   "--target", target(),
                           "--overwrite", "always", "--delete"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return OnStore(arguments);
  };
  for (const char* folder : {"/made/cache", "/store/packs", "/other"}) {
    std::filesystem::create_directories(target() + folder);
  }
  const std::vector<std::string> spared = {"/a.o", "/made/b.o", "/made/cache/c", "/store/packs/d"};
  const std::vector<std::string> unknown = {"/x", "/made/y", "/other/z"};
  for (const std::string& name : spared) WriteTestFile(target() + name, "");
  for (const std::string& name : unknown) WriteTestFile(target() + name, "");
  EXPECT_EQ(OnStore({"restore", kFirst, "--target", target(), "--delete-excluded"}).exit_code, 2);
  const Outcome dry = restore({"--dry-run"});
  EXPECT_EQ(dry.exit_code, 0);
  EXPECT_EQ(dry.messages.back()["deleted"], 4);
  EXPECT_EQ(dry.messages.back()["spared"], 4);
  const Outcome done = restore({});
  EXPECT_EQ(done.exit_code, 0);
  ASSERT_THAT(done.messages, SizeIs(4));
  std::vector<std::string> deleted;
  for (const nlohmann::json& message : done.messages) {
    if (message["message_type"] == "deleted") deleted.push_back(message["path"]);
  }
  EXPECT_THAT(deleted,
              UnorderedElementsAre(target() + "/made/y", target() + "/other", target() + "/x"));
  for (const std::string& name : spared) EXPECT_TRUE(std::filesystem::exists(target() + name));
  for (const std::string& name : unknown) EXPECT_FALSE(std::filesystem::exists(target() + name));
  const Outcome all = restore({"--delete-excluded"});
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_EQ(all.messages.back()["spared"], 0);
  for (const std::string& name : spared) EXPECT_FALSE(std::filesystem::exists(target() + name));
  const Outcome list = OnStore({"snapshots"});
  EXPECT_EQ(list.messages[0]["excludes"][0]["pattern"], "*.o");
}

// Whatever the snapshot says: it was all that there was to restore from.
// Before the first look at packs, once: what others do then.
class BeforePacks final : public FileHook {
 public:
  explicit BeforePacks(std::function<void()> others) : others_(std::move(others)) {
    SetFileHookForTest(this);
  }
  ~BeforePacks() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& operation) override {
    if (operation.path.ends_with("/packs") && !came_.exchange(true)) others_();
    return absl::OkStatus();
  }
  bool came() const { return came_; }

 private:
  const std::function<void()> others_;
  std::atomic<bool> came_ = false;
};

TEST_F(RestoreVerbTest, ASnapshotThatIsForgottenAndCollectedMeanwhileIsNotDamaged) {
  const auto lose = [&] {
    const std::string packs = test_.store().packs_directory();
    std::filesystem::remove_all(packs);
    std::filesystem::create_directory(packs);
  };
  for (const Arguments& verb :
       {Arguments{"restore", kFirst, "--target", target()}, Arguments{"ls", kFirst}}) {
    AddSnapshot(kFirst, "first");
    {
      const BeforePacks forgotten([&] {
        lose();
        std::filesystem::remove(
            ::kerf::agent::SnapshotPath(test_.store().snapshots_directory(), kFirst));
        std::filesystem::remove(test_.store().manifest().NotePath(kFirst));
      });
      const Outcome gone = OnStore(verb);
      EXPECT_TRUE(forgotten.came());
      EXPECT_EQ(gone.exit_code, 1) << verb[0];
      EXPECT_THAT(std::string(gone.messages.back()["message"]),
                  HasSubstr("was forgotten meanwhile"));
    }
    // One that is still there is damaged.
    AddSnapshot(kFirst, "first");
    const BeforePacks lost(lose);
    EXPECT_EQ(OnStore(verb).exit_code, 6) << verb[0];
    EXPECT_TRUE(lost.came());
  }
}

TEST_F(RestoreVerbTest, ARestoreNeverRemovesTheStore) {
  std::vector<std::string> chunks;
  store::v1::Snapshot snapshot = test_.Describe({{"file", {"first"}}}, chunks);
  snapshot.set_id(kFirst);
  snapshot.add_paths("/");
  chunks.emplace_back("first");
  test_.WritePack(chunks);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  const std::string above = std::filesystem::path(test_.directory()).parent_path();
  const auto restore = [&](const std::string& where) {
    return OnStore({"restore", kFirst, "--target", where, "--overwrite", "always", "--delete",
                    "--delete-excluded"});
  };
  WriteTestFile(above + "/other", "");
  EXPECT_EQ(restore(above).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(above + "/other"));
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
  for (const char* below : {"", "/new/folder"}) {
    const Outcome inside = restore(test_.directory() + below);
    EXPECT_EQ(inside.exit_code, 1);
    EXPECT_THAT(inside.message(), HasSubstr("lies in the store"));
  }
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
}

TEST_F(RestoreVerbTest, ARestoreRefusesToRemoveWhatItDoesNotKnow) {
  std::vector<std::string> chunks;
  store::v1::Snapshot snapshot = test_.Describe({{"file", {"first"}}}, chunks);
  snapshot.set_id(kFirst);
  snapshot.add_paths("/");
  test_.WritePack(chunks);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  std::filesystem::create_directories(target() + "/precious");
  const auto restore = [&](const std::string& what, const std::string& where) {
    return OnStore({"restore", what, "--target", where, "--delete", "--overwrite", "always"});
  };
  // A file alone would take all that lies beside it along.
  const Outcome file = restore("latest:/file", target());
  EXPECT_EQ(file.exit_code, 1);
  EXPECT_THAT(file.message(), HasSubstr("no directory"));
  const Outcome root = restore("latest", "/.");
  EXPECT_EQ(root.exit_code, 1);
  EXPECT_THAT(root.message(), HasSubstr("root of the running system"));
  snapshot.set_id(kSecond);
  snapshot.mutable_stats()->set_error_count(1);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  const Outcome partial = restore(kSecond, target());
  EXPECT_EQ(partial.exit_code, 1);
  EXPECT_THAT(partial.message(), HasSubstr("could not be read"));
  EXPECT_TRUE(std::filesystem::exists(target() + "/precious"));
}

// A snapshot of somebody else: what it may do to who restores it.
TEST_F(RestoreVerbTest, WhatIsLeftOutByWishIsSaidAndIsNoError) {
  std::vector<std::uint8_t> stream;
  for (const NodeKind kind : {NodeKind::kBlockDevice, NodeKind::kDirectory}) {
    TreeEntry entry;
    entry.node.path = kind == NodeKind::kDirectory ? "b" : "a";
    entry.node.kind = kind;
    entry.node.mode = 02777;
    EncodeTreeEntry(entry, 32, stream);
  }
  const std::string tree(stream.begin(), stream.end());
  test_.WritePack({tree});
  store::v1::Snapshot snapshot;
  RecipeToProto({RefOf(tree)}, 32, *snapshot.mutable_tree());
  snapshot.set_id(kFirst);
  snapshot.mutable_stats()->set_entry_count(2);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  const Arguments restore = {"restore", kFirst, "--target", target(), "--no-setid", "--no-devices"};
  const Outcome outcome = OnStore(restore);
  EXPECT_EQ(outcome.exit_code, 0);
  const nlohmann::json summary = outcome.messages.back();
  EXPECT_EQ(summary["without_setid"], 1);
  EXPECT_EQ(summary["left_out_devices"], 1);
  EXPECT_EQ(summary["errors"], 0);
  EXPECT_FALSE(std::filesystem::exists(target() + "/a"));
  Arguments plain = restore;
  plain.insert(plain.end(), {"--store", test_.directory()});
  const Outcome said = Run(plain);
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.out, HasSubstr("1 entry without set-id bits"));
  EXPECT_THAT(said.out, HasSubstr("1 device (--no-devices)"));
}

TEST_F(RestoreVerbTest, ARestoreOfMoreThanItMayTakeWritesNothing) {
  AddSnapshot(kFirst, "first");
  const auto restore = [&](const std::string& size) {
    return OnStore({"restore", kFirst, "--target", target(), "--max-bytes", size});
  };
  for (const char* wrong : {"x", "-1", "1Q"}) EXPECT_EQ(restore(wrong).exit_code, 2) << wrong;
  for (const char* few : {"0", "4"}) {
    const Outcome outcome = restore(few);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.message(), HasSubstr("--max-bytes"));
    EXPECT_FALSE(std::filesystem::exists(target()));
  }
  EXPECT_EQ(restore("5").exit_code, 0);
  EXPECT_EQ(ReadTestFile(target() + "/file"), "first");
}

}  // namespace
}  // namespace kerf::agent
