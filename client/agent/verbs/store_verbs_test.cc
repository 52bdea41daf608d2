// What the verbs say of a store that has lost something, and what mends it:
// docs/adr/0016-what-a-store-notices.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "client/agent/verbs/mount_check.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/verbs_fixture.h"
#include "client/store/format/file_hook.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Each file with its mode, time and content.
std::map<std::string, std::string> Describe(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    const std::string path = entry.path();
    struct stat status{};
    EXPECT_EQ(lstat(path.c_str(), &status), 0);
    files[path.substr(directory.size())] =
        Cat(status.st_mode, " ", status.st_mtim.tv_sec, " ", ReadTestFile(path));
  }
  return files;
}

class StoreVerbsTest : public VerbsTest {
 protected:
  // All that work on a snapshot, and need no server.
  std::vector<Arguments> NamingVerbs(const std::string& snapshot) {
    return {{"restore", snapshot, "--target", target()}, {"ls", snapshot}, {"forget", snapshot}};
  }
};

TEST_F(StoreVerbsTest, OneSoundCopyOfTheConfigurationIsEnoughAndTheOtherIsSaid) {
  AddSnapshot(kFirst, "first");
  const std::string config = test_.directory() + "/config";
  std::string bad = ReadTestFile(config);
  bad[30] ^= 1;
  WriteTestFile(config, bad);
  for (const Arguments& arguments : std::vector<Arguments>{{"ls", kFirst}, {"snapshots"}}) {
    const Outcome outcome = OnStore(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments[0];
    EXPECT_EQ(outcome.messages[0]["message_type"], "warning") << arguments[0];
    EXPECT_EQ(outcome.messages[0]["path"], config) << arguments[0];
  }
  EXPECT_EQ(OnStore({"verify"}).exit_code, 6);
}

// Says of some file operations that they fail.
class Trouble final : public FileHook {
 public:
  using Hits = std::function<bool(const FileOperation&)>;
  Trouble(absl::Status status, Hits hits) : status_(std::move(status)), hits_(std::move(hits)) {
    SetFileHookForTest(this);
  }
  ~Trouble() override { SetFileHookForTest(nullptr); }
  absl::Status Before(const FileOperation& operation) override {
    if (!hits_(operation)) return absl::OkStatus();
    return absl::Status(status_.code(), Cat(operation.path, ": ", status_.message()));
  }

 private:
  const absl::Status status_;
  const Hits hits_;
};

// As of a disk that cannot read a sector of the folder.
Trouble::Hits Listing(const std::string& folder) {
  return [folder](const FileOperation& operation) {
    return operation.kind == FileOperation::Kind::kListDirectory && operation.path == folder;
  };
}
const absl::Status kIoError = absl::UnknownError("Input/output error");

TEST_F(StoreVerbsTest, ASecondCopyThatCannotBeMadeIsNotAllWell) {
  AddSnapshot(kFirst, "first");
  const std::string copy = test_.directory() + "/copies/epoch";
  std::filesystem::remove(copy);
  const std::vector<Arguments> writers = {
      {"pin", kFirst}, {"unpin", kFirst}, {"forget", kFirst}, {"undelete", kFirst}};
  {
    const Trouble full(absl::ResourceExhaustedError("no space left"),
                       [](const FileOperation& operation) {
                         return operation.to.find("/copies/") != std::string_view::npos;
                       });
    for (const Arguments& arguments : writers) {
      const Outcome outcome = OnStore(arguments);
      EXPECT_EQ(outcome.exit_code, 3) << arguments[0];
      EXPECT_EQ(outcome.messages[0]["message_type"], "warning") << arguments[0];
      EXPECT_THAT(std::string(outcome.messages[0]["message"]), HasSubstr("could not be made"));
    }
    EXPECT_EQ(OnStore({"ls", kFirst}).exit_code, 0) << "who only reads makes none";
    EXPECT_EQ(OnStore({"repair", "--apply"}).exit_code, 6);
  }
  EXPECT_FALSE(std::filesystem::exists(copy));
  for (const Arguments& arguments : writers) EXPECT_EQ(OnStore(arguments).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(copy));
}

TEST_F(StoreVerbsTest, AnOlderSnapshotIsNotTakenForTheLatest) {
  AddSnapshot(kFirst, "first");
  AddSnapshot(kSecond, "second");
  const std::string path = SnapshotPath(kSecond);
  const std::string good = ReadTestFile(path);
  for (const bool is_gone : {false, true}) {
    if (is_gone) {
      std::filesystem::remove(path);
    } else {
      WriteTestFile(path, good.substr(0, 30));
    }
    for (const Arguments& arguments : NamingVerbs("latest")) {
      const Outcome outcome = OnStore(arguments);
      EXPECT_EQ(outcome.exit_code, 6) << arguments[0];
      EXPECT_THAT(outcome.message(), AllOf(HasSubstr(kSecond), HasSubstr("--accept-loss")));
    }
    EXPECT_EQ(OnStore({"forget", "--keep-last", "1"}).exit_code, 6);
    EXPECT_EQ(OnStore({"snapshots"}).exit_code, 6);
    EXPECT_EQ(OnStore({"verify"}).exit_code, 6);
    EXPECT_EQ(OnStore({"ls", kFirst}).exit_code, 0);
  }
  WriteTestFile(path, good);
  EXPECT_THAT(Ids(), SizeIs(2)) << "nothing was forgotten";
  EXPECT_EQ(OnStore({"verify"}).exit_code, 0);
}

TEST_F(StoreVerbsTest, WhatIsLeftOfADamagedTreeIsListed) {
  AddDamagedTree(kFirst);
  const Outcome list = OnStore({"ls", kFirst});
  EXPECT_EQ(list.exit_code, 6);
  std::vector<std::string> paths;
  std::string loss;
  for (const nlohmann::json& message : list.messages) {
    if (message["message_type"] == "entry") paths.push_back(message["path"]);
    if (message["message_type"] == "warning") loss = message["message"];
  }
  ASSERT_THAT(list.messages, SizeIs(paths.size() + 1));
  EXPECT_GT(paths.size(), 180u);
  EXPECT_LT(paths.size(), 200u);
  EXPECT_EQ(paths.front(), "/f100");
  EXPECT_EQ(paths.back(), "/f299");
  EXPECT_THAT(loss, HasSubstr("what it had behind /f10"));
  EXPECT_EQ(OnStore({"restore", kFirst, "--target", target()}).exit_code, 6);
  for (const std::string& path : paths) EXPECT_TRUE(std::filesystem::exists(target() + path));
  // What is not concerned is not.
  EXPECT_EQ(OnStore({"ls", Cat(kFirst, ":/f100")}).exit_code, 0);
  EXPECT_EQ(OnStore({"ls", Cat(kFirst, ":/f105")}).exit_code, 6);
  EXPECT_EQ(OnStore({"ls", Cat(kFirst, ":/f299")}).exit_code, 0);
}

TEST_F(StoreVerbsTest, OfAFolderOfPacksThatCannotBeListedTheOthersAreRead) {
  AddSnapshot(kFirst, "first");
  std::string last;
  std::filesystem::path folder;
  // One whose content has a folder to itself.
  for (int number = 2; last.empty() || std::distance(std::filesystem::directory_iterator(folder),
                                                     std::filesystem::directory_iterator()) > 1;
       ++number) {
    last = Cat("aaaa00000000000", number);
    AddSnapshot(last, Cat("content ", number));
    folder = std::filesystem::path(last_pack_).parent_path();
  }
  const Trouble trouble(kIoError, Listing(folder));
  const Outcome well = OnStore({"restore", kFirst, "--target", target()});
  EXPECT_EQ(well.exit_code, 0);
  ASSERT_THAT(well.messages, SizeIs(2));
  EXPECT_THAT(std::string(well.messages[0]["message"]), HasSubstr(folder.string()));
  EXPECT_EQ(ReadTestFile(target() + "/file"), "first");
  const Outcome badly = OnStore({"restore", last, "--target", target() + "2"});
  EXPECT_EQ(badly.exit_code, 6);
  EXPECT_THAT(std::string(badly.messages[0]["message"]), HasSubstr(folder.string()));
  EXPECT_EQ(OnStore({"ls", last}).messages.size(), 2u) << "a warning, and the file";
  const Outcome verify = OnStore({"verify"});
  EXPECT_EQ(verify.exit_code, 6);
  ASSERT_THAT(verify.messages, SizeIs(3));
  EXPECT_THAT(std::string(verify.messages[0]["message"]), HasSubstr(folder.string()));
  EXPECT_EQ(verify.messages[1]["snapshot"], last);
  EXPECT_THAT(verify.messages[2]["damaged_packs"], IsEmpty()) << "it is no pack";
  EXPECT_EQ(OnStore({"forget", kFirst}).exit_code, 1);
  EXPECT_EQ(Ids().front(), kFirst);
}

TEST_F(StoreVerbsTest, WhereSnapshotsOrTheirNotesCannotBeListedNothingIsForgotten) {
  AddSnapshot(kFirst, "first");
  AddSnapshot(kSecond, "second");
  for (const char* name : {"/manifest", "/snapshots", "/pending"}) {
    const std::string folder = test_.directory() + name;
    const Trouble trouble(kIoError, Listing(folder));
    EXPECT_EQ(OnStore({"restore", kFirst, "--target", target(), "--overwrite", "always"}).exit_code,
              0)
        << name;
    const Outcome verify = OnStore({"verify"});
    EXPECT_EQ(verify.exit_code, 6) << name;
    // The manifest has the generation, too, by which a store is known that was set back.
    const int finding_count = folder.ends_with("manifest") ? 2 : 1;
    EXPECT_EQ(verify.messages.back()["findings"], finding_count) << name;
    if (folder.ends_with("pending")) continue;
    EXPECT_NE(OnStore({"forget", kFirst}).exit_code, 0) << name;
    EXPECT_NE(OnStore({"forget", "--keep-last", "1"}).exit_code, 0) << name;
    EXPECT_NE(OnStore({"restore", "latest", "--target", target() + "2"}).exit_code, 0) << name;
    EXPECT_NE(OnStore({"snapshots"}).exit_code, 0) << name;
  }
  EXPECT_THAT(Ids(), SizeIs(2));
}

TEST_F(StoreVerbsTest, ASnapshotOfWhatIsLeftIsRestoredAsTheDamagedOne) {
  AddSnapshot(kSecond, "other");
  AddDamagedTree(kFirst);
  const auto restore = [&](const std::string& name, const std::string& where) {
    return OnStore({"restore", name, "--target", where}).exit_code;
  };
  EXPECT_EQ(restore(kFirst, target()), 6);
  const Outcome asked = OnStore({"repair", "--trees"});
  EXPECT_EQ(asked.exit_code, 6);
  EXPECT_EQ(asked.messages[0]["message_type"], "lost");
  EXPECT_EQ(asked.messages[0]["snapshot"], kFirst);
  EXPECT_EQ(asked.messages[1]["what"], "tree");
  EXPECT_EQ(asked.messages[1]["state"], "needs_word");
  EXPECT_THAT(std::string(asked.messages[1]["message"]), HasSubstr(Cat("--accept-loss ", kFirst)));
  EXPECT_EQ(OnStore({"repair", "--trees", "--accept-loss", kSecond}).exit_code, 1) << "it is whole";
  EXPECT_EQ(OnStore({"repair", "--accept-loss", kFirst}).exit_code, 1) << "without --trees it is";
  EXPECT_EQ(OnStore({"repair", "--trust-salvaged"}).exit_code, 2);
  const Outcome dry = OnStore({"repair", "--trees", "--accept-loss", kFirst});
  EXPECT_EQ(dry.exit_code, 6);
  EXPECT_EQ(dry.messages[1]["state"], "would");
  EXPECT_THAT(Ids(), ::testing::ElementsAre(kSecond, kFirst));
  EXPECT_EQ(OnStore({"repair", "--trees", "--accept-loss", kFirst, "--apply"}).exit_code, 0);
  EXPECT_EQ(OnStore({"repair", "--trees"}).exit_code, 0);
  EXPECT_EQ(OnStore({"verify", "--read-data"}).exit_code, 0);
  const Outcome list = OnStore({"snapshots"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_EQ(list.messages[1]["replaces"], kFirst);
  EXPECT_GT(list.messages[1]["lost_entries"], 0);
  EXPECT_EQ(restore("latest", target() + "2"), 0);
  EXPECT_EQ(Describe(target() + "2"), Describe(target()));
}

TEST_F(StoreVerbsTest, AStoreThatWasSetBackIsSaid) {
  AddSnapshot(kFirst, "first");
  const std::string copy = folder_.path() + "/copy";
  std::filesystem::copy(test_.directory(), copy, std::filesystem::copy_options::recursive);
  AddSnapshot(kSecond, "second");
  EXPECT_THAT(OnStore({"snapshots"}).messages, SizeIs(2));
  std::filesystem::remove_all(test_.directory());
  std::filesystem::copy(copy, test_.directory(), std::filesystem::copy_options::recursive);
  const Outcome list = OnStore({"snapshots"});
  ASSERT_THAT(list.messages, SizeIs(2));
  EXPECT_THAT(std::string(list.messages[0]["message"]), HasSubstr("set back"));
  EXPECT_EQ(OnStore({"verify"}).exit_code, 6);
  const Outcome gc = OnStore({"gc", "--server", "127.0.0.1:1"});
  EXPECT_EQ(gc.exit_code, 6) << gc.out;
  EXPECT_THAT(gc.message(), HasSubstr("--accept-set-back"));
  EXPECT_EQ(OnStore({"forget", "--keep-last", "1"}).exit_code, 6);
  EXPECT_EQ(OnStore({"repair"}).messages[0]["what"], "set_back");
  EXPECT_EQ(OnStore({"repair", "--accept-set-back"}).exit_code, 6) << "without --apply";
  EXPECT_EQ(OnStore({"repair", "--accept-set-back", "--apply"}).exit_code, 0);
  EXPECT_EQ(OnStore({"verify"}).exit_code, 0);
  EXPECT_EQ(OnStore({"gc", "--server", "127.0.0.1:1"}).exit_code, 5) << "no server";
}

TEST_F(StoreVerbsTest, AFolderThatHadAStoreGetsNoNewOneInSilence) {
  const std::string folder = folder_.path() + "/disk";
  const Arguments backup = {"backup", ".", "--server", "127.0.0.1:1", "--store", folder};
  EXPECT_EQ(RunJson(backup).exit_code, 5) << "a new store, and no server";
  EXPECT_TRUE(std::filesystem::exists(folder + "/config"));
  // As a mount point is whose disk is not there.
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const Outcome refused = RunJson(backup);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("mounted"), HasSubstr("kerf init")));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(RunJson({"init", "--store", folder}).exit_code, 0);
  EXPECT_EQ(RunJson({"init", "--store", folder}).exit_code, 1) << "it holds one";
  EXPECT_EQ(RunJson(backup).exit_code, 5);
}

// No server would take what it cuts.
TEST_F(StoreVerbsTest, NoStoreIsMadeWhoseProfileNeedsOtherDigests) {
  const std::string folder = folder_.path() + "/new";
  const Arguments init = {"init", "--store", folder, "--profile", "fastcdc-8k+ff-mt", "--digest"};
  const auto with = [&](const std::string& digest) {
    Arguments all = init;
    all.push_back(digest);
    return RunJson(all);
  };
  const Outcome refused = with("xxh3-128");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("fastcdc-8k+ff-mt"), HasSubstr("--digest blake3")));
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(RunJson({"init", "--store", folder + "-exact", "--digest", "xxh3-128"}).exit_code, 0);
  EXPECT_EQ(with("sha256").exit_code, 0);
}

