// Files that change, vanish, or cannot be read while a backup goes over them: it says so, goes on,
// and ends with exit code 3. And files that did not change: they are not read again.
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/fs/testing/settle.h"
#include "e2e/file_lease.h"
#include "e2e/round_trip.h"

namespace kerf::e2e {
namespace {

using agent::testing::RemoveTree;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kPatience_ms = 30'000;

// Sees who opens what.
class OpenWatch {
 public:
  OpenWatch() : fd_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) { KERF_CHECK(fd_.valid()); }

  void Add(const std::string& path) {
    KERF_CHECK(inotify_add_watch(fd_.get(), path.c_str(), IN_OPEN) >= 0);
  }

  // True if something watched was opened since the last call; waits for it at most so long.
  bool Opened(int patience_ms) {
    pollfd descriptor{fd_.get(), POLLIN, 0};
    if (poll(&descriptor, 1, patience_ms) != 1) return false;
    char events[4096];
    while (read(fd_.get(), events, sizeof events) > 0) {
    }
    return true;
  }

 private:
  const UniqueFd fd_;
};

class ChangingFiles : public RoundTrip {
 protected:
  ChangingFiles() { std::filesystem::create_directory(tree_); }

  // Does `change` all the time while a backup runs; again if a busy machine let none of it happen
  // while the file was read.
  JsonRun BackUpWhile(const std::function<void()>& change) {
    std::atomic<bool> stop{false};
    std::thread other([&] {
      while (!stop) change();
    });
    JsonRun run = world_.KerfJson({"backup", tree_});
    for (int tries = 0; tries < 20 && run.exit_code == kOk; ++tries) {
      run = world_.KerfJson({"backup", tree_});
    }
    stop = true;
    other.join();
    return run;
  }

  // Until `count` files need not be read: those that were written within the last two seconds are
  // read once more.
  void BackUpUntilUnchanged(int count) {
    agent::testing::LetFilesSettle();
    for (int tries = 0; tries < 20; ++tries) {
      if (world_.Backup({tree_})["unchanged_files"] == count) return;
    }
    FAIL() << "unchanged files are read again and again";
  }

  // Backs up tree/a, tree/b, tree/z/, and does `change` at the moment when b has been seen, but not
  // opened: a lease on a lets the only stream wait, z is opened after b was seen. False if the
  // machine has no leases.
  bool BackUpWithChangeInBetween(
      const std::function<void()>& change, Completed& end,
      const std::function<void()>& prepare = [] {}) {
    WriteText(tree_ + "/a", "a");
    WriteText(tree_ + "/b", "old b");
    std::filesystem::create_directory(tree_ + "/z");
    prepare();
    OpenWatch watch;
    watch.Add(tree_ + "/z");
    FileLease lease(tree_ + "/a");
    if (!lease.held()) return false;
    const auto kerf = world_.Start({"backup", tree_, "--streams", "1", "--json"});
    EXPECT_TRUE(watch.Opened(kPatience_ms));
    change();
    lease.GiveBack();
    end = kerf->Wait();
    return true;
  }
};

TEST_F(ChangingFiles, OneThatGrows) {
  WriteText(tree_ + "/quiet", "quiet");
  WriteText(tree_ + "/restless", std::string(20 << 20, 'a'));
  const UniqueFd fd(open((tree_ + "/restless").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  const JsonRun run = BackUpWhile([&] { EXPECT_EQ(write(fd.get(), "b", 1), 1); });
  EXPECT_EQ(run.exit_code, kPartial);
  EXPECT_THAT(std::string(run.Only("warning")["path"]), HasSubstr("restless"));
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + tree_ + "/quiet"), "quiet");
  const std::string restless = ReadText(target_ + tree_ + "/restless");
  EXPECT_GE(restless.size(), std::size_t{20} << 20);
  EXPECT_EQ(restless.find('b'), restless.size() == (20 << 20) ? std::string::npos : 20u << 20);
}

TEST_F(ChangingFiles, OneThatShrinks) {
  WriteText(tree_ + "/quiet", "quiet");
  WriteText(tree_ + "/shrinking", std::string(20 << 20, 'a'));
  off_t size = 20 << 20;
  const JsonRun run = BackUpWhile([&] {
    // Once it is small it begins anew.
    size = size > 4096 ? size - 4096 : 20 << 20;
    EXPECT_EQ(truncate((tree_ + "/shrinking").c_str(), size), 0);
  });
  EXPECT_EQ(run.exit_code, kPartial);
  EXPECT_THAT(std::string(run.Only("warning")["path"]), HasSubstr("shrinking"));
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + tree_ + "/quiet"), "quiet");
  // What it held, and where it ended just then what the kernel had cleared already: in pages, of
  // which a later one may be cleared later.
  const std::string shrinking = ReadText(target_ + tree_ + "/shrinking");
  EXPECT_EQ(shrinking.find_first_not_of(std::string_view("a\0", 2)), std::string::npos);
  EXPECT_EQ(world_.KerfJson({"verify", "--read-data"}).exit_code, kOk);
}

