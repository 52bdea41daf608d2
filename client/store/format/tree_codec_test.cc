#include "client/store/format/tree_codec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/little_endian.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kDigestBytes = 32;

StreamSource InPieces(const std::vector<std::uint8_t>& bytes, std::size_t piece_bytes) {
  return [rest = std::span(bytes),
          piece_bytes]() mutable -> absl::StatusOr<std::span<const std::uint8_t>> {
    const auto piece = rest.first(std::min(piece_bytes, rest.size()));
    rest = rest.subspan(piece.size());
    return piece;
  };
}

ChunkRef Chunk(std::uint8_t name, std::uint32_t length_bytes) {
  ChunkRef chunk;
  chunk.digest.bytes.fill(name);
  chunk.length_bytes = length_bytes;
  return chunk;
}

TreeEntry Entry(std::string path, NodeKind kind) {
  TreeEntry entry;
  entry.node.path = std::move(path);
  entry.node.kind = kind;
  entry.node.mode = 0644;
  return entry;
}

TreeEntry File(std::string path, std::uint32_t size_bytes) {
  TreeEntry entry = Entry(std::move(path), NodeKind::kFile);
  entry.node.size_bytes = size_bytes;
  if (size_bytes > 0) entry.recipe = {Chunk(1, size_bytes)};
  return entry;
}

std::vector<std::uint8_t> Encode(const std::vector<TreeEntry>& entries) {
  std::vector<std::uint8_t> stream;
  for (const TreeEntry& entry : entries) EncodeTreeEntry(entry, kDigestBytes, stream);
  return stream;
}

// The entries before the first error, and that.
std::pair<std::vector<TreeEntry>, absl::Status> Decode(const std::vector<std::uint8_t>& stream,
                                                       std::size_t piece_bytes = 7) {
  TreeReader reader(InPieces(stream, piece_bytes), kDigestBytes);
  std::vector<TreeEntry> entries;
  TreeEntry entry;
  while (true) {
    const absl::StatusOr<bool> more = reader.Next(entry);
    if (!more.ok() || !*more) return {entries, more.status()};
    entries.push_back(entry);
  }
}

void ExpectRefused(const std::vector<std::uint8_t>& stream, std::string_view path,
                   std::string_view reason) {
  const absl::Status status = Decode(stream).second;
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(MessageOf(status).find(Cat("'", path, "'")), std::string_view::npos) << status;
  EXPECT_NE(MessageOf(status).find(reason), std::string_view::npos) << status;
}

std::vector<TreeEntry> AllKinds() {
  std::vector<TreeEntry> entries = {Entry("d", NodeKind::kDirectory)};
  Node& directory = entries.back().node;
  directory.mode = 07777;
  directory.uid = UINT32_MAX;
  directory.gid = 1;
  directory.user = "owner";
  directory.group = "group";
  directory.modified = {-1, 999'999'999};
  directory.xattrs = {{"user.a", std::string("\0\xFF", 2)}, {"user.b", ""}};
  entries.push_back(Entry("d/block", NodeKind::kBlockDevice));
  entries.back().node.device_number = UINT64_MAX;
  entries.push_back(Entry("d/char", NodeKind::kCharDevice));
  entries.back().node.device_number = 0x0103;
  entries.push_back(File("d/empty", 0));
  entries.push_back(Entry("d/fifo", NodeKind::kFifo));
  entries.back().node.modified = {INT64_MIN, 0};
  entries.push_back(File("d/file", 300));
  entries.back().recipe = {Chunk(1, 100), Chunk(2, 200)};
  entries.push_back(Entry("d/link", NodeKind::kSymlink));
  entries.back().node.link_target = "../else\nwhere";
  entries.push_back(Entry("d/name", NodeKind::kFile));
  entries.back().node.hard_link_to = "d/file";
  entries.back().node.size_bytes = 300;
  entries.push_back(Entry("d/socket", NodeKind::kSocket));
  entries.back().node.modified = {INT64_MAX, 0};
  entries.push_back(Entry("d/sparse", NodeKind::kFile));
  entries.back().node.size_bytes = std::uint64_t{1} << 40;
  entries.back().node.sparse = true;
  entries.back().node.extents = {{0, 10}, {std::uint64_t{1} << 39, 20}};
  entries.back().recipe = {Chunk(3, 30)};
  entries.push_back(Entry("d/sparse-all-hole", NodeKind::kFile));
  entries.back().node.size_bytes = 5;
  entries.back().node.sparse = true;
  entries.push_back(Entry("d/z-char", NodeKind::kCharDevice));
  entries.back().node.device_number = 0x0103;
  entries.back().node.hard_link_to = "d/char";
  entries.push_back(Entry("d/z-fifo", NodeKind::kFifo));
  entries.back().node.hard_link_to = "d/fifo";
  entries.push_back(Entry("d/z-link", NodeKind::kSymlink));
  entries.back().node.link_target = "../else\nwhere";
  entries.back().node.hard_link_to = "d/link";
  entries.back().node.xattrs = {{"trusted.a", "1"}};
  return entries;
}

