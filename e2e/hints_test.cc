// What kerfd has learned of files: kept over a restart, and of no use to whoever has another key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <regex>
#include <string>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kFileBytes = 16'000'000;

class HintsTest : public testing::Test {
 protected:
  HintsTest() : content_(kFileBytes, '\0') {
    Random(TestSeed()).Fill({reinterpret_cast<std::uint8_t*>(content_.data()), content_.size()});
    WriteText(world_ / "file", content_);
  }

  // Starts kerfd, backs up and ends it; the bytes that it had to scan.
  std::uint64_t ScannedBytes() {
    world_.StartServer({"--hint-memory", "64M"});
    if (HasFatalFailure()) return 0;
    world_.Backup({"file", "--force", "--profile", "rabin-8k"});
    log_ = world_.StopServer();
    std::smatch found;
    if (!std::regex_search(log_, found, std::regex("bytes: ([0-9]+) scanned"))) {
      ADD_FAILURE() << log_;
      return 0;
    }
    return std::stoull(found[1]);
  }

  World world_;
  std::string content_;
  std::string log_;
};

TEST_F(HintsTest, AFileThatIsKnownIsNotScannedAgain) {
  EXPECT_GE(ScannedBytes(), kFileBytes);
  EXPECT_LT(ScannedBytes(), kFileBytes / 5) << log_;
  content_.insert(kFileBytes / 2, "something new");
  WriteText(world_ / "file", content_);
  EXPECT_LT(ScannedBytes(), kFileBytes / 5) << log_;
  struct stat about{};
  ASSERT_EQ(stat((world_ / "server/data/hint.key").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0);
}

// Cuts that depend on what was stored before: what is stored is named so, and comes back.
TEST_F(HintsTest, ABackupWithACriterion) {
  const std::vector<std::string> backup = {"file", "--force", "--profile", "rabin-8k+ff"};
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  // This server has no hints: no store is made for a profile that it cannot cut by.
  std::vector<std::string> refused = {"backup"};
  refused.insert(refused.end(), backup.begin(), backup.end());
  Completed end = world_.Kerf(refused);
  EXPECT_NE(end.exit_code, 0);
  EXPECT_THAT(end.err, AllOf(HasSubstr("'ff'"), HasSubstr("--hint-memory")));
  EXPECT_FALSE(std::filesystem::exists(world_.store()));
  world_.StopServer();

  world_.StartServer({"--hint-memory", "64M"});
  ASSERT_FALSE(HasFatalFailure());
  // No criterion is safe with these digests, wherever it is cut.
  refused.insert(refused.end(), {"--digest", "xxh3-128"});
  end = world_.Kerf(refused);
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.err, HasSubstr("write --digest blake3"));
  EXPECT_FALSE(std::filesystem::exists(world_.store()));
  EXPECT_THAT(world_.Kerf({"ping", "--json"}).out, HasSubstr("ff-mt"));
  world_.Backup(backup);
  content_.insert(kFileBytes / 3, "something new");
  content_.erase(kFileBytes / 2, 1000);
  WriteText(world_ / "file", content_);
  world_.Backup(backup);
  EXPECT_THAT(world_.Kerf({"snapshots", "--json"}).out,
              HasSubstr("rabin:min=2048,avg=8192,max=32768+ff"));
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0);
  const std::string target = world_ / "restored";
  EXPECT_EQ(world_.Kerf({"restore", "latest", "--target", target}).exit_code, 0);
  EXPECT_EQ(ReadText(target + (world_ / "file")) == content_, true);
  log_ = world_.StopServer();
  std::smatch found;
  ASSERT_TRUE(std::regex_search(log_, found, std::regex("bytes: ([0-9]+) scanned"))) << log_;
  EXPECT_LT(std::stoull(found[1]), kFileBytes + kFileBytes / 5) << log_;
}

TEST_F(HintsTest, WithoutTheKeyOrTheSegmentsAllIsScanned) {
  ScannedBytes();
  std::filesystem::remove(world_ / "server/data/hint.key");
  EXPECT_GE(ScannedBytes(), kFileBytes) << log_;
  EXPECT_LT(ScannedBytes(), kFileBytes / 5) << log_;
  std::filesystem::remove_all(world_ / "server/data/hints");
  EXPECT_GE(ScannedBytes(), kFileBytes) << log_;
}

TEST_F(HintsTest, AKeyThatOthersMayReadIsRefused) {
  const std::string key = world_ / "key";
  WriteText(key, std::string(32, 'k'));
  chmod(key.c_str(), 0644);
  const std::vector<std::string> start = {BuiltProgram("server/kerfd"),
                                          "--listen",
                                          "unix:server/other",
                                          "--hint-memory",
                                          "1M",
                                          "--hint-key-file",
                                          key};
  Completed end = world_.Run(start);
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, AllOf(HasSubstr("--hint-key-file"), HasSubstr("chmod 0640")));
  WriteText(key, "short");
  chmod(key.c_str(), 0600);
  end = world_.Run(start);
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.err, HasSubstr("32 bytes"));
}

TEST_F(HintsTest, AnIndexAtHandNeedsNone) {
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  world_.Backup({"file"});
  EXPECT_THAT(world_.StopServer(), testing::Not(HasSubstr("hints:")));
  EXPECT_FALSE(std::filesystem::exists(world_ / "server/data/hints"));
}

}  // namespace
}  // namespace kerf::e2e
