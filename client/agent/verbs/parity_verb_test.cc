// `kerf parity`, and what the other verbs say of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "client/agent/verbs/verbs_fixture.h"

namespace kerf::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ParityVerbTest : public VerbsTest {
 protected:
  static void Damage(const std::string& path) {
    std::string bytes = ReadTestFile(path);
    bytes[bytes.size() / 3] ^= 1;
    WriteTestFile(path, bytes);
  }
  // Its last line is the summary.
  static nlohmann::json Summary(const Outcome& outcome) { return outcome.messages.back(); }
  bool IsParityThere() {
    return std::filesystem::exists(test_.directory() + "/parity/" +
                                   last_pack_.substr(last_pack_.rfind('/') - 2, 35) + ".parity");
  }
};

TEST_F(ParityVerbTest, ItBeginsWithAPercentageAndEndsWithOff) {
  AddSnapshot(kFirst, "content");
  Outcome outcome = OnStore({"parity"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.message(), HasSubstr("--percent 5"));
  EXPECT_EQ(OnStore({"parity", "--percent", "5", "--off"}).exit_code, 2);
  for (const char* percent : {"0", "101", "five"}) {
    EXPECT_EQ(OnStore({"parity", "--percent", percent}).exit_code, 2) << percent;
  }
  outcome = OnStore({"parity", "--percent", "5"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(Summary(outcome)["made"], 2);
  EXPECT_EQ(Summary(outcome)["percent"], 5);
  EXPECT_TRUE(IsParityThere());
  // Packs that come later have it.
  AddSnapshot(kSecond, "more");
  EXPECT_TRUE(IsParityThere());
  outcome = OnStore({"parity"});
  EXPECT_EQ(Summary(outcome)["made"], 0);
  EXPECT_EQ(Summary(outcome)["present"], 4);
  outcome = OnStore({"parity", "--off"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(Summary(outcome)["removed"], 4);
  EXPECT_FALSE(IsParityThere());
  EXPECT_EQ(OnStore({"parity"}).exit_code, 1);
}

TEST_F(ParityVerbTest, ANewStoreHasItFromTheBeginning) {
  const std::string store = folder_.path() + "/new";
  const Outcome made = RunJson({"init", "--store", store, "--parity", "10"});
  EXPECT_EQ(made.exit_code, 0);
  EXPECT_EQ(Summary(made)["parity_percent"], 10);
  EXPECT_EQ(Summary(RunJson({"parity", "--store", store}))["percent"], 10);
  EXPECT_EQ(RunJson({"init", "--store", store + "2", "--parity", "0"}).exit_code, 2);
}

// The right bytes, and a word about it.
TEST_F(ParityVerbTest, ADamagedPackIsRestoredVerifiedAndMended) {
  AddSnapshot(kFirst, std::string(500, 'c'));
  EXPECT_EQ(OnStore({"parity", "--percent", "5"}).exit_code, 0);
  const std::string sound = ReadTestFile(last_pack_);
  for (const bool is_footer : {false, true}) {
    if (is_footer) {
      WriteTestFile(last_pack_, sound.substr(0, sound.size() - 1));
    } else {
      Damage(last_pack_);
    }
    const Outcome restored = OnStore({"restore", kFirst, "--target", target()});
    EXPECT_EQ(restored.exit_code, 0);
    EXPECT_EQ(ReadTestFile(target() + "/file"), std::string(500, 'c'));
    EXPECT_EQ(restored.messages.front()["message_type"], "warning");
    EXPECT_THAT(std::string(restored.messages.front()["message"]), HasSubstr("parity"));
    EXPECT_THAT(std::string(restored.messages.front()["message"]), HasSubstr(last_pack_));
    std::filesystem::remove_all(target());

    const Outcome verified = OnStore({"verify", "--read-data"});
    EXPECT_EQ(verified.exit_code, 6);
    EXPECT_THAT(Summary(verified)["mendable_packs"], ElementsAre(last_pack_));
    EXPECT_THAT(std::string(Summary(verified)["mend"]), HasSubstr("with their parity"));

    EXPECT_EQ(OnStore({"repair", "--packs"}).exit_code, 6) << "nothing is done yet";
    EXPECT_NE(ReadTestFile(last_pack_), sound);
    const Outcome mended = OnStore({"repair", "--packs", "--apply"});
    EXPECT_EQ(mended.exit_code, 0);
    EXPECT_EQ(ReadTestFile(last_pack_), sound);
    EXPECT_EQ(OnStore({"verify", "--read-data"}).exit_code, 0);
    EXPECT_EQ(OnStore({"restore", kFirst, "--target", target()}).messages.size(), 1u);
    std::filesystem::remove_all(target());
  }
}

TEST_F(ParityVerbTest, ADamagedPackGetsNoneAndADamagedSettingIsSaid) {
  AddSnapshot(kFirst, std::string(500, 'c'));
  Damage(last_pack_);
  const Outcome outcome = OnStore({"parity", "--percent", "5"});
  EXPECT_EQ(outcome.exit_code, 6);
  EXPECT_EQ(Summary(outcome)["failed"], 1);
  EXPECT_EQ(Summary(outcome)["made"], 1);
  WriteTestFile(test_.directory() + "/parity/setting", "damaged");
  EXPECT_EQ(OnStore({"parity"}).exit_code, 6);
  const Outcome listed = OnStore({"snapshots"});
  EXPECT_EQ(listed.exit_code, 0);
  EXPECT_THAT(std::string(listed.messages.front()["message"]), HasSubstr("--percent N"));
  OnStore({"parity", "--percent", "5"});
  EXPECT_EQ(OnStore({"snapshots"}).messages.front()["message_type"], "snapshot");
}

// Without it new packs would have no parity, and nobody would know.
TEST_F(ParityVerbTest, ASettingThatIsGoneIsSaidAndAskedFor) {
  AddSnapshot(kFirst, std::string(500, 'c'));
  ASSERT_EQ(OnStore({"parity", "--percent", "5"}).exit_code, 0);
  const std::string setting = test_.directory() + "/parity/setting";
  for (const bool is_gone : {true, false}) {
    SCOPED_TRACE(is_gone);
    if (is_gone) {
      std::filesystem::remove(setting);
    } else {
      WriteTestFile(setting, "damaged");
    }
    EXPECT_EQ(OnStore({"parity"}).exit_code, 6);
    EXPECT_EQ(OnStore({"verify"}).exit_code, 6);
    const Outcome asked = OnStore({"repair", "--apply"});
    EXPECT_EQ(asked.exit_code, 6);
    EXPECT_EQ(asked.messages.front()["what"], "parity");
    EXPECT_EQ(asked.messages.front()["state"], "needs_word");
    EXPECT_THAT(std::string(asked.messages.front()["message"]), HasSubstr("--percent N"));
    EXPECT_EQ(OnStore({"parity", "--percent", "5"}).exit_code, 0);
    EXPECT_EQ(OnStore({"repair"}).exit_code, 0);
  }
  // Who removes the folder wants none.
  std::filesystem::remove_all(test_.directory() + "/parity");
  EXPECT_EQ(OnStore({"verify"}).exit_code, 0);
  EXPECT_EQ(OnStore({"repair"}).exit_code, 0);
  EXPECT_EQ(OnStore({"parity"}).exit_code, 1);
}

}  // namespace
}  // namespace kerf::agent
