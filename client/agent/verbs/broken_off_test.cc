// Verbs that do many things, and break off in the middle: what was done is said, and then why it
// was not all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "client/agent/verbs/verbs_fixture.h"
#include "client/store/format/file_hook.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/snapshots/reserve.h"

namespace kerf::agent {
namespace {

using Kind = FileOperation::Kind;
using ::testing::HasSubstr;

// Has a word with each operation of a store while it is there.
class Interloper final : public FileHook {
 public:
  explicit Interloper(std::function<absl::Status(const FileOperation&)> say)
      : say_(std::move(say)) {
    SetFileHookForTest(this);
  }
  ~Interloper() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& operation) override {
    const std::lock_guard lock(mutex_);
    return say_(operation);
  }

 private:
  std::mutex mutex_;
  std::function<absl::Status(const FileOperation&)> say_;
};

enum class End { kFullDisk, kInterrupt };

class BrokenOffTest : public VerbsTest {
 protected:
  // As OnStore; as soon as `count` files were renamed into the folder the disk is full there, or
  // the run is interrupted.
  Outcome Break(End end, Arguments arguments, const std::string& folder, int count) {
    int renamed_count = 0;
    Outcome outcome;
    {
      const Interloper interloper([&](const FileOperation& operation) {
        const bool counts =
            operation.kind == Kind::kRename && operation.to.find(folder) != std::string_view::npos;
        if (!counts) return absl::OkStatus();
        if (end == End::kFullDisk && renamed_count >= count) {
          return absl::ResourceExhaustedError("No space left on device");
        }
        if (++renamed_count >= count) cancelled_ = end == End::kInterrupt;
        return absl::OkStatus();
      });
      outcome = OnStore(std::move(arguments));
    }
    cancelled_ = false;
    EXPECT_EQ(outcome.exit_code, end == End::kFullDisk ? 7 : 130);
    EXPECT_EQ(outcome.messages.back()["message_type"], "error");
    return outcome;
  }
  static std::vector<nlohmann::json> OfType(const Outcome& outcome, const std::string& type) {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& message : outcome.messages) {
      if (message["message_type"] == type) found.push_back(message);
    }
    return found;
  }
  // Steps of `kerf repair`.
  static std::size_t CountSteps(const Outcome& outcome, const std::string& what,
                                const std::string& state) {
    std::size_t count = 0;
    for (const nlohmann::json& step : OfType(outcome, "repair")) {
      if (step["what"] == what && step["state"] == state) ++count;
    }
    return count;
  }
  static void Damage(const std::string& path, std::size_t position) {
    std::string bytes = ReadTestFile(path);
    bytes.at(position) ^= 1;
    WriteTestFile(path, bytes);
  }
};

TEST_F(BrokenOffTest, RepairTellsOfTheTreesThatHaveANewSnapshot) {
  for (const End end : {End::kFullDisk, End::kInterrupt}) {
    const std::string first = Cat("aaaa00000000001", static_cast<int>(end));
    const std::string second = Cat("bbbb00000000001", static_cast<int>(end));
    AddDamagedTree(first);
    AddDamagedTree(second);
    const Arguments repair = {"repair",        "--trees", "--accept-loss", first,
                              "--accept-loss", second,    "--apply"};
    const Outcome broken = Break(end, repair, "/snapshots/", 1);
    ASSERT_EQ(CountSteps(broken, "tree", "done"), 1u);
    const nlohmann::json done = OfType(broken, "repair").front();
    EXPECT_THAT(std::string(done["message"]), HasSubstr(first));
    EXPECT_FALSE(std::filesystem::exists(SnapshotPath(first)));
    EXPECT_TRUE(std::filesystem::exists(SnapshotPath(second)));
    const Arguments rest = {"repair", "--trees", "--accept-loss", second, "--apply"};
    EXPECT_EQ(CountSteps(OnStore(rest), "tree", "done"), 1u);
  }
}

TEST_F(BrokenOffTest, RepairTellsOfThePacksThatHaveTheirBytesAgain) {
  AddSnapshot(kFirst, std::string(500, 'a'));
  const std::string first = last_pack_;
  AddSnapshot(kSecond, std::string(500, 'b'));
  ASSERT_EQ(OnStore({"parity", "--percent", "5"}).exit_code, 0);
  for (const End end : {End::kFullDisk, End::kInterrupt}) {
    for (const std::string& pack : {first, last_pack_}) Damage(pack, 40);
    const Outcome broken = Break(end, {"repair", "--packs", "--apply"}, "/packs/", 1);
    EXPECT_EQ(CountSteps(broken, "pack", "done"), 1u);
    const Outcome rest = OnStore({"repair", "--packs", "--apply"});
    EXPECT_EQ(rest.exit_code, 0);
    EXPECT_EQ(CountSteps(rest, "pack", "done"), 1u);
  }
}

// Of damaged parity there may be as much as there are packs.
TEST_F(BrokenOffTest, ParityIsNotMadeAnewBehindAnInterrupt) {
  constexpr int kSnapshots = 15;
  for (int number = 10; number < 10 + kSnapshots; ++number) {
    AddSnapshot(Cat("aaaa0000000000", number), Cat("content of ", number));
  }
  ASSERT_EQ(OnStore({"parity", "--percent", "5"}).exit_code, 0);
  std::size_t parity_count = 0;
  for (const std::string& pack : test_.PackFiles()) {
    Damage(ParityPathOf(pack), 4096);
    ++parity_count;
  }
  ASSERT_EQ(parity_count, 2 * std::size_t{kSnapshots});
  const Outcome broken = Break(End::kInterrupt, {"repair", "--packs", "--apply"}, "/parity/", 1);
  const std::size_t done_count = CountSteps(broken, "parity", "done");
  EXPECT_GE(done_count, 1u);
  EXPECT_LT(done_count, parity_count);
  EXPECT_EQ(CountSteps(broken, "parity", "failed"), 0u);
  const Outcome rest = OnStore({"repair", "--packs", "--apply"});
  EXPECT_EQ(rest.exit_code, 0);
  EXPECT_EQ(CountSteps(rest, "parity", "done"), parity_count - done_count);
}

