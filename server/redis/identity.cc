#include "server/redis/identity.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_split.h"
#include "base/hex.h"
#include "base/strings.h"

namespace kerf::redis {
namespace {

constexpr std::string_view kVersion = "1";
constexpr std::size_t kIdLetters = 32;

bool IsId(std::string_view text) { return text.size() == kIdLetters && IsHex(text); }

bool Has(const std::vector<std::string>& ids, const std::string& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

std::string FormatIdentity(const IndexIdentity& identity) {
  std::string text = Cat(kVersion, " ", identity.id);
  for (const std::string& id : identity.before) text += Cat(" ", id);
  return text;
}

absl::StatusOr<IndexIdentity> ParseIdentity(std::string_view text) {
  // One more than there may be is enough to refuse them.
  const std::vector<std::string> words =
      absl::StrSplit(ToAbsl(text), absl::MaxSplits(' ', kMaxIdsBefore + 2));
  const bool is_known = words.size() >= 2 && words.size() <= kMaxIdsBefore + 2 &&
                        words[0] == kVersion &&
                        std::all_of(words.begin() + 1, words.end(),
                                    [](const std::string& word) { return IsId(word); });
  if (!is_known) {
    return absl::FailedPreconditionError(
        "what names the index in Redis is of a later kerfd, or of nobody");
  }
  return IndexIdentity{words[1], {words.begin() + 2, words.end()}};
}

std::string DrawIndexId() {
  std::random_device device;
  std::string id;
  while (id.size() < kIdLetters) id.push_back(kHexDigits[device() % kHexDigits.size()]);
  return id;
}

IndexIdentity SuccessorOf(const IndexIdentity& gone, std::string id) {
  IndexIdentity identity{std::move(id), {}};
  if (gone.id.empty()) return identity;
  identity.before = {gone.id};
  for (const std::string& older : gone.before) {
    if (identity.before.size() < kMaxIdsBefore) identity.before.push_back(older);
  }
  return identity;
}

bool IsSameLine(const IndexIdentity& mine, const IndexIdentity& seen) {
  return mine.id == seen.id || Has(seen.before, mine.id) || Has(mine.before, seen.id);
}

}  // namespace kerf::redis
