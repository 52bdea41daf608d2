// `kerf copy` between two stores, with real backups, restores and collections around it.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "client/fs/testing/settle.h"
#include "e2e/round_trip.h"

namespace kerf::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Copy : public RoundTrip {
 protected:
  Copy() : other_(world_ / "other") { std::filesystem::create_directories(tree_ + "/folder"); }

  void WriteRandom(const std::string& name, std::uint64_t seed, std::size_t size) {
    std::string content(size, '\0');
    Random(seed).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    WriteText(tree_ + "/" + name, content);
  }

  std::string Backup() { return world_.Backup({"tree"})["snapshot"]; }

  JsonRun CopyTo(std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"copy", "--to", other_});
    return world_.KerfJson(std::move(flags));
  }

  // Restores it from both stores, and lets diff(1) look at the two trees.
  void ExpectSameRestores(const std::string& snapshot) {
    const std::string from_one = world_ / Cat("one-", snapshot);
    const std::string from_other = world_ / Cat("other-", snapshot);
    ASSERT_EQ(world_.Kerf({"restore", snapshot, "--target", from_one}).exit_code, kOk);
    ASSERT_EQ(
        world_.Kerf({"restore", snapshot, "--target", from_other, "--store", other_}).exit_code,
        kOk);
    const Completed diff =
        world_.Run({"/usr/bin/diff", "-r", "--no-dereference", from_one, from_other});
    EXPECT_EQ(diff.exit_code, 0) << diff.out << diff.err;
    EXPECT_TRUE(std::filesystem::exists(from_other + tree_ + "/folder"));
  }

  std::vector<std::string> PacksOf(const std::string& store) {
    std::vector<std::string> packs;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(store + "/packs")) {
      if (entry.is_regular_file()) packs.push_back(entry.path());
    }
    return packs;
  }

  const std::string other_;
};

TEST_F(Copy, RestoresAreTheSame) {
  WriteRandom("large", 1, 3'000'000);
  WriteText(tree_ + "/folder/small", "small");
  std::filesystem::create_symlink("small", tree_ + "/folder/link");
  const std::string first = Backup();
  WriteRandom("large", 2, 3'000'000);
  agent::testing::LetFilesSettle();
  const std::string second = Backup();

  const JsonRun missing = CopyTo();
  EXPECT_EQ(missing.exit_code, kFailure);
  EXPECT_THAT(std::string(missing.Only("error")["message"]),
              AllOf(HasSubstr(other_), HasSubstr("--create")));
  EXPECT_FALSE(std::filesystem::exists(other_)) << "nothing is made unasked";

  // One, then the rest, of which most is there.
  EXPECT_EQ(CopyTo({first, "--create"}).Only("summary")["copied"], 1);
  const JsonRun rest = CopyTo();
  EXPECT_EQ(rest.exit_code, kOk);
  ASSERT_THAT(rest.Of("copied"), SizeIs(2));
  EXPECT_EQ(rest.Of("copied")[0]["outcome"], "present");
  EXPECT_EQ(rest.Of("copied")[1]["outcome"], "copied");
  const nlohmann::json summary = rest.Only("summary");
  EXPECT_GE(summary["new_bytes"], 3'000'000);
  EXPECT_LT(summary["new_bytes"], 3'100'000);
  ExpectSameRestores(first);
  ExpectSameRestores(second);
  EXPECT_EQ(world_.Kerf({"verify", "--read-data", "--store", other_}).exit_code, kOk);

  // What it does not need is what its own collections take; and a backup goes on from there.
  EXPECT_EQ(world_.KerfJson({"gc", "--store", other_}).Only("summary")["missing_chunks"], 0);
  EXPECT_EQ(world_.Kerf({"verify", "--read-data", "--store", other_}).exit_code, kOk);
  EXPECT_EQ(world_.Backup({"tree", "--store", other_})["unchanged_files"], 2);
}