TEST_F(StoreVerbsTest, ADiskThatTheMachineKnowsIsNotTakenForMountedWhenItIsNot) {
  const std::string disk = folder_.path() + "/a disk";
  std::filesystem::create_directory(disk);
  std::filesystem::create_directory_symlink(disk, folder_.path() + "/link");
  MountTables tables{folder_.path() + "/fstab", folder_.path() + "/mounts"};
  // A space is \\040 there.
  const std::string escaped = folder_.path() + "/a\\040disk";
  WriteTestFile(tables.known,
                Cat("# disks\n/dev/sda1 / ext4 defaults 0 1\n/dev/sda2 none swap sw 0 0\n",
                    "UUID=12 ", escaped, " ext4 noauto 0 2\nbroken\n"));
  WriteTestFile(tables.mounted, "proc /proc proc rw 0 0\n");
  for (const std::string& path : {disk, disk + "/backup", folder_.path() + "/link/not/there"}) {
    EXPECT_EQ(FindUnmounted(path, tables), disk) << path;
    const absl::Status refused = CheckStoreMayBeMade(path, tables);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("mount " + disk), HasSubstr("kerf init --store " + path)));
  }
  for (const std::string& path : {folder_.path(), disk + "s", std::string("/elsewhere")}) {
    EXPECT_EQ(FindUnmounted(path, tables), std::nullopt) << path;
  }
  WriteTestFile(tables.mounted,
                Cat("/dev/sda1 / ext4 rw 0 0\n/dev/sdb1 ", escaped, " ext4 rw 0 0\n"));
  EXPECT_EQ(FindUnmounted(disk + "/backup", tables), std::nullopt);
  // What nobody can tell is not in the way.
  tables.mounted += "-not";
  EXPECT_EQ(FindUnmounted(disk, tables), std::nullopt);
}

