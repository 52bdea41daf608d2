#include "client/store/snapshots/tree_salvage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kDigestBytes = 32;

TreeEntry Entry(const std::string& path, NodeKind kind) {
  TreeEntry entry;
  entry.node.path = path;
  entry.node.kind = kind;
  entry.node.mode = 0640;
  entry.node.uid = 1000;
  entry.node.user = "ann";
  entry.node.group = "users";
  entry.node.modified = {1'700'000'000, 5};
  return entry;
}

TreeEntry File(const std::string& path, std::size_t chunk_count) {
  TreeEntry entry = Entry(path, NodeKind::kFile);
  for (std::size_t number = 0; number < chunk_count; ++number) {
    entry.recipe.push_back(RefOf(Cat(path, " ", number)));
    entry.node.size_bytes += entry.recipe.back().length_bytes;
  }
  return entry;
}

// A stream in a store, of which pieces can be taken away.
class Stream {
 public:
  // Cut behind each of `cuts`.
  Stream(const std::vector<TreeEntry>& entries, std::vector<std::uint64_t> cuts) {
    std::vector<std::uint8_t> bytes;
    for (const TreeEntry& entry : entries) {
      begins_.push_back(bytes.size());
      EncodeTreeEntry(entry, kDigestBytes, bytes);
    }
    begins_.push_back(bytes.size());
    cuts.push_back(bytes.size());
    std::uint64_t begin = 0;
    for (const std::uint64_t end : cuts) {
      pieces_.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                           bytes.begin() + static_cast<std::ptrdiff_t>(end));
      recipe_.push_back(RefOf(pieces_.back()));
      begin = end;
    }
    ends_ = std::move(cuts);
  }

  std::size_t piece_count() const { return pieces_.size(); }
  std::uint64_t size_bytes() const { return begins_.back(); }
  const std::vector<std::uint64_t>& begins() const { return begins_; }

  // True if no byte of the entry lies in a lost piece.
  bool IsWhole(std::size_t entry, const std::set<std::size_t>& lost) const {
    return std::none_of(lost.begin(), lost.end(), [&](std::size_t piece) {
      const std::uint64_t piece_begin = piece == 0 ? 0 : ends_[piece - 1];
      return piece_begin < begins_[entry + 1] && ends_[piece] > begins_[entry];
    });
  }

  // What is left without the pieces; equal pieces are lost together.
  std::vector<SalvagedEntry> Salvage(std::set<std::size_t>& lost,
                                     std::size_t max_kept_chunks = kMaxKeptChunks) {
    gaps.clear();
    const TemporaryFolder folder(TemporaryFolder::Place::kMemory);
    TestStore store(folder.path());
    std::vector<std::string> kept;
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
      const bool is_lost = std::any_of(lost.begin(), lost.end(), [&](std::size_t other) {
        return pieces_[other] == pieces_[piece];
      });
      if (is_lost) lost.insert(piece);
      if (!is_lost) kept.push_back(pieces_[piece]);
    }
    if (!kept.empty()) store.WritePack(kept);
    ChunkIndex index(store.store().packs_directory());
    EXPECT_TRUE(index.Refresh().ok());
    ChunkReader::Options options;
    options.old_chunks_only = true;
    ChunkReader chunks(index, options);
    const auto recipe = std::make_shared<const std::vector<ChunkRef>>(recipe_);
    SalvagingTreeReader reader(chunks, recipe, kDigestBytes, max_kept_chunks,
                               [&](const TreeGap& gap) { gaps.push_back(gap); });
    std::vector<SalvagedEntry> entries;
    while (true) {
      SalvagedEntry next;
      const absl::StatusOr<bool> more = reader.Next(next);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok() || !*more) return entries;
      if (const auto& place = next.entry.long_recipe; place.has_value()) {
        RecipeReader chunk_reader(ReadRecipe(chunks, recipe, place->piece_index), *place,
                                  kDigestBytes);
        while (chunk_reader.left_count() > 0) {
          next.entry.recipe.push_back(chunk_reader.Next().value());
        }
        next.entry.long_recipe.reset();
      }
      entries.push_back(std::move(next));
    }
  }

  std::vector<TreeGap> gaps;

 private:
  // One more than there are entries.
  std::vector<std::uint64_t> begins_;
  std::vector<std::string> pieces_;
  std::vector<std::uint64_t> ends_;
  std::vector<ChunkRef> recipe_;
};