TEST(TreeCodecTest, EveryKindOfNodeReadsAsItWasWritten) {
  const std::vector<TreeEntry> entries = AllKinds();
  const std::vector<std::uint8_t> stream = Encode(entries);
  for (const std::size_t piece_bytes : {std::size_t{1}, std::size_t{64}, stream.size()}) {
    const auto [read, status] = Decode(stream, piece_bytes);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(read, entries);
  }
}

TEST(TreeCodecTest, ALongRecipeIsReadAgainFromItsPlace) {
  constexpr std::size_t kMaxKept = 2;
  std::vector<TreeEntry> entries;
  for (std::uint8_t count = 0; count < 7; ++count) {
    TreeEntry& entry = entries.emplace_back(Entry(Cat("file ", int{count}), NodeKind::kFile));
    for (std::uint8_t chunk = 1; chunk <= count; ++chunk) {
      entry.recipe.push_back(Chunk(chunk, 100u * chunk));
      entry.node.size_bytes += 100u * chunk;
    }
  }
  entries.push_back(File("last", 1));
  const std::vector<std::uint8_t> stream = Encode(entries);
  for (const std::size_t piece_bytes : {std::size_t{1}, std::size_t{7}, stream.size()}) {
    TreeReader reader(InPieces(stream, piece_bytes), kDigestBytes, kMaxKept);
    TreeEntry next;
    for (const TreeEntry& written : entries) {
      ASSERT_TRUE(*reader.Next(next));
      TreeEntry read = next;
      ASSERT_EQ(read.long_recipe.has_value(), written.recipe.size() > kMaxKept);
      if (read.long_recipe.has_value()) {
        EXPECT_TRUE(read.recipe.empty());
        const std::size_t skipped_bytes = read.long_recipe->piece_index * piece_bytes;
        const std::vector<std::uint8_t> rest(
            stream.begin() + static_cast<std::ptrdiff_t>(skipped_bytes), stream.end());
        RecipeReader again(InPieces(rest, piece_bytes), *read.long_recipe, kDigestBytes);
        while (again.left_count() > 0) read.recipe.push_back(*again.Next());
        read.long_recipe.reset();
      }
      EXPECT_EQ(read, written);
    }
  }
}

TEST(TreeCodecTest, ARecipeThatIsVisitedIsNotKept) {
  TreeEntry entry = File("f", 300);
  entry.recipe = {Chunk(1, 100), Chunk(2, 200)};
  const std::vector<std::uint8_t> stream = Encode({entry});
  TreeReader reader(InPieces(stream, 7), kDigestBytes);
  std::vector<ChunkRef> visited;
  TreeEntry read;
  ASSERT_TRUE(*reader.Next(read, [&](const ChunkRef& chunk) { visited.push_back(chunk); }));
  EXPECT_EQ(visited, entry.recipe);
  EXPECT_TRUE(read.recipe.empty());
  EXPECT_FALSE(read.long_recipe.has_value());
}

TEST(TreeCodecTest, ARecipeThatChangedSinceItWasReadIsRefused) {
  const RecipePlace place{0, 0, 1};
  const std::vector<std::uint8_t> stream = {1};
  EXPECT_TRUE(
      absl::IsDataLoss(RecipeReader(InPieces(stream, 1), place, kDigestBytes).Next().status()));
}

TEST(TreeCodecTest, AStreamThatIsCutShortIsNoticedAndSaysBehindWhat) {
  const std::vector<std::uint8_t> first = Encode({File("a", 3)});
  std::vector<std::uint8_t> stream = Encode({File("a", 3), File("b", 3)});
  while (stream.size() > first.size() + 1) {
    stream.pop_back();
    ExpectRefused(stream, "a", "the stream ends");
  }
}