TEST_F(StoreVerbsTest, WhoeverMakesAStoreSaysSo) {
  const std::string folder = folder_.path() + "/new";
  const Arguments backup = {"backup",      ".",  "--server", "127.0.0.1:1",
                            "--retry-for", "0s", "--store",  folder};
  const Outcome json = RunJson(backup);
  ASSERT_THAT(json.messages, SizeIs(2));
  EXPECT_EQ(json.messages[0]["message_type"], "store_made");
  EXPECT_EQ(json.messages[0]["path"], folder);
  EXPECT_THAT(RunJson(backup).messages, SizeIs(1)) << "it is there";
  Arguments quiet = backup;
  quiet.back() = folder_.path() + "/newer";
  quiet.emplace_back("--quiet");
  const Outcome said = Run(quiet);
  EXPECT_THAT(said.err, HasSubstr("no store in " + folder_.path() + "/newer: made a new one"));
  EXPECT_EQ(said.out, "");
}

TEST_F(StoreVerbsTest, ACopiedStoreGetsAnIdOfItsOwn) {
  AddSnapshot(kFirst, "first");
  EXPECT_EQ(OnStore({"snapshots"}).exit_code, 0);
  EXPECT_EQ(OnStore({"store", "adopt"}).exit_code, 2);
  const Outcome adopted = OnStore({"store", "adopt", "--new-id"});
  EXPECT_EQ(adopted.exit_code, 0);
  EXPECT_NE(adopted.messages[0]["repository"], test_.store().config().id());
  EXPECT_EQ(OnStore({"stats"}).messages[0]["repository"], adopted.messages[0]["repository"]);
  EXPECT_EQ(OnStore({"verify"}).exit_code, 0);
}