// As those of programs behind FUSE that make what they are asked for, and of /proc: of 0 bytes
// until they are read.
TEST_F(ChangingFiles, OneWhoseSizeNobodyTellsIsBackedUpAsAWhole) {
  const std::string text = ReadText("/proc/filesystems");
  ASSERT_FALSE(text.empty());
  const JsonRun run = world_.KerfJson({"backup", "/proc/filesystems"});
  EXPECT_EQ(run.exit_code, kOk);
  EXPECT_EQ(run.Only("summary")["total_bytes"], text.size());
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + "/proc/filesystems"), text);
  // Where the first byte of a program's memory would be there is nothing, and no end either.
  const JsonRun unreadable = world_.KerfJson({"backup", Cat("/proc/", getpid(), "/mem")});
  EXPECT_EQ(unreadable.exit_code, kPartial);
  EXPECT_THAT(std::string(unreadable.Only("warning")["path"]), HasSubstr("/mem"));
}

TEST_F(ChangingFiles, OneThatIsReplacedBeforeItIsReadIsTakenAsItIsNow) {
  Completed end;
  const bool done = BackUpWithChangeInBetween(
      [&] {
        WriteText(tree_ + "/new", "new b, and longer");
        ASSERT_EQ(chmod((tree_ + "/new").c_str(), 0604), 0);
        std::filesystem::rename(tree_ + "/new", tree_ + "/b");
      },
      end);
  if (!done) GTEST_SKIP() << "no leases here";
  EXPECT_EQ(end.exit_code, kOk) << end.out;
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + tree_ + "/b"), "new b, and longer");
  struct stat status{};
  ASSERT_EQ(stat((target_ + tree_ + "/b").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0604u);
}

TEST_F(ChangingFiles, OneThatIsReplacedTakesNoOtherNameAlong) {
  // b and y are one file; then b is another one. y must not become that, and is read itself.
  WriteText(tree_ + "/y", "old b");
  Completed end;
  const bool done = BackUpWithChangeInBetween(
      [&] {
        WriteText(tree_ + "/new", "new b");
        std::filesystem::rename(tree_ + "/new", tree_ + "/b");
      },
      end,
      [&] {
        std::filesystem::remove(tree_ + "/b");
        std::filesystem::create_hard_link(tree_ + "/y", tree_ + "/b");
      });
  if (!done) GTEST_SKIP() << "no leases here";
  EXPECT_EQ(end.exit_code, kOk) << end.out;
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + tree_ + "/b"), "new b");
  EXPECT_EQ(ReadText(target_ + tree_ + "/y"), "old b");
}

TEST_F(ChangingFiles, OneThatBecomesSomethingElseIsReported) {
  Completed end;
  const bool done = BackUpWithChangeInBetween(
      [&] {
        std::filesystem::remove(tree_ + "/b");
        std::filesystem::create_symlink("a", tree_ + "/b");
      },
      end);
  if (!done) GTEST_SKIP() << "no leases here";
  EXPECT_EQ(end.exit_code, kPartial) << end.out;
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + tree_ + "/a"), "a");
  EXPECT_THAT(world_.KerfJson({"backup", tree_}).Of("warning"), IsEmpty());
}

