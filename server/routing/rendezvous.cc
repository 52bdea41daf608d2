#include "server/routing/rendezvous.h"

#include "kernels/fingerprint/xxh3.h"

namespace kerf::routing {
namespace {

std::uint64_t HashOf(std::string_view text) {
  return Xxh3Of64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

// The key and its zero byte.
std::string Prefix(std::string_view shard_key) {
  std::string text(shard_key);
  text.push_back('\0');
  return text;
}

}  // namespace

std::uint64_t RendezvousScore(std::string_view shard_key, std::string_view member) {
  return HashOf(Prefix(shard_key).append(member));
}

std::optional<std::size_t> PickMember(std::string_view shard_key,
                                      std::span<const std::string> members) {
  std::string text = Prefix(shard_key);
  const std::size_t prefix_size = text.size();
  std::optional<std::size_t> best;
  std::uint64_t best_score = 0;
  for (std::size_t index = 0; index < members.size(); ++index) {
    text.resize(prefix_size);
    text += members[index];
    const std::uint64_t score = HashOf(text);
    const bool wins = !best.has_value() || score > best_score ||
                      (score == best_score && members[index] < members[*best]);
    if (!wins) continue;
    best = index;
    best_score = score;
  }
  return best;
}

}  // namespace kerf::routing
