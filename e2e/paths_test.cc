// What may be given as PATH, and what of it a snapshot then holds.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "e2e/round_trip.h"

namespace kerf::e2e {
namespace {

using agent::testing::RemoveTree;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Paths : public RoundTrip {
 protected:
  Paths() {
    std::filesystem::create_directories(tree_ + "/sub/inner");
    WriteText(tree_ + "/a", "a");
    WriteText(tree_ + "/sub/b", "b");
    WriteText(tree_ + "/sub/inner/c", "c");
  }

  std::vector<std::string> PathsOf(const nlohmann::json& summary) {
    std::vector<std::string> paths;
    for (const nlohmann::json& snapshot : world_.KerfJson({"snapshots"}).Of("snapshot")) {
      if (snapshot["snapshot"] != summary["snapshot"]) continue;
      for (const nlohmann::json& path : snapshot["paths"]) paths.push_back(path["path"]);
    }
    return paths;
  }
};

TEST_F(Paths, HoweverItIsWrittenItIsTheSame) {
  const nlohmann::json plain = world_.Backup({tree_});
  const std::vector<std::string> everything = List("latest");
  EXPECT_THAT(PathsOf(plain), ElementsAre(tree_));
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {tree_, tree_}, {"tree"}, {"./tree/"}, {tree_ + "/sub/.."}, {"tree//", "tree/."}}) {
    const nlohmann::json summary = world_.Backup(arguments);
    EXPECT_EQ(List("latest"), everything) << arguments[0];
    EXPECT_THAT(PathsOf(summary), ElementsAre(tree_)) << arguments[0];
    EXPECT_TRUE(summary["parent"].is_string()) << "the same paths have the same history";
    EXPECT_NE(summary["parent"], "") << arguments[0];
  }
}

TEST_F(Paths, OneInsideOfAnotherIsThereOnce) {
  world_.Backup({tree_});
  const std::vector<std::string> everything = List("latest");
  EXPECT_EQ(world_.Backup({"tree/sub", tree_, "tree/sub/inner/c"})["files"], 3);
  EXPECT_EQ(List("latest"), everything);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  ExpectRestored(tree_);
}

TEST_F(Paths, TheirOrderDoesNotMatter) {
  std::filesystem::create_directory(world_ / "other");
  const nlohmann::json first = world_.Backup({"tree", "other"});
  const nlohmann::json second = world_.Backup({"other", "tree"});
  EXPECT_EQ(second["parent"], first["snapshot"]);
  EXPECT_EQ(PathsOf(second), PathsOf(first));
}

TEST_F(Paths, ASymlinkIsASymlinkAndWithASlashWhatItPointsTo) {
  std::filesystem::create_symlink("tree/sub", world_ / "link");
  world_.Backup({"link"});
  EXPECT_THAT(List("latest:" + (world_ / "link")), ElementsAre(world_ / "link"));
  world_.Backup({"link/"});
  EXPECT_THAT(List("latest:" + tree_), ElementsAre(tree_, tree_ + "/sub", tree_ + "/sub/b",
                                                   tree_ + "/sub/inner", tree_ + "/sub/inner/c"));
  // As the kernel understands it: the parent of what the link points to.
  world_.Backup({"link/../a"});
  EXPECT_THAT(List("latest:" + tree_), ElementsAre(tree_, tree_ + "/a"));
}

TEST_F(Paths, AFileAloneIsEnough) {
  world_.Backup({"tree/sub/b"});
  EXPECT_THAT(List("latest:" + tree_), ElementsAre(tree_, tree_ + "/sub", tree_ + "/sub/b"));
  EXPECT_EQ(Restore("latest:" + tree_ + "/sub/b").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + "/b"), "b");
}

TEST_F(Paths, AnEmptyOneIsAMistake) {
  // `kerf backup "$UNSET"` must not back up wherever it is.
  const JsonRun run = world_.KerfJson({"backup", ""});
  EXPECT_EQ(run.exit_code, kUsage);
  EXPECT_THAT(std::string(run.Only("error")["message"]), HasSubstr("empty"));
  EXPECT_EQ(world_.KerfJson({"backup", "tree", ""}).exit_code, kUsage);
}

TEST_F(Paths, WhatStandsBehindAPatternIsAPath) {
  WriteText(world_ / "patterns", "c\n");
  world_.Backup({"tree/a", "--exclude", "b", "tree/sub", "--exclude-from", "patterns", "tree"});
  EXPECT_THAT(List("latest:" + tree_),
              ElementsAre(tree_, tree_ + "/a", tree_ + "/sub", tree_ + "/sub/inner"));
  // Of several such the parser of flags makes lists.
  world_.Backup({"tree", "--exclude", "[bc]", "--exclude", "[x,y]"});
  EXPECT_THAT(List("latest:" + tree_),
              ElementsAre(tree_, tree_ + "/a", tree_ + "/sub", tree_ + "/sub/inner"));
}