TEST_F(ChangingFiles, OneThatVanishes) {
  Completed end;
  const bool done = BackUpWithChangeInBetween([&] { unlink((tree_ + "/b").c_str()); }, end);
  if (!done) GTEST_SKIP() << "no leases here";
  EXPECT_EQ(end.exit_code, kPartial) << end.out;
  EXPECT_THAT(end.out, HasSubstr("NOT_FOUND"));
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + tree_ + "/a"), "a");
  EXPECT_EQ(access((target_ + tree_ + "/b").c_str(), F_OK), -1);
}

TEST_F(ChangingFiles, WhatCannotBeReadIsReportedAndTheRestIsThere) {
  std::filesystem::create_directories(tree_ + "/locked");
  WriteText(tree_ + "/fine", "fine");
  WriteText(tree_ + "/secret", "secret");
  WriteText(tree_ + "/locked/inside", "x");
  ASSERT_EQ(chmod((tree_ + "/secret").c_str(), 0), 0);
  ASSERT_EQ(chmod((tree_ + "/locked").c_str(), 0), 0);
  world_.DropPrivileges();
  const JsonRun run = world_.KerfJson({"backup", tree_});
  EXPECT_EQ(run.exit_code, kPartial);
  std::vector<std::string> paths;
  for (const nlohmann::json& warning : run.Of("warning")) {
    EXPECT_EQ(warning["code"], "PERMISSION_DENIED");
    paths.push_back(warning["path"]);
  }
  EXPECT_THAT(paths, ::testing::UnorderedElementsAre(tree_ + "/locked", tree_ + "/secret"));
  EXPECT_EQ(run.Only("summary")["warnings"], 2);
  EXPECT_EQ(run.Only("summary")["files"], 1);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + tree_ + "/fine"), "fine");
  EXPECT_EQ(access((target_ + tree_ + "/secret").c_str(), F_OK), -1);

  // The next backup has it, once it can be read.
  ASSERT_EQ(chmod((tree_ + "/secret").c_str(), 0600), 0);
  ASSERT_EQ(chmod((tree_ + "/locked").c_str(), 0700), 0);
  EXPECT_EQ(world_.Backup({tree_})["files"], 3);
  RemoveTree(target_);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  ExpectRestored(tree_);
}

TEST_F(ChangingFiles, UnchangedOnesAreNotOpenedUnlessForced) {
  const std::vector<std::string> names = {"one", "two", "three"};
  for (const std::string& name : names) WriteText(tree_ + "/" + name, name);
  ASSERT_NO_FATAL_FAILURE(BackUpUntilUnchanged(3));
  OpenWatch watch;
  for (const std::string& name : names) watch.Add(tree_ + "/" + name);
  EXPECT_EQ(world_.Backup({tree_})["unchanged_files"], 3);
  EXPECT_FALSE(watch.Opened(0));
  EXPECT_EQ(world_.Backup({tree_, "--force"})["unchanged_files"], 0);
  EXPECT_TRUE(watch.Opened(0));
}

TEST_F(ChangingFiles, SizeTimeAndInodeEachTellAChange) {
  const std::string file = tree_ + "/file";
  const auto set_time = [&](std::int64_t seconds) {
    const timespec times[2] = {{0, UTIME_OMIT}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  };
  const auto restored = [&] {
    RemoveTree(target_);
    EXPECT_EQ(Restore("latest").exit_code, kOk);
    return ReadText(target_ + file);
  };
  WriteText(file, "first");
  set_time(1'000'000'000);
  ASSERT_NO_FATAL_FAILURE(BackUpUntilUnchanged(1));
  // The same size and the old time: ctime tells.
  WriteText(file, "other");
  set_time(1'000'000'000);
  EXPECT_EQ(world_.Backup({tree_})["unchanged_files"], 0);
  EXPECT_EQ(restored(), "other");
  // Another file of the same size and time.
  WriteText(world_ / "new", "third");
  std::filesystem::rename(world_ / "new", file);
  set_time(1'000'000'000);
  EXPECT_EQ(world_.Backup({tree_})["unchanged_files"], 0);
  EXPECT_EQ(restored(), "third");
}

}  // namespace
}  // namespace kerf::e2e