std::vector<std::string> PathsOf(const std::vector<SalvagedEntry>& entries) {
  std::vector<std::string> paths;
  paths.reserve(entries.size());
  for (const SalvagedEntry& entry : entries) {
    paths.push_back(Cat(entry.entry.node.path, entry.is_made_up ? " (made up)" : ""));
  }
  return paths;
}

using Paths = std::vector<std::string>;

TEST(TreeSalvageTest, WithoutDamageItIsTheTree) {
  const std::vector<TreeEntry> entries = {Entry("a", NodeKind::kDirectory), File("a/b", 3),
                                          Entry("c", NodeKind::kFifo)};
  Stream stream(entries, {10, 100});
  std::set<std::size_t> none;
  const std::vector<SalvagedEntry> read = stream.Salvage(none);
  ASSERT_EQ(read.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read[i].entry, entries[i]);
    EXPECT_FALSE(read[i].is_doubtful);
  }
  EXPECT_TRUE(stream.gaps.empty());
}

TEST(TreeSalvageTest, AnEntryThatIsCutSaysWhereTheNextOneBegins) {
  const std::vector<TreeEntry> entries = {File("a", 1), File("b", 100), File("c", 1)};
  std::vector<std::uint8_t> first;
  EncodeTreeEntry(entries[0], kDigestBytes, first);
  Stream stream(entries, {first.size() + 200, first.size() + 500});
  std::set<std::size_t> lost = {1};
  const std::vector<SalvagedEntry> read = stream.Salvage(lost);
  EXPECT_EQ(PathsOf(read), (Paths{"a", "c"}));
  EXPECT_FALSE(read[1].is_doubtful);
  ASSERT_EQ(stream.gaps.size(), 1u);
  EXPECT_EQ(stream.gaps[0].behind, "a");
  EXPECT_EQ(stream.gaps[0].before, "c");
  EXPECT_EQ(stream.gaps[0].lost_bytes, stream.begins()[2] - stream.begins()[1]);
  EXPECT_FALSE(stream.gaps[0].cause.ok());
}

TEST(TreeSalvageTest, DirectoriesThatAreLostAreMadeUp) {
  const std::vector<TreeEntry> entries = {Entry("a", NodeKind::kDirectory),
                                          File("a/x", 2),
                                          Entry("b", NodeKind::kDirectory),
                                          Entry("b/c", NodeKind::kDirectory),
                                          File("b/c/d", 2),
                                          File("b/c/e", 2),
                                          File("b/f", 1),
                                          Entry("g", NodeKind::kDirectory),
                                          Entry("g/h", NodeKind::kDirectory)};
  const Stream whole(entries, {});
  // From within a/x up to within b/c/d.
  Stream stream(entries, {whole.begins()[1] + 2, whole.begins()[4] + 20});
  std::set<std::size_t> lost = {1};
  const std::vector<SalvagedEntry> read = stream.Salvage(lost);
  EXPECT_EQ(PathsOf(read),
            (Paths{"a", "b (made up)", "b/c (made up)", "b/c/e", "b/f", "g", "g/h"}));
  EXPECT_FALSE(read[0].is_doubtful);
  EXPECT_TRUE(read[3].is_doubtful);
  EXPECT_EQ(read[1].entry.node.mode, 0700u);
}

// Eleven bytes: no field could be shorter.
TEST(TreeSalvageTest, TheShortestEntryIsFound) {
  TreeEntry shortest;
  shortest.node.path = "b";
  shortest.node.kind = NodeKind::kFifo;
  const std::vector<TreeEntry> entries = {File("a", 1), shortest};
  const Stream whole(entries, {});
  ASSERT_EQ(whole.size_bytes() - whole.begins()[1], 4u + 11u);
  Stream stream(entries, {5});
  std::set<std::size_t> lost = {0};
  EXPECT_EQ(PathsOf(stream.Salvage(lost)), Paths{"b"});
}