TEST_F(BrokenOffTest, ParityTellsOfWhatItHasMade) {
  for (int number = 10; number < 25; ++number) {
    AddSnapshot(Cat("aaaa0000000000", number), Cat("content of ", number));
  }
  for (const End end : {End::kFullDisk, End::kInterrupt}) {
    // The first one is the setting.
    const Outcome broken = Break(end, {"parity", "--percent", "5"}, "/parity/", 3);
    ASSERT_EQ(OfType(broken, "summary").size(), 1u);
    const std::size_t made_count = OfType(broken, "summary")[0]["made"];
    EXPECT_GE(made_count, 2u);
    EXPECT_LT(made_count, 30u);
    EXPECT_EQ(OnStore({"parity"}).messages.back()["present"], made_count);
    EXPECT_EQ(OnStore({"parity", "--off"}).exit_code, 0);
  }
}

// Else what takes space for nothing could not go where there is none.
TEST_F(BrokenOffTest, OnAFullDiskParityGoesAndTheReserveComesBack) {
  AddSnapshot(kFirst, "content");
  ASSERT_EQ(OnStore({"parity", "--percent", "5"}).exit_code, 0);
  const Reserve reserve(test_.directory());
  ASSERT_TRUE(reserve.IsThere());
  {
    const Interloper interloper([&](const FileOperation& operation) {
      return operation.kind == Kind::kRename && std::filesystem::exists(reserve.path())
                 ? absl::ResourceExhaustedError("No space left on device")
                 : absl::OkStatus();
    });
    EXPECT_EQ(OnStore({"parity", "--percent", "7"}).exit_code, 7);
    EXPECT_TRUE(reserve.IsThere()) << "it is not for what takes space";
    const Outcome off = OnStore({"parity", "--off"});
    EXPECT_EQ(off.exit_code, 0);
    EXPECT_GE(off.messages.back()["removed"], 1);
  }
  EXPECT_TRUE(reserve.IsThere());
}

TEST_F(BrokenOffTest, CopyTellsOfTheSnapshotsThatAreThere) {
  AddSnapshot(kFirst, "first");
  AddSnapshot(kSecond, "second");
  for (const End end : {End::kFullDisk, End::kInterrupt}) {
    const std::string to = Cat(folder_.path(), "/other", static_cast<int>(end));
    ASSERT_EQ(RunJson({"init", "--store", to}).exit_code, 0);
    const Outcome broken = Break(end, {"copy", "--to", to}, "/snapshots/", 1);
    ASSERT_EQ(OfType(broken, "copied").size(), 1u);
    EXPECT_EQ(OfType(broken, "copied")[0]["snapshot"], kFirst);
    ASSERT_EQ(OfType(broken, "summary").size(), 1u);
    EXPECT_EQ(OfType(broken, "summary")[0]["copied"], 1);
    EXPECT_GT(OfType(broken, "summary")[0]["new_chunks"], 0);
  }
}

TEST_F(BrokenOffTest, ForgetTellsOfTheSnapshotsThatAreForgotten) {
  for (const End end : {End::kFullDisk, End::kInterrupt}) {
    AddSnapshot(kFirst, "first");
    AddSnapshot(kSecond, "second");
    const Outcome broken = Break(end, {"forget", kFirst, kSecond}, "/forgotten/", 1);
    ASSERT_EQ(OfType(broken, "forgotten").size(), 1u);
    EXPECT_EQ(OfType(broken, "forgotten")[0]["snapshot"], kFirst);
    ASSERT_EQ(OfType(broken, "summary").size(), 1u);
    EXPECT_EQ(OfType(broken, "summary")[0]["forgotten"], 1);
    EXPECT_THAT(Ids(), ::testing::ElementsAre(kSecond));
    EXPECT_EQ(OnStore({"forget", kSecond}).exit_code, 0);
  }
}

// Exit code 3 never comes without a reason, for programs as for people.
TEST_F(BrokenOffTest, CopyWarnsOfASnapshotThatIsNotCopied) {
  AddSnapshot(kFirst, "content");
  TestStore other(folder_.path() + "/other");
  std::vector<std::string> chunks;
  store::v1::Snapshot snapshot = other.Describe({{"file", {"something else"}}}, chunks);
  snapshot.set_id(kFirst);
  other.WritePack(chunks);
  ASSERT_TRUE(other.store().WriteSnapshot(snapshot).ok());
  const Arguments arguments = {"copy", "--to", other.directory()};
  const Outcome told = OnStore(arguments);
  EXPECT_EQ(told.exit_code, 3);
  ASSERT_EQ(OfType(told, "warning").size(), 1u);
  EXPECT_EQ(OfType(told, "warning")[0]["code"], "ALREADY_EXISTS");
  const Outcome said =
      Run({"copy", "--store", test_.directory(), "--to", other.directory(), "--quiet"});
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_THAT(said.err, HasSubstr("kerf: warning: snapshot"));
}

}  // namespace
}  // namespace kerf::agent