TEST_F(Paths, ANameInBracketsIsNoList) {
  for (const char* name : {"[a]", "[a,b]", "a", "b"})
    std::filesystem::create_directory(world_ / name);
  for (const std::string name : {"[a]", "[a,b]"}) {
    world_.Backup({name});
    EXPECT_THAT(List("latest:" + (world_ / name)), ElementsAre(world_ / name));
    // Behind a flag it is no value of that.
    world_.Backup({"--force", name});
    EXPECT_THAT(List("latest:" + (world_ / name)), ElementsAre(world_ / name));
  }
}

TEST_F(Paths, StandardInputIsOneFile) {
  std::string dump(3'000'000, '\0');
  Random random(TestSeed());
  random.Fill({reinterpret_cast<std::uint8_t*>(dump.data()), dump.size()});
  for (const std::string& content : {dump, std::string("short"), dump}) {
    const Completed run = world_.Kerf({"backup", "--stdin-filename", "dump.sql"}, content);
    EXPECT_EQ(run.exit_code, kOk) << run.err;
    EXPECT_THAT(List("latest"), ElementsAre("/dump.sql"));
    RemoveTree(target_);
    EXPECT_EQ(Restore("latest").exit_code, kOk);
    EXPECT_EQ(ReadText(target_ + "/dump.sql"), content);
  }
  // Whoever should have written has failed: no snapshot hides the one before.
  const Completed nothing = world_.Kerf({"backup", "--stdin-filename", "dump.sql", "--json"}, "");
  EXPECT_EQ(nothing.exit_code, kFailure);
  EXPECT_THAT(nothing.out, HasSubstr("nothing came from standard input"));
  RemoveTree(target_);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + "/dump.sql"), dump);
}

TEST_F(Paths, WhatACommandWritesIsOneFile) {
  const auto back_up = [this](const std::vector<std::string>& command) {
    std::vector<std::string> all = {
        "backup", "--json", "--stdin-filename", "dump.sql", "--stdin-from-command", "--"};
    all.insert(all.end(), command.begin(), command.end());
    return world_.Kerf(all, "what a command reads\n");
  };
  const Completed run = back_up({"sh", "-c", "cat; printf '%s.' \"$@\"", "sh", "[a,b]", "", "--x"});
  ASSERT_EQ(run.exit_code, kOk) << run.out << run.err;
  EXPECT_THAT(List("latest"), ElementsAre("/dump.sql"));
  const std::string content = "what a command reads\n[a,b]..--x.";
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + "/dump.sql"), content);

  // It wrote something, and then died: that is no dump, and hides none.
  for (const char* script :
       {"head -c 3000000 /dev/zero; exit 3", "echo half; kill -9 $$", "true", "exit 1"}) {
    const Completed failed = back_up({"sh", "-c", script});
    EXPECT_EQ(failed.exit_code, kFailure) << script << failed.out << failed.err;
    EXPECT_THAT(failed.out, HasSubstr("\"code\":\"FAILED_PRECONDITION\"")) << script;
    EXPECT_THAT(failed.out, HasSubstr("no snapshot was made")) << script;
  }
  const Completed missing = back_up({"no-such-program-of-kerf"});
  EXPECT_EQ(missing.exit_code, kUnavailable) << missing.out << missing.err;
  EXPECT_THAT(missing.out, HasSubstr("cannot run no-such-program-of-kerf"));
  EXPECT_THAT(world_.KerfJson({"snapshots"}).Of("snapshot"), ::testing::SizeIs(1));
  RemoveTree(target_);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  EXPECT_EQ(ReadText(target_ + "/dump.sql"), content);
}

TEST_F(Paths, AMistakeAboutACommandIsOne) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--stdin-from-command", "--", "true"},
           {"--stdin-filename", "f", "--stdin-from-command"},
           {"--stdin-filename", "f", "--stdin-from-command", "true"},
           {"--stdin-filename", "f", "--stdin-from-command", "--"},
           {"--stdin-filename", "f", "--stdin-from-command", "--", ""},
           {"--stdin-filename", "f", "tree", "--stdin-from-command", "--", "true"},
           {"--stdin-filename", "f", "--", "true"}}) {
    std::vector<std::string> all = {"backup", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Completed run = world_.Kerf(all, "content");
    EXPECT_EQ(run.exit_code, kUsage) << run.out;
    EXPECT_THAT(run.out, HasSubstr("INVALID_ARGUMENT"));
  }
  EXPECT_THAT(world_.KerfJson({"snapshots"}).Of("snapshot"), ::testing::IsEmpty());
}