TEST(TreeCodecTest, WhatIsOutOfOrderOrPlaceIsRefused) {
  const TreeEntry directory = Entry("d", NodeKind::kDirectory);
  ExpectRefused(Encode({File("b", 1), File("a", 1)}), "a", "does not come behind 'b'");
  ExpectRefused(Encode({File("a", 1), File("a", 1)}), "a", "does not come behind 'a'");
  ExpectRefused(Encode({File("a/b", 1)}), "a/b", "its parent is no directory");
  ExpectRefused(Encode({File("a", 1), File("a/b", 1)}), "a/b", "its parent is no directory");
  ExpectRefused(Encode({directory, File("e", 1), File("e/f", 1)}), "e/f", "its parent");
  for (const std::string path : {"/a", "../a", ".", "a/", "a//b", ""}) {
    const absl::Status status = Decode(Encode({File(path, 1)})).second;
    EXPECT_TRUE(absl::IsDataLoss(status)) << path << ": " << status;
  }
}

TEST(TreeCodecTest, RecipesAndExtentsThatDoNotFitAreRefused) {
  TreeEntry entry = File("f", 10);
  entry.node.size_bytes = 11;
  ExpectRefused(Encode({entry}), "f", "its recipe covers 10 of 11 bytes");
  entry = File("f", 10);
  entry.recipe.push_back(Chunk(2, 0));
  ExpectRefused(Encode({entry}), "f", "it has an empty chunk");
  EXPECT_TRUE(Decode(Encode({File("f", 4 << 20)})).second.ok());
  ExpectRefused(Encode({File("f", (4 << 20) + 1)}), "f", "it has a chunk of 4194305 bytes");
  const std::vector<std::vector<Extent>> bad = {
      {{5, 5}, {0, 5}}, {{0, 6}, {5, 4}}, {{0, 0}}, {{8, 3}}, {{11, 1}}, {{1, UINT64_MAX}}};
  for (const std::vector<Extent>& extents : bad) {
    entry = File("f", 10);
    entry.node.sparse = true;
    entry.node.extents = extents;
    ExpectRefused(Encode({entry}), "f", "its extents do not lie in order within the file");
  }
}

TEST(TreeCodecTest, AHardLinkPointsBackwards) {
  TreeEntry link = Entry("b", NodeKind::kFile);
  link.node.hard_link_to = "c";
  ExpectRefused(Encode({link}), "b", "it is a hard link to nothing before it");
  link.node.hard_link_to = "b";
  ExpectRefused(Encode({link}), "b", "it is a hard link to nothing before it");
  link.node.kind = NodeKind::kSymlink;
  link.node.hard_link_to = "c";
  ExpectRefused(Encode({link}), "b", "it is a hard link to nothing before it");
}

TEST(TreeCodecTest, NoDirectoryIsAHardLink) {
  TreeEntry link = Entry("b", NodeKind::kFifo);
  link.node.hard_link_to = "a";
  std::vector<std::uint8_t> stream = Encode({link});
  // Length (4), length of the path (1), path (1), kind.
  ASSERT_EQ(stream[6], static_cast<std::uint8_t>(NodeKind::kFifo));
  stream[6] = static_cast<std::uint8_t>(NodeKind::kDirectory);
  ExpectRefused(stream, "b", "it cannot be understood");
}

// As kerf 0.1.0 wrote it.
TEST(TreeCodecTest, AHardLinkOfAFileIsWrittenAsEver) {
  TreeEntry link = Entry("b", NodeKind::kFile);
  link.node.size_bytes = 300;
  link.node.hard_link_to = "a";
  const std::vector<std::uint8_t> expected = {16, 0, 0, 0, 1, 'b', 1,    2, 0xA4, 3,
                                              0,  0, 0, 0, 0, 0,   0xAC, 2, 1,    'a'};
  EXPECT_EQ(Encode({link}), expected);
}

TEST(TreeCodecTest, UnknownKindsFlagsAndNumbersAreRefused) {
  const std::vector<std::uint8_t> good = Encode({Entry("fifo", NodeKind::kFifo)});
  // Length (4), length of the path (1), path (4), kind, flags.
  for (const auto& [position, value] :
       {std::pair<std::size_t, std::uint8_t>{9, 0}, {9, 8}, {10, 8}, {10, 1}, {10, 2}}) {
    std::vector<std::uint8_t> bad = good;
    bad[position] = value;
    ExpectRefused(bad, "fifo", "it cannot be understood");
  }
  TreeEntry entry = Entry("f", NodeKind::kFifo);
  entry.node.mode = 010000;
  ExpectRefused(Encode({entry}), "f", "it cannot be understood");
  entry = Entry("f", NodeKind::kFifo);
  entry.node.modified.nanoseconds = 1'000'000'000;
  ExpectRefused(Encode({entry}), "f", "it cannot be understood");
}

TEST(TreeCodecTest, BytesLeftInAnEntryAreRefused) {
  std::vector<std::uint8_t> stream = Encode({File("f", 1)});
  StoreLittleEndian(stream.data(), static_cast<std::uint32_t>(stream.size() - 4 + 1));
  stream.push_back(0);
  ExpectRefused(stream, "f", "it cannot be understood");
}

