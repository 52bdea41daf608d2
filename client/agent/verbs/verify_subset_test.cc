// `kerf verify --read-data-subset`: what it takes, and what it remembers; `kerf repair --packs`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/agent/command.h"
#include "client/cli/testing/outcome.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class VerifySubsetVerbTest : public testing::Test {
 protected:
  VerifySubsetVerbTest() {
    for (const char* name : {"KERF_STORE", "KERF_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"}) {
      unsetenv(name);
    }
    setenv("HOME", folder_.path().c_str(), 1);
  }

  Outcome OnStore(Arguments arguments) {
    arguments.insert(arguments.end(), {"--store", test_.directory()});
    return RunJsonHere(RunCommand, std::move(arguments), cancelled_);
  }

  const TemporaryFolder folder_;
  TestStore test_;
  std::atomic<bool> cancelled_ = false;
};

TEST_F(VerifySubsetVerbTest, APartOfAStoreIsVerifiedWhereTheLastRunEnded) {
  for (int count = 0; count < 5; ++count) test_.WritePack({Cat("pack ", count)});
  const auto read_one = [this] {
    const Outcome outcome = OnStore({"verify", "--read-data-subset", "1"});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.messages.back()["read_packs"], 1);
    EXPECT_EQ(outcome.messages.back()["packs"], 5);
    EXPECT_EQ(outcome.messages.back()["subset"], "1");
    return outcome.messages.back();
  };
  std::uint64_t sum_bytes = 0;
  nlohmann::json last;
  for (int count = 0; count < 5; ++count) {
    last = read_one();
    sum_bytes += last["read_bytes"].get<std::uint64_t>();
    EXPECT_EQ(last["round_finished_unix_ns"], 0);
    EXPECT_GT(last["round_started_unix_ns"], 0);
  }
  // Each of them once: "pack 0" to "pack 4".
  EXPECT_EQ(sum_bytes, 5 * 6u);
  EXPECT_GT(read_one()["round_finished_unix_ns"], last["round_started_unix_ns"]);
  // It is the user's, and nothing of it is in the store.
  const std::string states = folder_.path() + "/.local/state/kerf/verify/";
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(states)) {
    names.push_back(entry.path());
  }
  ASSERT_THAT(names, SizeIs(1));
  // One that is damaged is said and begun anew.
  WriteTestFile(names.front(), "{\"read_up_to\":7}");
  const Outcome damaged = OnStore({"verify", "--read-data-subset", "1h"});
  EXPECT_EQ(damaged.exit_code, 0);
  EXPECT_EQ(damaged.messages.front()["message_type"], "warning");
  EXPECT_EQ(damaged.messages.front()["path"], names.front());
  EXPECT_EQ(damaged.messages.back()["read_packs"], 5);
  EXPECT_GT(damaged.messages.back()["round_finished_unix_ns"], 0);
  const Outcome part = OnStore({"verify", "--read-data-subset", "1/1"});
  EXPECT_EQ(part.messages.back()["read_packs"], 5);
  // One that is interrupted before it has read any pack leaves what is known of the rounds.
  const std::string before = ReadTestFile(names.front());
  cancelled_ = true;
  EXPECT_EQ(OnStore({"verify", "--read-data-subset", "1h"}).exit_code, 130);
  cancelled_ = false;
  EXPECT_EQ(ReadTestFile(names.front()), before);
}

TEST_F(VerifySubsetVerbTest, WhatIsNoPartOfAStoreIsRefused) {
  for (const std::string subset :
       {"", "0/3", "4/3", "1/0", "1/", "/2", "-1/2", "0", "0s", "x", "20Q", "1/2/3"}) {
    const Outcome outcome = OnStore({"verify", "--read-data-subset", subset});
    EXPECT_EQ(outcome.exit_code, 2) << subset;
    EXPECT_THAT(outcome.message(), HasSubstr("no part of a store")) << subset;
  }
}

// `kerf repair --packs`, behind what verify finds.
TEST_F(VerifySubsetVerbTest, ADamagedPackIsMendedAndWhatIsLostIsNamed) {
  const std::string sound(300, 's');
  const std::string lost(300, 'l');
  std::vector<std::string> metadata;
  store::v1::Snapshot snapshot = test_.Describe({{"a", {sound}}, {"b", {lost}}}, metadata);
  test_.WritePack(metadata);
  const SealedPack pack = test_.WritePack({sound, lost});
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  EXPECT_EQ(OnStore({"repair", "--packs"}).exit_code, 0);
  const std::string path = ChunkIndex(test_.store().packs_directory()).PackPath(pack.id);
  std::string bytes = ReadTestFile(path);
  bytes[pack.footer.blocks[1].offset + 5] ^= 1;
  WriteTestFile(path, bytes);
  const Outcome dry = OnStore({"repair", "--packs"});
  EXPECT_EQ(dry.exit_code, 6);
  EXPECT_EQ(dry.messages.front()["what"], "pack");
  EXPECT_EQ(dry.messages.front()["state"], "would");
  EXPECT_EQ(ReadTestFile(path), bytes);
  const Outcome done = OnStore({"repair", "--packs", "--apply"});
  EXPECT_EQ(done.exit_code, 6) << "something is lost";
  ASSERT_THAT(done.messages, SizeIs(3));
  EXPECT_EQ(done.messages[0]["state"], "done");
  EXPECT_EQ(done.messages[1]["what"], "lost");
  EXPECT_EQ(done.messages[1]["path"], "/b");
  test_.WritePack({lost});
  EXPECT_EQ(OnStore({"verify", "--read-data"}).exit_code, 0);
  EXPECT_EQ(OnStore({"repair", "--packs"}).exit_code, 0);
}

}  // namespace
}  // namespace kerf::agent
