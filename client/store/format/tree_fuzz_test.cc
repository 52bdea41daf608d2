// Any bytes as a tree stream and as an identity stream: what is accepted is valid and encodes to a
// stream that reads the same.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "client/fs/path.h"
#include "client/store/format/tree_codec.h"
#include "client/store/testing/edits.h"

namespace {

constexpr std::size_t kDigestBytes = 16;

kerf::agent::StreamSource InPieces(std::span<const std::uint8_t> bytes, std::size_t piece_bytes) {
  return [bytes, piece_bytes]() mutable -> absl::StatusOr<std::span<const std::uint8_t>> {
    const auto piece = bytes.first(std::min(piece_bytes, bytes.size()));
    bytes = bytes.subspan(piece.size());
    return piece;
  };
}

std::vector<kerf::agent::TreeEntry> ReadEntries(std::span<const std::uint8_t> bytes,
                                                std::size_t piece_bytes) {
  kerf::agent::TreeReader reader(InPieces(bytes, piece_bytes), kDigestBytes);
  std::vector<kerf::agent::TreeEntry> entries;
  kerf::agent::TreeEntry entry;
  while (true) {
    const auto more = reader.Next(entry);
    if (!more.ok() || !*more) return entries;
    entries.push_back(entry);
  }
}

std::vector<std::uint8_t> Sample() {
  std::vector<std::uint8_t> stream;
  kerf::agent::TreeEntry entry;
  entry.node.path = "d";
  entry.node.kind = kerf::agent::NodeKind::kDirectory;
  entry.node.mode = 0755;
  entry.node.user = "someone";
  entry.node.xattrs = {{"user.a", "1"}, {"user.b", ""}};
  kerf::agent::EncodeTreeEntry(entry, kDigestBytes, stream);
  entry.node.kind = kerf::agent::NodeKind::kFile;
  entry.node.path = "d/f";
  entry.node.size_bytes = 300;
  entry.recipe = {{kerf::Digest(), 200}, {kerf::Digest(), 100}};
  kerf::agent::EncodeTreeEntry(entry, kDigestBytes, stream);
  entry.node.path = "d/g";
  entry.node.sparse = true;
  entry.node.extents = {{0, 100}, {150, 150}};
  entry.recipe = {{kerf::Digest(), 250}};
  kerf::agent::EncodeTreeEntry(entry, kDigestBytes, stream);
  entry = {};
  entry.node.path = "d/h";
  entry.node.hard_link_to = "d/f";
  kerf::agent::EncodeTreeEntry(entry, kDigestBytes, stream);
  entry = {};
  entry.node.path = "l";
  entry.node.kind = kerf::agent::NodeKind::kSymlink;
  entry.node.link_target = "d";
  kerf::agent::EncodeTreeEntry(entry, kDigestBytes, stream);
  return stream;
}

std::size_t Try(std::span<const std::uint8_t> bytes) {
  const std::vector<kerf::agent::TreeEntry> entries = ReadEntries(bytes, 4096);
  std::vector<std::uint8_t> again;
  for (std::size_t index = 0; index < entries.size(); ++index) {
    const kerf::agent::Node& node = entries[index].node;
    KERF_CHECK(!node.path.empty() && node.path.front() != '/');
    KERF_CHECK(index == 0 ||
               kerf::agent::ComparePaths(entries[index - 1].node.path, node.path) < 0);
    kerf::agent::EncodeTreeEntry(entries[index], kDigestBytes, again);
  }
  KERF_CHECK(ReadEntries(again, 7) == entries);
  return entries.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  static const std::vector<std::uint8_t> sample = Sample();
  static const std::size_t sample_entry_count = Try(sample);
  KERF_CHECK(sample_entry_count == 5);
  (void)Try(bytes);
  (void)Try(kerf::agent::ApplyEdits(sample, bytes));

  kerf::agent::IdentityReader identities(InPieces(bytes, 5));
  kerf::agent::NodeIdentity identity;
  while (true) {
    const auto more = identities.Next(identity);
    if (!more.ok() || !*more) return 0;
  }
}
