// What a person meets on a bad day: a full disk, a store that may not be written, an interrupted
// run.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "e2e/round_trip.h"

namespace kerf::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Trouble : public RoundTrip {
 protected:
  Trouble() { std::filesystem::create_directory(tree_); }

  void WriteNoise(const std::string& name, std::size_t size_bytes) {
    std::string noise(size_bytes, '\0');
    std::ifstream("/dev/urandom").read(noise.data(), static_cast<std::streamsize>(size_bytes));
    WriteText(tree_ + "/" + name, noise);
  }

  // Runs `kerf ARGUMENTS` where the folder "full" is a file system of 2 MiB.
  Completed WithSmallDisk(const std::string& arguments) {
    std::filesystem::create_directory(world_ / "full");
    return WithMounts("mount -t tmpfs -o size=2m none full", arguments);
  }

  // Runs `kerf ARGUMENTS` where `mounts` has been done before.
  Completed WithMounts(const std::string& mounts, const std::string& arguments) {
    return world_.Run({"/usr/bin/unshare", "--mount", "--map-root-user", "/bin/sh", "-ec",
                       Cat(mounts, "\nexec ", BuiltProgram("client/agent/kerf"), " ", arguments)});
  }

  bool HasNamespaces() {
    return world_.Run({"/usr/bin/unshare", "--mount", "--map-root-user", "/bin/true"}).exit_code ==
           0;
  }
};

TEST_F(Trouble, AFullDiskEndsABackup) {
  if (!HasNamespaces()) GTEST_SKIP() << "no namespaces here";
  WriteNoise("noise", 4 << 20);
  const Completed run = WithSmallDisk("backup tree --store full/store");
  EXPECT_EQ(run.exit_code, kQuota);
  EXPECT_THAT(run.err, AllOf(HasSubstr("full/store"), HasSubstr("No space left")));
}

TEST_F(Trouble, ADiskThatIsNotMountedGetsNoStore) {
  if (!HasNamespaces()) GTEST_SKIP() << "no namespaces here";
  const std::string disk = world_ / "disk";
  std::filesystem::create_directory(disk);
  const std::string known =
      Cat("mount -t tmpfs none /etc\necho '/dev/disk ", disk, " ext4 noauto 0 2' >/etc/fstab\n");
  const Completed refused = WithMounts(known, "backup tree --store disk/store");
  EXPECT_EQ(refused.exit_code, kFailure);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("/etc/fstab"), HasSubstr("mount " + disk),
                                 HasSubstr("kerf init --store " + disk + "/store")));
  EXPECT_TRUE(std::filesystem::is_empty(disk));
  const Completed mounted =
      WithMounts(known + "mount -t tmpfs none disk", "backup tree --store disk/store --quiet");
  EXPECT_EQ(mounted.exit_code, kOk);
  EXPECT_THAT(mounted.err, HasSubstr("made a new one"));
  EXPECT_EQ(WithMounts(known, "init --store disk/store").exit_code, kOk) << "on purpose";
  EXPECT_EQ(WithMounts(known, "backup tree --store disk/store").exit_code, kOk);
}