TEST_F(Copy, WhichOnes) {
  WriteText(tree_ + "/file", "1");
  const std::string first = world_.Backup({"tree", "--host", "one"})["snapshot"];
  const std::string second = world_.Backup({"tree", "--host", "two"})["snapshot"];
  const std::string third = world_.Backup({"tree/folder", "--host", "two"})["snapshot"];
  const auto ids = [](const JsonRun& run) {
    EXPECT_EQ(run.exit_code, kOk);
    std::vector<std::string> found;
    for (const nlohmann::json& copied : run.Of("copied")) found.push_back(copied["snapshot"]);
    return found;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(ids(CopyTo({"--create", "--host", "two"})), ElementsAre(second, third));
  EXPECT_THAT(ids(CopyTo({"--path", tree_})), ElementsAre(second, first)) << "one was there";
  EXPECT_THAT(ids(CopyTo({"--last", "1"})), ElementsAre(third));
  EXPECT_THAT(ids(CopyTo({"latest", third, first.substr(0, 10)})), ElementsAre(third, first));
  EXPECT_EQ(CopyTo({"none"}).exit_code, kFailure);
  EXPECT_EQ(CopyTo({"--to", world_.store()}).exit_code, kUsage) << "twice";
  const JsonRun itself = world_.KerfJson({"copy", "--to", world_.store()});
  EXPECT_EQ(itself.exit_code, kFailure);
  EXPECT_THAT(std::string(itself.Only("error")["message"]), HasSubstr("the same store"));
}

TEST_F(Copy, TheServerLearnsOfItIfItIsTold) {
  WriteRandom("large", 1, 500'000);
  Backup();
  world_.UnsetEnvironment("KERF_SERVER");
  EXPECT_EQ(CopyTo({"--create"}).exit_code, kOk);
  const std::vector<std::string> check = {"index", "check",    "--store",
                                          other_,  "--server", world_.address()};
  EXPECT_GT(world_.KerfJson(check).Only("summary")["missing"], 0);
  WriteRandom("large", 2, 500'000);
  world_.Backup({"tree", "--server", world_.address()});
  std::filesystem::remove_all(other_);
  EXPECT_EQ(CopyTo({"--create", "--server", world_.address()}).exit_code, kOk);
  const JsonRun known = world_.KerfJson(check);
  EXPECT_EQ(known.exit_code, kOk);
  EXPECT_EQ(known.Only("summary")["missing"], 0);
  // A server that is gone costs no snapshot.
  world_.StopServer();
  std::filesystem::remove_all(other_);
  const JsonRun lost = CopyTo({"--create", "--server", world_.address()});
  EXPECT_EQ(lost.exit_code, kPartial);
  EXPECT_EQ(lost.Only("summary")["copied"], 2);
  EXPECT_NE(lost.Only("summary")["index_warning"], "");
  EXPECT_EQ(lost.Only("warning")["path"], world_.address());
}

TEST_F(Copy, WhatIsDamagedIsLeftOutAndSaid) {
  WriteRandom("large", 1, 200'000);
  const std::string first = Backup();
  const std::vector<std::string> packs = PacksOf(world_.store());
  WriteRandom("large", 2, 200'000);
  const std::string second = Backup();
  for (const std::string& pack : packs) {
    if (std::filesystem::file_size(pack) < 200'000) continue;
    std::fstream file(pack, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100'000);
    file.write("damage", 6);
  }
  const JsonRun run = CopyTo({"--create"});
  EXPECT_EQ(run.exit_code, kIntegrity);
  ASSERT_THAT(run.Of("copied"), SizeIs(2));
  EXPECT_EQ(run.Of("copied")[0]["outcome"], "failed");
  EXPECT_EQ(run.Of("copied")[0]["code"], "DATA_LOSS");
  EXPECT_EQ(run.Of("copied")[1]["outcome"], "copied");
  EXPECT_THAT(world_.KerfJson({"snapshots", "--store", other_}).Of("snapshot"), SizeIs(1));
  ExpectSameRestores(second);
  const Completed text = world_.Kerf({"copy", "--to", other_});
  EXPECT_EQ(text.exit_code, kIntegrity);
  EXPECT_THAT(text.err, AllOf(HasSubstr(first), HasSubstr("damaged")));
}

TEST_F(Copy, StoresOfTwoDigestsAreRefused) {
  WriteText(tree_ + "/file", "1");
  Backup();
  world_.Backup({"tree", "--store", other_, "--digest", "sha256"});
  const JsonRun run = CopyTo();
  EXPECT_EQ(run.exit_code, kFailure);
  EXPECT_THAT(std::string(run.Only("error")["message"]),
              AllOf(HasSubstr("blake3"), HasSubstr("sha256")));
}

constexpr int kMaxRaces = 20;

// Killed while it writes its first pack; what it had sealed is not copied again, for which
// client/store/copy has a test.
TEST_F(Copy, AKilledOneGoesOn) {
  WriteRandom("large", 1, 8'000'000);
  const std::string snapshot = Backup();
  const auto is_writing = [&] {
    std::error_code error;
    const std::filesystem::directory_iterator files(other_ + "/tmp", error);
    return std::any_of(begin(files), end(files),
                       [](const auto& file) { return file.path().extension() == ".pack"; });
  };
  // On a busy machine it may be done before this process has a turn.
  bool was_killed = false;
  for (int i = 0; !was_killed && i < kMaxRaces; ++i) {
    std::filesystem::remove_all(other_);
    const auto run = world_.Start({"copy", "--to", other_, "--create"});
    while (!run->HasEnded() && !is_writing()) std::this_thread::yield();
    was_killed = run->Kill();
  }
  ASSERT_TRUE(was_killed) << "it was faster each time";
  EXPECT_THAT(world_.KerfJson({"snapshots", "--store", other_}).Of("snapshot"), SizeIs(0));
  EXPECT_EQ(CopyTo().exit_code, kOk);
  EXPECT_EQ(world_.Kerf({"verify", "--read-data", "--store", other_}).exit_code, kOk);
  ExpectSameRestores(snapshot);
}

}  // namespace
}  // namespace kerf::e2e
