#include "base/hash_chain.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "base/check.h"
#include "base/hex.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr std::string_view kSeq = "{\"seq\":";
constexpr std::string_view kPrev = ",\"prev\":\"";
constexpr std::string_view kAfterPrev = "\",";
constexpr std::string_view kHash = ",\"hash\":\"";
constexpr std::string_view kEnd = "\"}";
constexpr std::string_view kTornBytes = ",\"bytes\":";
constexpr std::string_view kTornHash = ",\"sha256\":\"";
// "18446744073709551615"
constexpr std::size_t kMaxNumberDigits = 20;

// In place of what stands before it; false: something else does.
bool Take(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool IsHash(std::string_view text) { return text.size() == kChainHashDigits && IsHex(text); }

std::optional<std::string_view> TakeHash(std::string_view* text) {
  const std::string_view hash = text->substr(0, kChainHashDigits);
  if (!IsHash(hash)) return std::nullopt;
  text->remove_prefix(hash.size());
  return hash;
}

// As it is written: without a leading zero.
std::optional<std::uint64_t> TakeNumber(std::string_view* text) {
  std::uint64_t number = 0;
  const char* const begin = text->data();
  const auto [end, error] =
      std::from_chars(begin, begin + std::min(text->size(), kMaxNumberDigits), number);
  const auto digits = static_cast<std::size_t>(end - begin);
  if (error != std::errc() || digits == 0 || text->front() == '0') return std::nullopt;
  text->remove_prefix(digits);
  return number;
}

// Behind the time, which is the first member of each line.
bool IsEvent(std::string_view members, std::string_view event) {
  const std::string wanted = Cat(",\"event\":\"", event, "\"");
  const std::size_t first = members.find(',');
  return first != std::string_view::npos && members.substr(first).starts_with(wanted);
}

}  // namespace

std::string ChainHashOf(std::string_view bytes) {
  // Kept for ever: to look for it costs more than to hash a line.
  static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  KERF_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, algorithm, nullptr) == 1);
  return HexOf(std::span(digest).first(size));
}

std::string SealLine(std::string_view members, ChainPoint* last) {
  std::string line = Cat(kSeq, last->seq + 1, kPrev, last->hash, kAfterPrev, members);
  *last = {last->seq + 1, ChainHashOf(line)};
  line += kHash;
  line += last->hash;
  line += kEnd;
  line += '\n';
  return line;
}

std::optional<ChainLine> ReadChainLine(std::string_view line) {
  ChainLine read;
  std::string_view rest = line;
  if (!Take(kSeq, &rest)) return std::nullopt;
  const auto seq = TakeNumber(&rest);
  if (!seq.has_value() || !Take(kPrev, &rest)) return std::nullopt;
  const auto prev = TakeHash(&rest);
  if (!prev.has_value() || !Take(kAfterPrev, &rest)) return std::nullopt;
  constexpr std::size_t kSealBytes = kHash.size() + kChainHashDigits + kEnd.size();
  if (rest.size() <= kSealBytes) return std::nullopt;
  read.members = rest.substr(0, rest.size() - kSealBytes);
  rest.remove_prefix(read.members.size());
  if (!Take(kHash, &rest)) return std::nullopt;
  const auto hash = TakeHash(&rest);
  if (!hash.has_value() || rest != kEnd) return std::nullopt;
  read.seq = *seq;
  read.prev = *prev;
  read.hash = *hash;
  read.is_intact = ChainHashOf(line.substr(0, line.size() - kSealBytes)) == read.hash;
  return read;
}

std::string TornTailMembers(const TornTail& tail) {
  return Cat("\"event\":\"", kTornTailEvent, "\"", kTornBytes, tail.size_bytes, kTornHash,
             tail.hash, "\"");
}

std::optional<TornTail> ReadTornTail(std::string_view members) {
  if (!IsEvent(members, kTornTailEvent)) return std::nullopt;
  const std::size_t place = members.find(kTornBytes);
  if (place == std::string_view::npos) return std::nullopt;
  std::string_view rest = members.substr(place + kTornBytes.size());
  const auto size_bytes = TakeNumber(&rest);
  if (!size_bytes.has_value() || !Take(kTornHash, &rest)) return std::nullopt;
  const auto hash = TakeHash(&rest);
  if (!hash.has_value()) return std::nullopt;
  return TornTail{*size_bytes, std::string(*hash)};
}

bool BeginsChainFile(std::string_view members) { return IsEvent(members, kFileEvent); }

}  // namespace kerf