TEST_F(Trouble, AFullDiskEndsARestoreAtOnce) {
  if (!HasNamespaces()) GTEST_SKIP() << "no namespaces here";
  for (int i = 0; i < 40; ++i) WriteNoise(Cat("noise-", i), 200'000);
  world_.Backup({"tree"});
  const Completed run = WithSmallDisk("restore latest --target full/target");
  EXPECT_EQ(run.exit_code, kQuota);
  EXPECT_THAT(run.err, AllOf(HasSubstr("full/target"), HasSubstr("No space left")));
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
}

// What else docs/exit_codes.md has in the column of 7, on a disk without a free byte.
TEST_F(Trouble, EveryVerbThatWritesTellsOfAFullDisk) {
  if (!HasNamespaces()) GTEST_SKIP() << "no namespaces here";
  WriteNoise("noise", 300'000);
  world_.Backup({"tree"});
  const Completed run = world_.Run(
      {"/usr/bin/unshare", "--mount", "--map-root-user", "/bin/sh", "-ec",
       Cat("mkdir full && mount -t tmpfs -o size=8m none full\n", "kerf=",
           BuiltProgram("client/agent/kerf"), "\n", "$kerf copy --to full/store --create --quiet\n",
           // Of its chunks the others are saved, into a new pack.
           "pack=$(find full/store/packs -size +200k)\n",
           "printf x | dd of=$pack bs=1 seek=1000 conv=notrunc 2>/dev/null\n",
           // Of packs that were there before it was asked for.
           "$kerf parity --percent 5 --store full/store --quiet >/dev/null 2>&1 || true\n",
           "find full/store/parity -name '*.parity' -delete\n",
           "head -c 8m /dev/zero > full/filler 2>/dev/null || true\n", "tell() {\n",
           "  code=0; \"$@\" > said 2>&1 || code=$?\n",
           "  grep -q 'No space left' said || cat said\n", "  echo \"$2 $code\"\n", "}\n",
           "tell $kerf init --store full/other\n", "tell $kerf pin latest --store full/store\n",
           // The second one frees space: the reserve is for that.
           "tell $kerf parity --store full/store\n",
           "tell $kerf parity --off --store full/store --quiet\n",
           "tell $kerf repair --packs --apply --store full/store\n",
           "tell $kerf copy --to full/third --create\n",
           "tell $kerf index export --output full/list\n",
           "tell $kerf analyze tree --algorithm fixed --average 4K --plot full/plot.svg\n")});
  EXPECT_EQ(run.exit_code, kOk) << run.err;
  EXPECT_EQ(run.out, "init 7\npin 7\nparity 7\nparity 0\nrepair 7\ncopy 7\nindex 7\nanalyze 7\n")
      << run.err;
}

TEST_F(Trouble, AStoreThatMayNotBeWrittenCanStillBeRead) {
  WriteText(tree_ + "/file", "old");
  world_.Backup({"tree"});
  WriteText(tree_ + "/file", "new and longer");
  const std::string store = world_.store();
  const auto allow = [&](std::filesystem::perm_options how) {
    for (const auto& entry : std::filesystem::directory_iterator(store)) {
      std::filesystem::permissions(entry, std::filesystem::perms::owner_write, how);
    }
    std::filesystem::permissions(store, std::filesystem::perms::owner_write, how);
  };
  allow(std::filesystem::perm_options::remove);
  world_.DropPrivileges();
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"backup", "tree"}, {"forget", "latest"}, {"gc"}}) {
    const JsonRun run = world_.KerfJson(arguments);
    EXPECT_EQ(run.exit_code, kFailure) << arguments[0];
    EXPECT_EQ(run.Only("error")["code"], "PERMISSION_DENIED") << arguments[0];
    EXPECT_THAT(std::string(run.Only("error")["message"]), HasSubstr(store)) << arguments[0];
  }
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"snapshots"},
                                             {"ls", "latest"},
                                             {"stats"},
                                             {"verify", "--read-data"},
                                             {"restore", "latest", "--target", target_}}) {
    EXPECT_EQ(world_.KerfJson(arguments).exit_code, kOk) << arguments[0];
  }
  EXPECT_EQ(ReadText(target_ + tree_ + "/file"), "old");
  allow(std::filesystem::perm_options::add);
  EXPECT_EQ(world_.Backup({"tree"})["files"], 1);
}

TEST_F(Trouble, ACollectionThatMeetsDamageSaysSo) {
  WriteNoise("noise", 200'000);
  world_.Backup({"tree"});
  EXPECT_EQ(world_.KerfJson({"gc"}).exit_code, kOk);
  std::string pack;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(world_.store() + "/packs")) {
    if (entry.is_regular_file() && entry.file_size() > 100'000) pack = entry.path();
  }
  ASSERT_FALSE(pack.empty());
  const std::string sound = ReadText(pack);
  std::string damaged = sound;
  // In the footer.
  damaged[damaged.size() - 70] ^= 1;
  WriteText(pack, damaged);
  const JsonRun gc = world_.KerfJson({"gc"});
  EXPECT_EQ(gc.exit_code, kIntegrity);
  EXPECT_GT(gc.Only("summary")["missing_chunks"], 0);
  EXPECT_EQ(gc.Only("summary")["damage"].size(), 2u);
  EXPECT_EQ(gc.Of("warning").front()["code"], "DATA_LOSS");
  EXPECT_EQ(ReadText(pack), damaged);
  WriteText(pack, sound);
  EXPECT_EQ(world_.KerfJson({"gc"}).exit_code, kOk);
}

TEST_F(Trouble, AnInterruptedBackupSaysSoAndTheNextOneIsWhole) {
  ASSERT_EQ(world_.KerfJson({"init"}).exit_code, kOk);
  for (const int number : {SIGINT, SIGTERM}) {
    WriteNoise("noise", 3 << 20);
    const std::string fifo = world_ / Cat("excludes-", number);
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    // It waits for the patterns until the signal is there.
    const auto kerf = world_.Start({"backup", "tree", "--exclude-from", fifo});
    std::ofstream patterns(fifo);
    kerf->Signal(number);
    patterns << "*.o\n";
    patterns.close();
    const Completed end = kerf->Wait();
    EXPECT_EQ(end.exit_code, 128 + number);
    EXPECT_THAT(end.err, HasSubstr("interrupted"));
    EXPECT_EQ(std::count(end.err.begin(), end.err.end(), '\n'), 1) << end.err;
  }
  EXPECT_THAT(world_.KerfJson({"snapshots"}).Of("snapshot"), IsEmpty());
  EXPECT_EQ(world_.Backup({"tree"})["files"], 1);
  EXPECT_EQ(world_.KerfJson({"verify", "--read-data"}).exit_code, kOk);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  ExpectRestored(tree_);
}

}  // namespace
}  // namespace kerf::e2e