TEST(TreeSalvageTest, TheBeginningTheEndAndEverythingMayBeLost) {
  const std::vector<TreeEntry> entries = {File("a", 2), File("b", 2), File("c", 2), File("d", 2)};
  const Stream whole(entries, {});
  Stream stream(entries, {whole.begins()[1] + 5, whole.begins()[3] + 5});
  std::set<std::size_t> lost = {0};
  EXPECT_EQ(PathsOf(stream.Salvage(lost)), (Paths{"c", "d"}));
  lost = {2};
  EXPECT_EQ(PathsOf(stream.Salvage(lost)), (Paths{"a", "b", "c"}));
  ASSERT_EQ(stream.gaps.size(), 1u);
  EXPECT_EQ(stream.gaps[0].before, "");
  lost = {0, 2};
  EXPECT_EQ(PathsOf(stream.Salvage(lost)), (Paths{"c"}));
  lost = {0, 1, 2};
  EXPECT_EQ(PathsOf(stream.Salvage(lost)), Paths());
}

// Nobody can tell such entries from true ones, so that they must be marked.
TEST(TreeSalvageTest, WhatIsFoundInAnAttributeIsDoubtful) {
  std::vector<std::uint8_t> planted;
  for (const char* path : {"n/a", "n/b", "n/c"}) {
    EncodeTreeEntry(File(path, 1), kDigestBytes, planted);
  }
  TreeEntry mallory = File("m", 1);
  mallory.node.xattrs = {{"user.x", std::string(planted.begin(), planted.end())}};
  const std::vector<TreeEntry> entries = {File("a", 1), mallory, File("z", 1)};
  const Stream whole(entries, {});
  // Not where the entry of m says where it ends.
  Stream stream(entries, {whole.begins()[1], whole.begins()[1] + 40});
  std::set<std::size_t> lost = {1};
  for (const SalvagedEntry& entry : stream.Salvage(lost)) {
    EXPECT_EQ(entry.is_doubtful, entry.entry.node.path != "a") << entry.entry.node.path;
  }
  EXPECT_EQ(stream.gaps.size(), 1u);
}

std::vector<TreeEntry> RandomTree(Random& random) {
  std::vector<TreeEntry> entries;
  for (int top = 0; top < 6; ++top) {
    const std::string folder = Cat("folder-", top);
    entries.push_back(Entry(folder, NodeKind::kDirectory));
    const std::uint64_t count = random.Between(0, 12);
    for (std::uint64_t number = 0; number < count; ++number) {
      const std::string path = folder + "/" + static_cast<char>('a' + number);
      entries.push_back(File(path, random.Between(0, 9) == 0 ? 300 : random.Between(0, 6)));
      Node& node = entries.back().node;
      if (random.Between(0, 4) == 0) {
        node.xattrs = {{"user.noise", std::string(random.Between(0, 300), '\1')}};
        for (char& byte : node.xattrs[0].value) byte = static_cast<char>(random.Between(0, 255));
      }
    }
  }
  return entries;
}

// Every entry of which all bytes are there comes back as it was, and no other one.
TEST(TreeSalvageTest, AnyPiecesMayBeLost) {
  Random random{TestSeed()};
  for (int round = 0; round < 60; ++round) {
    const std::vector<TreeEntry> entries = RandomTree(random);
    const Stream whole(entries, {});
    std::set<std::uint64_t> cuts;
    const std::uint64_t piece_bytes = random.Between(30, 1500);
    for (std::uint64_t at = 0; at < whole.size_bytes() - 1;) {
      at += random.Between(1, 2 * piece_bytes);
      if (at < whole.size_bytes()) cuts.insert(at);
    }
    Stream stream(entries, {cuts.begin(), cuts.end()});
    std::set<std::size_t> lost;
    for (std::uint64_t count = random.Between(1, 5); count > 0; --count) {
      lost.insert(random.Between(0, stream.piece_count() - 1));
    }
    const std::vector<SalvagedEntry> read = stream.Salvage(lost, random.Between(0, 8));
    std::vector<TreeEntry> expected;
    for (std::size_t index = 0; index < entries.size(); ++index) {
      if (stream.IsWhole(index, lost)) expected.push_back(entries[index]);
    }
    std::vector<TreeEntry> found;
    for (const SalvagedEntry& entry : read) {
      if (!entry.is_made_up) found.push_back(entry.entry);
    }
    EXPECT_EQ(found, expected) << "round " << round;
    EXPECT_FALSE(stream.gaps.empty() && found.size() < entries.size()) << "round " << round;
  }
}

}  // namespace
}  // namespace kerf::agent