TEST_F(StoreVerbsTest, APinnedSnapshotIsNotForgotten) {
  AddSnapshot(kFirst, "first");
  AddSnapshot(kSecond, "second");
  EXPECT_EQ(OnStore({"pin", kFirst, "--reason", "for ever"}).exit_code, 0);
  EXPECT_EQ(OnStore({"pin", "bbbb"}).exit_code, 1);
  EXPECT_EQ(OnStore({"snapshots"}).messages[0]["pinned"], true);
  const Outcome by_id = OnStore({"forget", kFirst});
  EXPECT_EQ(by_id.exit_code, 1);
  EXPECT_THAT(by_id.message(), HasSubstr("kerf unpin"));
  EXPECT_EQ(OnStore({"forget", "--keep-last", "1"}).exit_code, 0);
  EXPECT_THAT(Ids(), SizeIs(2));
  EXPECT_TRUE(absl::IsFailedPrecondition(test_.store().RemoveSnapshot(kFirst)));
  EXPECT_EQ(OnStore({"verify"}).exit_code, 0) << "its note is there again";
  EXPECT_TRUE(test_.store().manifest().Has(kFirst));
  EXPECT_EQ(OnStore({"unpin", kFirst}).exit_code, 0);
  EXPECT_EQ(OnStore({"unpin", kFirst}).exit_code, 1);
  EXPECT_EQ(OnStore({"forget", "--keep-last", "1"}).exit_code, 0);
  EXPECT_THAT(Ids(), ::testing::ElementsAre(kSecond));
}