TEST_F(Paths, AMistakeAboutStandardInputIsOne) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--stdin-filename", "dump.sql", "tree"},
                                             {"--stdin-filename", "a/b"},
                                             {"--stdin-filename", "/a"},
                                             {"--stdin-filename", ".."},
                                             {"--stdin-filename", ""},
                                             {"/dev/stdin"},
                                             {"tree", "/dev/fd/0"}}) {
    std::vector<std::string> all = {"backup", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Completed run = world_.Kerf(all, "content");
    EXPECT_EQ(run.exit_code, kUsage) << arguments[0] << " " << run.out;
    EXPECT_THAT(run.out, HasSubstr("INVALID_ARGUMENT")) << arguments[0];
  }
  EXPECT_THAT(world_.Kerf({"backup", "/dev/stdin"}, "x").err, HasSubstr("--stdin-filename"));
  EXPECT_THAT(world_.KerfJson({"snapshots"}).Of("snapshot"), ::testing::IsEmpty());
}

TEST_F(Paths, HardLinksAcrossSeveral) {
  std::filesystem::create_directory(world_ / "other");
  std::filesystem::create_hard_link(tree_ + "/sub/b", world_ / "other/b");
  std::filesystem::create_hard_link(tree_ + "/sub/b", world_ / "zzz");
  EXPECT_EQ(world_.Backup({"zzz", "tree/sub", "other"})["total_bytes"], 2) << "b once, and c";
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  struct stat first{};
  ASSERT_EQ(stat((target_ + tree_ + "/sub/b").c_str(), &first), 0);
  EXPECT_EQ(first.st_nlink, 3u);
  for (const std::string& name : {world_ / "other/b", world_ / "zzz"}) {
    struct stat other{};
    ASSERT_EQ(stat((target_ + name).c_str(), &other), 0) << name;
    EXPECT_EQ(other.st_ino, first.st_ino) << name;
    EXPECT_EQ(ReadText(target_ + name), "b") << name;
  }
}

TEST_F(Paths, AStoreInsideOfThem) {
  world_.SetEnvironment("KERF_STORE", tree_ + "/sub/store");
  world_.Backup({"tree"});
  world_.Backup({"tree", tree_ + "/sub/store/packs"});
  for (const std::string& path : List("latest")) EXPECT_THAT(path, Not(HasSubstr("/store/")));
  EXPECT_EQ(world_.Backup({"tree"})["files"], 3);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
}

// `/` of a small world, in which /other is a file system of its own.
class RootPath : public RoundTrip {
 protected:
  // Runs `command` with / as above, in a mount namespace of its own.
  Completed InSmallRoot(const std::string& command) {
    const std::string kerf = std::filesystem::canonical(BuiltProgram("client/agent/kerf"));
    return world_.Run(
        {"/usr/bin/unshare", "--mount", "--map-root-user", "/bin/sh", "-ec",
         Cat("mkdir -p root; mount -t tmpfs none root; cd root\n"
             "mkdir usr proc tree other world; touch kerf tree/file\n"
             "for name in bin lib lib64; do cp -P /$name . || true; done\n"
             "mount --rbind /usr usr; mount --rbind /proc proc; mount --bind ",
             kerf, " kerf; mount --bind .. world; mount -t tmpfs none other; touch other/file\n",
             "exec /usr/sbin/chroot . /kerf ", command, " --store /world/store",
             " --server unix:/world/server/kerfd.sock")});
  }
};

TEST_F(RootPath, WithItsFileSystemAlone) {
  const Completed can = world_.Run({"/usr/bin/unshare", "--mount", "--map-root-user", "/bin/true"});
  if (can.exit_code != 0) GTEST_SKIP() << "no namespaces here: " << can.err;
  const Completed one = InSmallRoot("backup / --one-file-system");
  ASSERT_EQ(one.exit_code, kOk) << one.out << one.err;
  std::vector<std::string> paths = List("latest");
  EXPECT_THAT(paths, Contains("/tree/file"));
  EXPECT_THAT(paths, Contains("/other")) << "a mount point, as an empty directory";
  EXPECT_THAT(paths, Contains("/usr"));
  EXPECT_THAT(paths, Not(Contains("/other/file")));
  EXPECT_THAT(paths, Not(Contains("/usr/bin")));

  // Without a word about it what is in /proc would be read, some of which never ends.
  const Completed all = InSmallRoot("backup / --exclude '/usr/*' --exclude /world");
  ASSERT_EQ(all.exit_code, kOk) << all.out << all.err;
  EXPECT_THAT(all.out, HasSubstr("left out  what the kernel makes up in /proc"));
  paths = List("latest");
  EXPECT_THAT(paths, Contains("/proc"));
  EXPECT_THAT(paths, Not(Contains("/proc/version")));
  EXPECT_THAT(paths, Contains("/other/file"));
  EXPECT_THAT(paths, Contains("/tree/file"));

  // A root on another file system is a root.
  const Completed named = InSmallRoot("backup /tree /other --one-file-system");
  ASSERT_EQ(named.exit_code, kOk) << named.out << named.err;
  EXPECT_THAT(List("latest"), ElementsAre("/other", "/other/file", "/tree", "/tree/file"));
}

}  // namespace
}  // namespace kerf::e2e
