// kerf index: what a user does when the index behind a kerfd is lost, or is not to be trusted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/cpp/channel.h"
#include "client/fs/testing/compare_trees.h"
#include "e2e/world.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/index.grpc.pb.h"

namespace kerf::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int kOk = 0;
constexpr int kPartial = 3;
constexpr int kIntegrity = 6;

// Less than any chunk of the files; folders above the tree change with every test.
constexpr std::size_t kMaxFolderBytes = 50'000;

class IndexTest : public testing::Test {
 protected:
  IndexTest() : tree_(world_ / "tree") {
    std::filesystem::create_directory(tree_);
    for (const char* name : {"one", "two"}) AddFile(name, 3'000'000);
  }

  void AddFile(const std::string& name, std::size_t size_bytes) {
    std::string content(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    WriteText(tree_ + "/" + name, content);
  }

  nlohmann::json BackupAll() { return world_.Backup({tree_, "--force"}); }
  nlohmann::json Check(int exit_code) {
    const JsonRun run = world_.KerfJson({"index", "check"});
    EXPECT_EQ(run.exit_code, exit_code);
    return run.Only("summary");
  }
  nlohmann::json Stats() { return world_.KerfJson({"index", "stats"}).Only("summary"); }
  nlohmann::json Rebuild() {
    const JsonRun run = world_.KerfJson({"index", "rebuild"});
    EXPECT_EQ(run.exit_code, kOk);
    return run.Only("summary");
  }

  void LoseIndex() {
    world_.StopServer();
    std::filesystem::remove_all(world_ / "server/data");
    world_.StartServer();
  }

  // What no agent would do: an entry of a chunk that the store does not hold.
  void CommitForeign(char letter, std::uint64_t epoch) {
    // The socket's path is relative to the folder of the world.
    std::filesystem::current_path(world_.path());
    const auto stub = v1::IndexService::NewStub(*client::OpenChannel({world_.address()}));
    v1::CommitChunksRequest request;
    request.mutable_repository()->set_repository(Stats()["repository"]);
    request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    request.set_store_epoch(epoch);
    v1::IndexEntry& entry = *request.add_entries();
    entry.set_digest(std::string(32, letter));
    entry.set_length_bytes(77);
    entry.set_locator(std::string(20, letter));
    v1::CommitChunksResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub->CommitChunks(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  // To the next backup nothing is new, and nothing has to be told to the index.
  void ExpectAllKnown() {
    const nlohmann::json summary = BackupAll();
    EXPECT_EQ(summary["healed_chunks"], 0) << summary.dump();
    EXPECT_LT(summary["new_bytes"], kMaxFolderBytes) << summary.dump();
    EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, kOk);
    const std::string target = world_ / "restored";
    EXPECT_EQ(world_.Kerf({"restore", "latest", "--target", target}).exit_code, kOk);
    EXPECT_THAT(agent::testing::CompareTrees(tree_, target + tree_, {}), IsEmpty());
    std::filesystem::remove_all(target);
  }

  Random random_{TestSeed()};
  World world_;
  const std::string tree_;
};

TEST_F(IndexTest, ALostIndexIsRebuiltFromTheStore) {
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  BackupAll();
  const nlohmann::json clean = Check(kOk);
  EXPECT_GT(clean["chunks"], 50);
  EXPECT_EQ(clean["known"], clean["chunks"]);
  EXPECT_EQ(clean["index_entries"], clean["chunks"]);
  EXPECT_EQ(Stats()["epoch_state"], "fresh");
  LoseIndex();
  ASSERT_FALSE(HasFatalFailure());
  const nlohmann::json lost = Check(kPartial);
  EXPECT_EQ(lost["missing"], clean["chunks"]);
  EXPECT_EQ(lost["index_entries"], 0);
  const Completed words = world_.Kerf({"index", "check"});
  EXPECT_EQ(words.exit_code, kPartial);
  EXPECT_EQ(words.err, "");
  EXPECT_THAT(words.out, HasSubstr(Cat("to mend: kerf index rebuild --store ", world_.store(),
                                       " --server ", world_.address())));
  EXPECT_THAT(words.out, Not(HasSubstr("DANGEROUS")));

  EXPECT_EQ(Rebuild()["chunks"], clean["chunks"]);
  EXPECT_EQ(Check(kOk)["known"], clean["chunks"]);
  EXPECT_EQ(Stats()["epoch_state"], "current");
  EXPECT_THAT(world_.Kerf({"index", "check"}).out, HasSubstr("index and store agree"));
  ExpectAllKnown();
  // Again, and a collection, which believes it.
  Rebuild();
  const nlohmann::json gc = world_.KerfJson({"gc"}).Only("summary");
  EXPECT_THAT(gc["findings"], IsEmpty());
  Check(kOk);
  ExpectAllKnown();
}

TEST_F(IndexTest, EntriesOfWhatTheStoreDoesNotHoldAreFoundAndRemoved) {
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  BackupAll();
  CommitForeign('x', 1);
  ASSERT_FALSE(HasFatalFailure());
  const JsonRun found = world_.KerfJson({"index", "check"});
  EXPECT_EQ(found.exit_code, kIntegrity);
  EXPECT_EQ(found.Only("summary")["gone"], 1);
  EXPECT_EQ(found.Only("summary")["missing"], 0);
  const nlohmann::json finding = found.Only("index_finding");
  EXPECT_EQ(finding["kind"], "gone");
  std::string digest;
  for (int byte = 0; byte < 32; ++byte) digest += "78";
  EXPECT_EQ(finding["digest"], digest);
  EXPECT_EQ(finding["length"], 77);
  const Completed words = world_.Kerf({"index", "check"});
  EXPECT_EQ(words.exit_code, kIntegrity);
  EXPECT_THAT(words.err, HasSubstr(digest));
  EXPECT_THAT(words.out, AllOf(HasSubstr("DANGEROUS"), HasSubstr("to mend: kerf index rebuild")));

  EXPECT_THAT(words.out, HasSubstr("first run kerf verify"));

  EXPECT_EQ(Rebuild()["removed_entries"], 1);
  Check(kOk);
  ExpectAllKnown();
}

// What gc does of itself with an index that has lost what it was told.
TEST_F(IndexTest, ACollectionMakesALostIndexWhole) {
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  BackupAll();
  ASSERT_EQ(world_.Kerf({"gc"}).exit_code, kOk);
  LoseIndex();
  ASSERT_FALSE(HasFatalFailure());
  // Of a session before that collection, which the lost index would have refused.
  for (const char letter : {'x', 'y', 'z'}) CommitForeign(letter, 1);
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(Stats()["epoch_state"], "behind");
  EXPECT_THAT(world_.Kerf({"index", "stats"}).out,
              AllOf(HasSubstr("UNVERIFIED"), HasSubstr("kerf index rebuild")));
  const nlohmann::json before = Check(kPartial);
  EXPECT_EQ(before["outdated"], 3);
  EXPECT_EQ(before["missing"], before["chunks"]);
  const JsonRun gc = world_.KerfJson({"gc"});
  EXPECT_EQ(gc.exit_code, kOk);
  EXPECT_EQ(gc.Only("summary")["findings"].size(), 1u);
  const nlohmann::json after = Check(kOk);
  EXPECT_EQ(after["known"], after["chunks"]);
  EXPECT_EQ(after["index_entries"], after["chunks"]);
  EXPECT_EQ(Stats()["epoch_state"], "current");
  ExpectAllKnown();
}

// The store knows of no epoch that the index has: of its own, or of its entries only.
TEST_F(IndexTest, AStoreThatWasSetBackIsSaidAndMended) {
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  BackupAll();
  const std::string old_store = world_ / "it's old";
  std::filesystem::copy(world_.store(), old_store, std::filesystem::copy_options::recursive);
  Rebuild();
  const auto set_back = [&] {
    // Of a user who has not seen the newer one.
    std::filesystem::remove_all(world_ / ".local/state/kerf");
    std::filesystem::remove_all(world_.store());
    std::filesystem::copy(old_store, world_.store(), std::filesystem::copy_options::recursive);
  };
  set_back();
  EXPECT_GT(Check(kPartial)["index_epoch"], 1);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"index", "check"}, {"index", "check", "--quiet"}}) {
    EXPECT_THAT(world_.Kerf(words).out,
                AllOf(HasSubstr("set back"), HasSubstr("to mend: kerf index rebuild")));
  }
  // Whole, but as long as nobody does anything each backup sends everything again.
  const Completed quiet = world_.Kerf({"backup", "tree", "--force", "--quiet"});
  EXPECT_EQ(quiet.exit_code, kPartial) << quiet.err;
  EXPECT_EQ(quiet.out, "");
  EXPECT_THAT(quiet.err,
              AllOf(HasSubstr("index does not take what it is told"), HasSubstr("run kerf gc"),
                    HasSubstr("kerf repair --accept-set-back --apply")));
  set_back();
  EXPECT_THAT(world_.Kerf({"index", "check", "--store", old_store}).out,
              HasSubstr("it'\\''s old'"));
  Rebuild();
  Check(kOk);
  LoseIndex();
  ASSERT_FALSE(HasFatalFailure());
  for (const char letter : {'x', 'y', 'z'}) CommitForeign(letter, 10);
  ASSERT_FALSE(HasFatalFailure());
  set_back();
  EXPECT_EQ(Check(kIntegrity)["gone"], 3);
  EXPECT_EQ(Rebuild()["removed_entries"], 3);
  Check(kOk);
  ExpectAllKnown();
}

