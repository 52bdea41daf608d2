// Which worker has a shard key: rendezvous hashing, as docs/spec/routing.md writes it down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kerf::routing {

// How much the member wants the key: XXH3-64 (seed 0) of the key, a zero byte and the member's
// name. Neither may hold a zero byte.
std::uint64_t RendezvousScore(std::string_view shard_key, std::string_view member);

// The position of the member with the highest score; of equal scores the one whose name is smaller,
// byte by byte, and of equal names the first. Nothing if there are no members. The answer depends
// on nothing else, so all who know the same members agree, and a member that comes or goes takes
// with it its own keys only.
std::optional<std::size_t> PickMember(std::string_view shard_key,
                                      std::span<const std::string> members);

}  // namespace kerf::routing