TEST_F(StoreVerbsTest, WhatWasForgottenCanBeBroughtBack) {
  AddSnapshot(kFirst, "first");
  AddSnapshot(kSecond, "second");
  EXPECT_EQ(OnStore({"undelete", kSecond}).exit_code, 1) << "it was not forgotten";
  EXPECT_EQ(OnStore({"undelete", "../config"}).exit_code, 2);
  EXPECT_EQ(OnStore({"forget", kSecond}).exit_code, 0);
  EXPECT_EQ(OnStore({"snapshots", "--forgotten"}).messages[0]["snapshot"], kSecond);
  EXPECT_EQ(OnStore({"undelete", "aaaa"}).exit_code, 0);
  EXPECT_THAT(OnStore({"snapshots", "--forgotten"}).messages, IsEmpty());
  EXPECT_THAT(Ids(), SizeIs(2));
  EXPECT_EQ(OnStore({"verify"}).exit_code, 0);
  // A collection has taken what it needs.
  EXPECT_EQ(OnStore({"forget", kSecond}).exit_code, 0);
  std::filesystem::remove(last_pack_);
  const Outcome lost = OnStore({"undelete", kSecond});
  EXPECT_EQ(lost.exit_code, 6) << lost.out;
  EXPECT_THAT(Ids(), SizeIs(1));
  EXPECT_EQ(OnStore({"snapshots", "--forgotten"}).messages[0]["snapshot"], kSecond);
  EXPECT_EQ(OnStore({"verify"}).exit_code, 0);
}

