// A file of lines that hold each other: each one names the hash of the one before it and its own,
// so that nobody changes, removes or moves one without a trace. docs/spec/audit.md is the
// specification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kerf {

inline constexpr std::size_t kChainHashDigits = 64;
// With its end of line; no line that kerf writes is longer.
inline constexpr std::size_t kMaxChainLineBytes = 32 * 1024;
// Of what stands behind the last line, and is none, at most so much is what a crash has left.
inline constexpr std::size_t kMaxTornBytes = 256 * 1024;

// SHA-256, as 64 digits of [0-9a-f].
std::string ChainHashOf(std::string_view bytes);

// How far a chain has come.
struct ChainPoint {
  // Of the last line; the first one of a chain has 1.
  std::uint64_t seq = 0;
  // Of the last line; before the first one: zeros.
  std::string hash = std::string(kChainHashDigits, '0');

  friend bool operator==(const ChainPoint&, const ChainPoint&) = default;
};

// The line behind `last`, with its end of line; moves `last` to it. `members` are those of a JSON
// object, at least one, without its braces and in ASCII from ' ' to '~'.
std::string SealLine(std::string_view members, ChainPoint* last);

// What a line says; refers to it.
struct ChainLine {
  std::uint64_t seq = 0;
  std::string_view prev;
  std::string_view members;
  std::string_view hash;
  // Its hash is that of its bytes.
  bool is_intact = false;

  ChainPoint point() const { return {seq, std::string(hash)}; }
};

// `line` is without its end. Nothing: it is no line of a chain, or only a part of one.
std::optional<ChainLine> ReadChainLine(std::string_view line);

// What is told of bytes behind the last line that are none, in the line that follows them:
// members, and what they say.
struct TornTail {
  std::uint64_t size_bytes = 0;
  std::string hash;

  friend bool operator==(const TornTail&, const TornTail&) = default;
};
std::string TornTailMembers(const TornTail& tail);
std::optional<TornTail> ReadTornTail(std::string_view members);

// Whether the members are those with which a file begins.
bool BeginsChainFile(std::string_view members);
inline constexpr std::string_view kTornTailEvent = "torn";
inline constexpr std::string_view kFileEvent = "file";

}  // namespace kerf
