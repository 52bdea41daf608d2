// What scripts say of a head behind all else that they answer (KERF_LUA_HEAD in scripts.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "base/status.h"
#include "server/redis/answers.h"
#include "server/redis/buckets.h"

namespace kerf {

// Elements of the answer, its last ones.
inline constexpr std::size_t kHeadElements = 3;

struct SaidOfHead {
  BucketHead head;
  // Below it; 0 where there is none, or nothing was counted. Nothing: what is written there is no
  // count, and nobody knows how many there are until they are counted.
  std::optional<std::uint64_t> entry_count = 0;
  // Since its epoch was told. Where nobody knows how many, some.
  std::uint64_t removed_count = 0;
};

// Of an answer that is an array of so many elements at least. DataLoss where it is not understood.
inline absl::StatusOr<SaidOfHead> HeadSaid(const RedisReply& reply) {
  const auto said = reply.elements.end() - static_cast<std::ptrdiff_t>(kHeadElements);
  SaidOfHead of;
  KERF_ASSIGN_OR_RETURN(of.head, ParseHead(said[0].text));
  const auto count_in = [](const std::string& text) -> std::optional<std::uint64_t> {
    std::uint64_t count = 0;
    if (!text.empty() && !absl::SimpleAtoi(text, &count)) return std::nullopt;
    return count;
  };
  of.entry_count = count_in(said[1].text);
  of.removed_count = count_in(said[2].text).value_or(1);
  return of;
}

}  // namespace kerf