TEST_F(StoreVerbsTest, RepairSaysWhatItWouldDoAndDoesItWhenTold) {
  AddSnapshot(kFirst, "first");
  AddSnapshot(kSecond, "second");
  EXPECT_EQ(OnStore({"repair"}).exit_code, 0);
  std::filesystem::remove(SnapshotPath(kSecond));
  WriteTestFile(test_.directory() + "/config", "damaged");
  const Outcome dry = OnStore({"repair"});
  EXPECT_EQ(dry.exit_code, 6);
  ASSERT_THAT(dry.messages, SizeIs(3));
  EXPECT_EQ(dry.messages[0]["what"], "config");
  EXPECT_EQ(dry.messages[0]["state"], "would");
  EXPECT_EQ(dry.messages[1]["what"], "snapshot");
  EXPECT_EQ(dry.messages[1]["state"], "needs_word");
  EXPECT_EQ(dry.messages[2]["dry_run"], true);
  EXPECT_EQ(OnStore({"repair", "--accept-loss", kFirst, "--apply"}).exit_code, 1) << "it is whole";
  const Outcome done = OnStore({"repair", "--accept-loss", kSecond, "--apply"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_EQ(done.messages.back()["done"], 2);
  EXPECT_EQ(OnStore({"verify"}).exit_code, 0);
  EXPECT_EQ(OnStore({"ls", "latest"}).exit_code, 0);
}

TEST_F(StoreVerbsTest, ASnapshotFromTheFutureDoesNotMakeEachNewOneBeForgotten) {
  AddSnapshot(kFirst, "first");
  std::vector<std::string> chunks;
  store::v1::Snapshot ahead = test_.Describe({{"file", {"ahead"}}}, chunks);
  ahead.set_id(kSecond);
  constexpr std::int64_t kYear2200Ns = 7'258'118'400'000'000'000;
  ahead.set_started_unix_ns(kYear2200Ns);
  ASSERT_TRUE(test_.store().WriteSnapshot(ahead).ok());
  const Arguments rules = {"forget", "--keep-last", "1", "--keep-daily", "1"};
  const Outcome refused = OnStore(rules);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr(kSecond), HasSubstr("--ignore-future")));
  EXPECT_THAT(Ids(), SizeIs(2));
  Arguments told = rules;
  told.emplace_back("--ignore-future");
  const Outcome ignored = OnStore(told);
  EXPECT_EQ(ignored.exit_code, 0);
  EXPECT_EQ(ignored.messages.back()["forgotten"], 0) << "the newest of the others is kept";
  EXPECT_EQ(OnStore({"forget", kSecond}).exit_code, 0);
  EXPECT_EQ(OnStore(rules).exit_code, 0);
  EXPECT_THAT(Ids(), SizeIs(1));
}

// No pack is damaged, and yet snapshots lack something.
TEST_F(StoreVerbsTest, APackThatIsGoneIsMissedByRepairAsByVerify) {
  AddSnapshot(kFirst, "content");
  std::filesystem::remove(last_pack_);
  EXPECT_EQ(OnStore({"verify"}).exit_code, 6);
  for (const bool apply : {false, true}) {
    Arguments arguments = {"repair", "--packs"};
    if (apply) arguments.push_back("--apply");
    const Outcome outcome = OnStore(arguments);
    EXPECT_EQ(outcome.exit_code, 6) << apply;
    ASSERT_THAT(outcome.messages, SizeIs(2));
    EXPECT_EQ(outcome.messages[0]["what"], "lost");
    EXPECT_EQ(outcome.messages[0]["path"], "/file");
    EXPECT_EQ(outcome.messages[0]["state"], "needs_word");
  }
  // What is given up in the same run is missed no more.
  const Outcome given_up = OnStore({"repair", "--packs", "--trees", "--accept-loss", kFirst,
                                    "--accept-loss", "content", "--apply"});
  EXPECT_EQ(given_up.exit_code, 0);
  EXPECT_EQ(OnStore({"verify"}).exit_code, 0);
  EXPECT_EQ(OnStore({"repair", "--packs"}).exit_code, 0);
}

}  // namespace
}  // namespace kerf::agent