TEST(TreeCodecTest, OnlyEntriesThatCanBeReadBackFit) {
  TreeEntry entry = File("f", 1);
  EXPECT_TRUE(FitsTree(entry, kDigestBytes));
  entry.node.xattrs = {{"user.a", std::string(1000, 'x')}};
  EXPECT_TRUE(FitsTree(entry, kDigestBytes));
  // As many chunks of one byte as lengths and digests of 32 bytes fit into the bound.
  EXPECT_TRUE(RecipeFitsTree(kMaxEntryBytes / 64, kDigestBytes));
  EXPECT_FALSE(RecipeFitsTree(kMaxEntryBytes / 32, kDigestBytes));
}

// A stream of `head` and then one chunk again and again, as a snapshot of a hostile store can name
// it. Returns why it was refused, and after how many bytes.
std::pair<absl::Status, std::uint64_t> DecodeEndless(const std::vector<std::uint8_t>& head,
                                                     std::uint8_t repeated) {
  const std::vector<std::uint8_t> chunk(4096, repeated);
  std::uint64_t given_bytes = 0;
  TreeReader reader(
      [&]() -> absl::StatusOr<std::span<const std::uint8_t>> {
        const std::span<const std::uint8_t> piece = given_bytes == 0 ? head : chunk;
        given_bytes += piece.size();
        // The test must end when the reader has no bound.
        if (given_bytes > (std::uint64_t{256} << 20)) return std::span<const std::uint8_t>();
        return piece;
      },
      kDigestBytes);
  TreeEntry entry;
  absl::Status status;
  while (status.ok() && given_bytes < (std::uint64_t{256} << 20)) {
    status = reader.Next(entry).status();
  }
  EXPECT_LE(entry.recipe.capacity(), 2 * kMaxKeptChunks);
  return {status, given_bytes};
}

void PutNumber(std::vector<std::uint8_t>& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
  out.push_back(static_cast<std::uint8_t>(value));
}

// The beginning of an entry that claims to be as long as an entry can be, up to what stands behind
// the time of its change.
std::vector<std::uint8_t> HeadOf(NodeKind kind, std::uint8_t flags) {
  return {0xFF, 0xFF, 0xFF, 0xFF, 1, 'f', static_cast<std::uint8_t>(kind), flags, 0,
          0,    0,    0,    0,    0, 0};
}

TEST(TreeCodecTest, AnEntryThatIsAllClaimTakesNoMemory) {
  struct Case {
    const char* name;
    std::vector<std::uint8_t> head;
    // Counts and texts that come behind it.
    std::vector<std::uint64_t> numbers;
    std::uint8_t repeated;
  };
  const std::uint64_t many = 1'000'000'000;
  const std::uint64_t huge = std::uint64_t{1} << 60;
  const std::vector<Case> cases = {
      {"path", {0xFF, 0xFF, 0xFF, 0xFF}, {many}, 'x'},
      {"user", {0xFF, 0xFF, 0xFF, 0xFF, 1, 'f', 4, 0, 0, 0, 0}, {many}, 'x'},
      {"link target", HeadOf(NodeKind::kSymlink, 0), {many}, 'x'},
      {"xattr count", HeadOf(NodeKind::kFile, 4), {many}, 0},
      {"xattr name", HeadOf(NodeKind::kFile, 4), {1, 256}, 'x'},
      {"xattr value", HeadOf(NodeKind::kFile, 4), {1, 0, (64 << 10) + 1}, 'x'},
      {"xattr list", HeadOf(NodeKind::kFile, 4), {32768}, 100},
      {"hard link", HeadOf(NodeKind::kFile, 2), {1, many}, 'x'},
      {"extents", HeadOf(NodeKind::kFile, 1), {huge, many}, 1},
      {"extents in one place", HeadOf(NodeKind::kFile, 1), {huge, 100'000'000}, 1},
      {"recipe", HeadOf(NodeKind::kFile, 0), {huge, many}, 1},
      {"recipe of a short file", HeadOf(NodeKind::kFile, 0), {1000, 90'000'000}, 1},
      {"empty chunks", HeadOf(NodeKind::kFile, 0), {huge, 90'000'000}, 0},
      {"left over", HeadOf(NodeKind::kFifo, 0), {}, 0},
  };
  for (const Case& hostile : cases) {
    std::vector<std::uint8_t> head = hostile.head;
    for (const std::uint64_t number : hostile.numbers) PutNumber(head, number);
    const auto [status, given_bytes] = DecodeEndless(head, hostile.repeated);
    EXPECT_TRUE(absl::IsDataLoss(status)) << hostile.name << ": " << status;
    EXPECT_LT(given_bytes, std::uint64_t{1} << 20) << hostile.name;
  }
}

