#include "server/hints/hint_settings.h"

namespace kerf {
namespace {

constexpr std::string_view kAutomatic = "auto";
constexpr std::uint64_t kRemoteMemoryBytes = 64 * kMiB;

absl::StatusOr<std::optional<std::uint64_t>> ParseMemory(std::string_view text) {
  if (text == kAutomatic) return std::optional<std::uint64_t>();
  const auto bytes = ParseByteSize(text);
  if (!bytes.ok()) return bytes.status();
  return std::optional(*bytes);
}

}  // namespace

void AddHintSettings(OptionSet& options, HintSettings& settings) {
  options.AddParsed(
      {"hint-memory",
       "For what is known of how files went on, so that they need not be scanned again, nor asked "
       "for chunk by chunk; 0: nothing is kept; auto: 64M with --redis, else 0 (worth it without "
       "Redis for profiles of rabin, crc and tttd)",
       "SIZE"},
      settings.memory_bytes, std::string(kAutomatic), ParseMemory);
  options.AddNumber(
      {"hint-sizes",
       "How many lengths of the chunk behind a chunk are remembered, the last one first, for "
       "profiles with a criterion (as fastcdc-8k+ff), in an eighth of --hint-memory; 0: none"},
      settings.max_sizes, 0, 4);
  options.AddSize({"hint-disk", "The same on disk, in DIR/hints of --data-dir"},
                  settings.disk_bytes);
  options.AddText(
      {"hint-key-file",
       "32 random bytes that all kerfd of one Redis share: with it they believe what the others "
       "have left there. Without it hints stay in this process; --data-dir has its own key",
       "FILE"},
      settings.key_file);
}

std::uint64_t MemoryBytesOf(const HintSettings& settings, bool is_index_remote) {
  return settings.memory_bytes.value_or(is_index_remote ? kRemoteMemoryBytes : 0);
}

}  // namespace kerf
