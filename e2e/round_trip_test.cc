// What goes in comes out: real processes, real file systems, compared by plain system calls.
#include "e2e/round_trip.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/fs/testing/compare_trees.h"
#include "client/fs/testing/nasty_tree.h"
#include "client/fs/testing/settle.h"

namespace kerf::e2e {
namespace {

using agent::testing::CompareTrees;
using agent::testing::MakeNastyTree;
using agent::testing::RemoveTree;
using agent::testing::RemoveUnreadable;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What the tree's metadata may take; its content is some MiB.
constexpr int kMetadataBytes = 100'000;

class NastyRoundTrip : public RoundTrip {
 protected:
  void MakeNasty() { RemoveUnreadable(MakeNastyTree(tree_, TestSeed())); }
};

TEST_F(NastyRoundTrip, NastyTree) {
  MakeNasty();
  const nlohmann::json first = world_.Backup({tree_});
  EXPECT_EQ(first["warnings"], 0);
  const JsonRun restored = Restore(first["snapshot"]);
  EXPECT_EQ(restored.exit_code, kOk);
  EXPECT_EQ(restored.Only("summary")["errors"], 0);
  ExpectRestored(tree_);
  EXPECT_EQ(world_.KerfJson({"verify", "--read-data"}).exit_code, kOk);

  // Files that were written a moment before are read again once.
  agent::testing::LetFilesSettle();
  world_.Backup({tree_});
  const nlohmann::json unchanged = world_.Backup({tree_});
  constexpr int kHardLinks = 5;
  EXPECT_EQ(int{unchanged["unchanged_files"]} + kHardLinks, unchanged["files"]);
  EXPECT_LT(unchanged["new_bytes"], kMetadataBytes);
  RemoveTree(target_);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  ExpectRestored(tree_);
}

// As flags, and as settings of the configuration file.
TEST_F(NastyRoundTrip, EveryWayToCompressAndToReadAhead) {
  MakeNasty();
  const struct {
    const char* compression;
    const char* readers;
    const char* read_order;
  } ways[] = {{"off", "0", "path"},     {"fast", "1", "inode"}, {"default", "64", "physical"},
              {"max", "2", "physical"}, {"auto", "8", "inode"}, {"9", "3", "path"}};
  for (const auto& way : ways) {
    SCOPED_TRACE(way.compression);
    const std::string store = world_ / Cat("store-", way.compression);
    WriteText(world_ / "config.toml",
              Cat("[backup]\ncompression = \"", way.compression, "\"\nreaders = ", way.readers,
                  "\nread-order = \"", way.read_order, "\"\n"));
    EXPECT_EQ(world_.Backup({tree_, "--store", store, "--compression", way.compression, "--readers",
                             way.readers, "--read-order", way.read_order})["warnings"],
              0);
    EXPECT_EQ(
        world_.Backup({tree_, "--store", store, "--force", "--config", "config.toml"})["warnings"],
        0);
    RemoveTree(target_);
    EXPECT_EQ(
        world_.KerfJson({"restore", "latest", "--store", store, "--target", target_}).exit_code,
        kOk);
    ExpectRestored(tree_);
    EXPECT_EQ(world_.KerfJson({"verify", "--read-data", "--store", store}).exit_code, kOk);
  }
}

// The server and the agent cut alike: what one way has stored the other one finds.
TEST_F(NastyRoundTrip, BothWaysToCut) {
  MakeNasty();
  const nlohmann::json local = world_.Backup({tree_, "--cut", "local"});
  EXPECT_GT(local["new_chunks"], 0);
  EXPECT_GT(local["streams"], 0);
  EXPECT_EQ(local["local_cut_streams"], local["streams"]);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  ExpectRestored(tree_);
  const nlohmann::json remote = world_.Backup({tree_, "--force"});
  EXPECT_EQ(remote["local_cut_streams"], 0);
  EXPECT_LT(remote["new_bytes"], kMetadataBytes);
  const nlohmann::json fastest = world_.Backup({tree_, "--force", "--cut", "auto"});
  EXPECT_LT(fastest["new_bytes"], kMetadataBytes);
  EXPECT_EQ(fastest["stale_chunks"], 0);
  EXPECT_EQ(world_.KerfJson({"verify", "--read-data"}).exit_code, kOk);
  EXPECT_EQ(world_.KerfJson({"index", "check"}).exit_code, kOk);
  RemoveTree(target_);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  ExpectRestored(tree_);
}

TEST_F(NastyRoundTrip, TheSameWithoutAnIndex) {
  if (World::BackupsGoByPlace()) GTEST_SKIP() << "nobody else knows what the store has";
  MakeNasty();
  world_.Backup({tree_});
  world_.StopServer();
  RemoveTree(world_ / "server/data");
  world_.StartServer();
  const nlohmann::json again = world_.Backup({tree_, "--force"});
  EXPECT_LT(again["new_bytes"], kMetadataBytes) << "what the store holds is not stored twice";
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  ExpectRestored(tree_);
}

TEST_F(RoundTrip, ARealTree) {
  const std::string real = "/usr/include/linux";
  if (access(real.c_str(), R_OK) != 0) GTEST_SKIP() << real << " is not there";
  world_.Backup({real});
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_THAT(CompareTrees(real, target_ + real, {.owners = geteuid() == 0}), IsEmpty());
}

TEST_F(NastyRoundTrip, ASubtreeGoesStraightIntoTheTarget) {
  MakeNasty();
  world_.Backup({tree_});
  EXPECT_EQ(Restore("latest:" + tree_ + "/links").exit_code, kOk);
  // Names of the same file outside of the subtree do not count.
  for (const std::string& line : CompareTrees(tree_ + "/links", target_)) {
    EXPECT_THAT(line, HasSubstr("number of links"));
  }
  struct stat a{};
  struct stat b{};
  ASSERT_EQ(stat((target_ + "/a-first").c_str(), &a), 0);
  ASSERT_EQ(stat((target_ + "/other/third").c_str(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
  EXPECT_EQ(a.st_nlink, 3u);

  RemoveTree(target_);
  EXPECT_EQ(Restore("latest:" + tree_ + "/files/random").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + "/random"), ReadText(tree_ + "/files/random"));

  const JsonRun none = Restore("latest:/no/such/path");
  EXPECT_EQ(none.exit_code, kFailure);
  EXPECT_EQ(none.Only("error")["code"], "NOT_FOUND");
}

TEST_F(RoundTrip, OverwritePolicies) {
  std::filesystem::create_directory(tree_);
  WriteText(tree_ + "/a", "snapshot");
  world_.Backup({tree_});
  ASSERT_EQ(Restore("latest").exit_code, kOk);
  const std::string file = target_ + tree_ + "/a";
  WriteText(file, "mine");
  const JsonRun refused = Restore("latest");
  EXPECT_EQ(refused.exit_code, kPartial);
  EXPECT_EQ(refused.Only("warning")["code"], "ALREADY_EXISTS");
  EXPECT_EQ(ReadText(file), "mine");
  EXPECT_EQ(Restore("latest", {"--overwrite", "never"}).exit_code, kOk);
  EXPECT_EQ(ReadText(file), "mine");
  const JsonRun changed = Restore("latest", {"--overwrite", "if-changed"});
  EXPECT_EQ(changed.exit_code, kOk);
  EXPECT_EQ(changed.Only("summary")["files"], 1);
  EXPECT_EQ(ReadText(file), "snapshot");
  EXPECT_EQ(Restore("latest", {"--overwrite", "if-changed"}).Only("summary")["skipped"], 1);
  EXPECT_EQ(Restore("latest", {"--overwrite", "always"}).Only("summary")["files"], 1);
  EXPECT_EQ(Restore("latest", {"--overwrite", "sometimes"}).exit_code, 2);
}

TEST_F(RoundTrip, ExcludesAndTheStoreItself) {
  std::filesystem::create_directories(tree_ + "/cache/deep");
  WriteText(tree_ + "/a.o", "x");
  WriteText(tree_ + "/a.c", "x");
  WriteText(tree_ + "/cache/deep/b", "x");
  WriteText(world_ / "excludes", "# objects\n*.o\n");
  world_.SetEnvironment("KERF_STORE", tree_ + "/store");
  world_.Backup({tree_, "--exclude", "cache/", "--exclude-from", world_ / "excludes"});
  EXPECT_THAT(List("latest:" + tree_), ::testing::ElementsAre(tree_, tree_ + "/a.c"));
  // And it knows what it left out: over the very tree only what is new goes.
  WriteText(tree_ + "/new", "x");
  const JsonRun run = world_.KerfJson(
      {"restore", "latest:" + tree_, "--target", tree_, "--overwrite", "if-changed", "--delete"});
  EXPECT_EQ(run.exit_code, kOk);
  EXPECT_EQ(run.Only("summary")["spared"], 3);
  EXPECT_FALSE(std::filesystem::exists(tree_ + "/new"));
  for (const char* name : {"/a.o", "/a.c", "/cache/deep/b", "/store/config"}) {
    EXPECT_TRUE(std::filesystem::exists(tree_ + name)) << name;
  }
}

TEST_F(RoundTrip, AMissingPathIsPartialAndNothingElseIsLost) {
  std::filesystem::create_directory(tree_);
  WriteText(tree_ + "/fine", "fine");
  const JsonRun run = world_.KerfJson({"backup", tree_, world_ / "none"});
  EXPECT_EQ(run.exit_code, kPartial);
  EXPECT_EQ(run.Only("warning")["code"], "NOT_FOUND");
  EXPECT_EQ(world_.KerfJson({"backup", world_ / "none"}).exit_code, kFailure);
}

TEST_F(NastyRoundTrip, ADamagedPackIsFoundAndTheRestIsRestored) {
  MakeNasty();
  world_.Backup({tree_});
  Random random(TestSeed());
  std::vector<std::string> packs;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(world_.store() + "/packs")) {
    if (entry.is_regular_file() && entry.file_size() > 100'000) packs.push_back(entry.path());
  }
  ASSERT_FALSE(packs.empty());
  // In the middle of the largest block: not the footer, not the metadata.
  const std::string pack = packs[random.Below(packs.size())];
  std::fstream file(pack, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(50'000);
  const char byte = static_cast<char>(file.get());
  file.seekp(50'000);
  file.put(static_cast<char>(byte ^ 0x55));
  file.close();
  const JsonRun verify = world_.KerfJson({"verify", "--read-data"});
  EXPECT_EQ(verify.exit_code, kIntegrity);
  EXPECT_FALSE(verify.Of("finding").empty());
  const JsonRun restored = Restore("latest");
  EXPECT_EQ(restored.exit_code, kIntegrity);
  EXPECT_FALSE(restored.Of("warning").empty());
  // A file that is damaged is not there; all that is there is right.
  for (const std::string& line : CompareTrees(tree_, target_ + tree_)) {
    EXPECT_THAT(line, ::testing::AnyOf(HasSubstr("only left"), HasSubstr("number of links"),
                                       HasSubstr("hard link")));
  }
}

// As root all of it would come back; nobody else can make some of it.
TEST_F(NastyRoundTrip, ASnapshotOfSomebodyElseGivesNobodyMoreRights) {
  namespace fs = std::filesystem;
  fs::create_directories(tree_ + "/folder");
  WriteText(tree_ + "/folder/program", "a program");
  fs::create_hard_link(tree_ + "/folder/program", tree_ + "/other");
  ASSERT_EQ(chmod((tree_ + "/folder/program").c_str(), 06755), 0);
  ASSERT_EQ(chmod((tree_ + "/folder").c_str(), 02755), 0);
  WriteText(tree_ + "/able", "a program");
  // Version 2: CAP_SETUID, permitted and effective.
  const std::string capability("\1\0\0\2\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
  const bool is_able = setxattr((tree_ + "/able").c_str(), "security.capability", capability.data(),
                                capability.size(), 0) == 0;
  // /dev/null.
  const bool has_device = mknod((tree_ + "/device").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  world_.Backup({tree_});

  EXPECT_EQ(Restore("latest", {"--max-bytes", "17"}).exit_code, kFailure);
  EXPECT_FALSE(fs::exists(target_));
  const JsonRun run =
      Restore("latest", {"--no-setid", "--no-devices", "--max-bytes", "18", "--no-sync"});
  EXPECT_EQ(run.exit_code, kOk);
  EXPECT_EQ(run.Only("summary")["left_out_devices"], has_device ? 1 : 0);
  EXPECT_EQ(run.Only("summary")["without_setid"], is_able ? 4 : 3);
  EXPECT_FALSE(fs::exists(target_ + tree_ + "/device"));
  for (const char* name : {"", "/folder", "/folder/program", "/other", "/able"}) {
    struct stat status{};
    const std::string path = target_ + tree_ + name;
    ASSERT_EQ(lstat(path.c_str(), &status), 0) << path;
    EXPECT_EQ(status.st_mode & (S_ISUID | S_ISGID), 0u) << path;
    EXPECT_LT(getxattr(path.c_str(), "security.capability", nullptr, 0), 0) << path;
  }
  // What is left is as it was.
  ASSERT_EQ(chmod((tree_ + "/folder/program").c_str(), 0755), 0);
  ASSERT_EQ(chmod((tree_ + "/folder").c_str(), 0755), 0);
  removexattr((tree_ + "/able").c_str(), "security.capability");
  fs::remove(tree_ + "/device");
  for (const auto& difference : CompareTrees(tree_, target_ + tree_, {.owners = true})) {
    EXPECT_THAT(difference, HasSubstr("time")) << "of the folder alone";
  }
}

}  // namespace
}  // namespace kerf::e2e