// A file of chunks of one byte each; only the end of the stream shows that there is no such file.
TEST(TreeCodecTest, ARecipeThatRepeatsOneChunkTakesNoMemory) {
  std::vector<std::uint8_t> head = HeadOf(NodeKind::kFile, 0);
  PutNumber(head, 90'000'000);
  PutNumber(head, 90'000'000);
  const auto [status, given_bytes] = DecodeEndless(head, 1);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_GE(given_bytes, std::uint64_t{256} << 20);
}

TEST(TreeCodecTest, WhatLinuxCanHoldIsTakenAndMoreIsNot) {
  TreeEntry entry = File("f", 1);
  // As many names as a list has room for, in order.
  for (int number = 0; number < 256; ++number) {
    std::string name = Cat("user.", 1000 + number);
    name.resize(kMaxXattrNameBytes, 'x');
    entry.node.xattrs.push_back({std::move(name), std::string(1000, 'v')});
  }
  entry.node.xattrs.back().value.resize(kMaxXattrValueBytes);
  entry.node.user = std::string(kMaxOwnerNameBytes, 'u');
  EXPECT_TRUE(FitsTree(entry, kDigestBytes));
  EXPECT_EQ(Decode(Encode({entry}), 4096).first, std::vector<TreeEntry>{entry});

  const auto expect_too_much = [](const TreeEntry& bad) {
    EXPECT_FALSE(FitsTree(bad, kDigestBytes));
    EXPECT_TRUE(absl::IsDataLoss(Decode(Encode({bad}), 4096).second));
  };
  TreeEntry bad = entry;
  bad.node.xattrs.push_back({"v", ""});
  expect_too_much(bad);
  bad = entry;
  bad.node.xattrs.front().name += 'x';
  expect_too_much(bad);
  bad = entry;
  bad.node.xattrs.back().value += 'x';
  expect_too_much(bad);
  bad = entry;
  bad.node.user += 'u';
  expect_too_much(bad);
  bad = Entry("s", NodeKind::kSymlink);
  bad.node.link_target = std::string(kMaxTreePathBytes + 1, 't');
  expect_too_much(bad);
  bad = File("f", kMaxExtentCount);
  bad.node.size_bytes = 2 * kMaxExtentCount + 2;
  bad.node.sparse = true;
  for (std::uint64_t number = 0; number < kMaxExtentCount; ++number) {
    bad.node.extents.push_back({2 * number, 1});
  }
  EXPECT_TRUE(FitsTree(bad, kDigestBytes));
  EXPECT_TRUE(Decode(Encode({bad}), 4096).second.ok());
  bad.node.extents.push_back({2 * kMaxExtentCount, 1});
  bad.recipe.front().length_bytes += 1;
  expect_too_much(bad);
  bad = File("f", 1);
  for (int number = 0; number < 1025; ++number) {
    bad.node.xattrs.push_back({Cat("user.", 10000 + number), std::string(64 << 10, 'v')});
  }
  expect_too_much(bad);
}

TEST(TreeCodecTest, SourceErrorsComeThrough) {
  TreeReader reader(
      []() -> absl::StatusOr<std::span<const std::uint8_t>> {
        return absl::NotFoundError("no pack holds it");
      },
      kDigestBytes);
  TreeEntry entry;
  EXPECT_TRUE(absl::IsNotFound(reader.Next(entry).status()));
}

TEST(IdentityCodecTest, ReadsWhatWasWritten) {
  const std::vector<NodeIdentity> identities = {{1, 2, {3, 4}},
                                                {UINT64_MAX, UINT64_MAX, {INT64_MIN, 999'999'999}}};
  std::vector<std::uint8_t> stream;
  for (const NodeIdentity& identity : identities) EncodeIdentity(identity, stream);
  IdentityReader reader(InPieces(stream, 5));
  NodeIdentity read;
  for (const NodeIdentity& identity : identities) {
    EXPECT_TRUE(*reader.Next(read));
    EXPECT_EQ(read, identity);
  }
  EXPECT_FALSE(*reader.Next(read));
  stream.pop_back();
  IdentityReader cut(InPieces(stream, 5));
  EXPECT_TRUE(*cut.Next(read));
  EXPECT_TRUE(absl::IsDataLoss(cut.Next(read).status()));
}

}  // namespace
}  // namespace kerf::agent