TEST_F(IndexTest, ABackupGoesOnWhileTheIndexIsRebuilt) {
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  BackupAll();
  for (const char* name : {"three", "four", "five"}) AddFile(name, 10'000'000);
  const auto backup = world_.Start({"backup", tree_, "--force", "--json"});
  int rebuild_count = 0;
  do {
    Rebuild();
    EXPECT_NE(world_.KerfJson({"index", "check"}).exit_code, kIntegrity);
    ++rebuild_count;
  } while (!backup->HasEnded() && rebuild_count < 3);
  const Completed end = backup->Wait();
  EXPECT_EQ(end.exit_code, kOk) << end.out;
  Rebuild();
  Check(kOk);
  ExpectAllKnown();
}

TEST_F(IndexTest, AllEntriesCanBeExported) {
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  BackupAll();
  const std::size_t count = Check(kOk)["chunks"];
  const Completed table = world_.Kerf({"index", "export"});
  EXPECT_EQ(table.exit_code, kOk);
  std::vector<std::string> lines;
  std::istringstream text(table.out);
  for (std::string line; std::getline(text, line);) {
    EXPECT_THAT(line, testing::MatchesRegex("[0-9a-f]{64} +[0-9]+  [0-9a-f]{32}:[0-9]+"));
    lines.push_back(line);
  }
  EXPECT_EQ(lines.size(), count);
  EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end()));

  // A file has the same, and replaces another one only when it is complete.
  const std::string folder = world_ / "out";
  std::filesystem::create_directory(folder);
  WriteText(folder + "/entries", "old");
  const Completed to_file = world_.Kerf({"index", "export", "--output", folder + "/entries"});
  EXPECT_EQ(to_file.exit_code, kOk) << to_file.err;
  EXPECT_EQ(ReadText(folder + "/entries"), table.out);
  const JsonRun json = world_.KerfJson({"index", "export", "--output", folder + "/entries.jsonl"});
  EXPECT_EQ(json.Only("summary")["index_entries"], count);
  std::istringstream objects(ReadText(folder + "/entries.jsonl"));
  std::size_t at = 0;
  for (std::string line; std::getline(objects, line); ++at) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    EXPECT_EQ(entry["message_type"], "index_entry");
    ASSERT_LT(at, lines.size());
    EXPECT_THAT(lines[at], AllOf(testing::StartsWith(std::string(entry["digest"])),
                                 testing::EndsWith(std::string(entry["locator"]))));
    EXPECT_EQ(std::string(entry["locator_hex"]).size(), 40u);
  }
  EXPECT_EQ(at, count);
  const JsonRun streamed = world_.KerfJson({"index", "export"});
  EXPECT_EQ(streamed.Of("index_entry").size(), count);

  // A link is written through, if it leads somewhere.
  std::filesystem::create_symlink("entries", folder + "/link");
  WriteText(folder + "/entries", "old");
  EXPECT_EQ(world_.Kerf({"index", "export", "--output", folder + "/link"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link"));
  EXPECT_EQ(ReadText(folder + "/entries"), table.out);
  std::filesystem::remove(folder + "/link");
  std::filesystem::create_symlink("none", folder + "/link");
  EXPECT_EQ(world_.Kerf({"index", "export", "--output", folder + "/link"}).exit_code, 1);
  std::filesystem::remove(folder + "/link");

  // Nobody but the two files is left, whatever went wrong.
  for (const std::string& bad : {std::string("/dev/null"), folder, folder + "/none/entries"}) {
    const JsonRun run = world_.KerfJson({"index", "export", "--output", bad});
    EXPECT_EQ(run.exit_code, 1) << bad;
    EXPECT_THAT(std::string(run.Only("error")["message"]), HasSubstr(bad));
  }
  world_.StopServer();
  WriteText(folder + "/entries", "old");
  EXPECT_EQ(world_.Kerf({"index", "export", "--output", folder + "/entries"}).exit_code, 5);
  EXPECT_EQ(ReadText(folder + "/entries"), "old");
  const auto files = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 2);
}

}  // namespace
}  // namespace kerf::e2e
