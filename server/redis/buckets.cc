#include "server/redis/buckets.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/codec.h"
#include "server/index/epoch_fence.h"
#include "server/index/rules.h"

namespace kerf {
namespace {

constexpr std::size_t kTagLetters = 16;
// base64url: no letter of it means anything to Redis.
constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

bool BitOf(const Digest& digest, int bit) {
  const auto at = static_cast<std::size_t>(bit);
  return (digest.bytes[at / 8] >> (7 - at % 8) & 1) != 0;
}

// What the call has come to think of each digest, and what it found.
struct Field {
  std::string expected;
  std::string wanted;
};
using Fields = std::map<Digest, Field>;

Fields FieldsOf(const BucketContent& content, std::span<const IndexEntry> entries) {
  KERF_CHECK(content.values.size() == entries.size());
  Fields fields;
  for (std::size_t index = 0; index < entries.size(); ++index) {
    fields.try_emplace(entries[index].digest, Field{content.values[index], content.values[index]});
  }
  return fields;
}

std::vector<FieldChange> ChangesOf(const RepositoryId& repository, const Fields& fields) {
  std::vector<FieldChange> changes;
  for (const auto& [digest, field] : fields) {
    changes.push_back(
        {std::string(index_codec::DigestKey(repository, digest)), field.expected, field.wanted});
  }
  return changes;
}

}  // namespace

std::string RedisTagOf(const RepositoryId& repository) {
  const std::string text =
      Cat(repository.name, "\n", DigestAlgorithmName(repository.digest_algorithm));
  const Digest digest = Fingerprint(
      DigestAlgorithm::kSha256, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  std::string tag;
  for (std::size_t letter = 0; letter < kTagLetters; ++letter) {
    unsigned value = 0;
    for (int bit = 0; bit < 6; ++bit) {
      value = value << 1 | (BitOf(digest, static_cast<int>(letter) * 6 + bit) ? 1u : 0u);
    }
    tag.push_back(kLetters[value]);
  }
  return tag;
}

std::string MetaKey(std::string_view tag) { return Cat("m:{", tag, "}"); }

std::string BucketKey(std::string_view tag, std::uint32_t base, std::string_view path) {
  return Cat("k:{", tag, ":", base, "}", path);
}

std::string LongestPathKey(std::string_view tag, std::uint32_t base) {
  return Cat("p:{", tag, ":", base, "}");
}

std::string HeadKey(std::string_view tag, std::uint32_t base) {
  return Cat("m:{", tag, ":", base, "}");
}

std::uint32_t BaseOf(const Digest& digest, int base_bits) {
  std::uint32_t base = 0;
  for (int bit = 0; bit < base_bits; ++bit) base = base << 1 | (BitOf(digest, bit) ? 1u : 0u);
  return base;
}

Digest LastOf(const RepositoryId& repository, std::uint32_t base, int base_bits) {
  Digest last;
  for (std::size_t at = 0; at < DigestSizeBytes(repository.digest_algorithm); ++at) {
    last.bytes[at] = 0xFF;
  }
  for (int bit = 0; bit < base_bits; ++bit) {
    if ((base >> (base_bits - 1 - bit) & 1) != 0) continue;
    last.bytes[static_cast<std::size_t>(bit / 8)] &= static_cast<std::uint8_t>(~(0x80 >> bit % 8));
  }
  return last;
}

std::string PathOf(const Digest& digest, int base_bits, int path_bits) {
  std::string path;
  for (int bit = 0; bit < path_bits; ++bit) {
    path.push_back(BitOf(digest, base_bits + bit) ? '1' : '0');
  }
  return path;
}

std::vector<std::string> PathsBelow(const std::string& path, int bits) {
  std::vector<std::string> paths = {path};
  for (int bit = 0; bit < bits; ++bit) {
    std::vector<std::string> longer;
    longer.reserve(2 * paths.size());
    for (const std::string& shorter : paths) {
      longer.push_back(shorter + '0');
      longer.push_back(shorter + '1');
    }
    paths = std::move(longer);
  }
  return paths;
}

int FirstPathBits(std::uint64_t entry_count, int base_bits) {
  int bits = 0;
  while (bits < kMaxFirstPathBits &&
         entry_count >> (base_bits + bits) > kMaxBucketEntries * 3 / 4) {
    ++bits;
  }
  return bits;
}

absl::StatusOr<BucketHead> ParseHead(std::string value) {
  BucketHead head;
  if (value.empty()) return head;
  KERF_ASSIGN_OR_RETURN(const index_codec::EpochValue epoch, index_codec::ParseEpoch(value));
  head.value = std::move(value);
  head.epoch = epoch.epoch;
  head.lost_count = epoch.removed_count;
  return head;
}

std::string EncodeHead(std::uint64_t epoch) { return index_codec::EncodeEpoch({epoch, 0}); }

std::string WithLoss(const BucketHead& head) {
  return head.is_there() ? index_codec::EncodeEpoch({head.epoch, head.lost_count + 1}) : "";
}

absl::Status SetEpoch(BucketContent& content, const std::string& value) {
  content.follows = index_codec::IsFollowing(value);
  KERF_ASSIGN_OR_RETURN(
      const index_codec::EpochValue epoch,
      content.follows ? index_codec::ParseFollowing(value) : index_codec::ParseEpoch(value));
  content.epoch_value = value;
  content.epoch = epoch.epoch;
  content.removed_count = epoch.removed_count;
  return absl::OkStatus();
}

std::uint64_t FenceOf(const BucketContent& content) {
  if (!content.is_there()) {
    return content.has_head() ? content.head->epoch : content.epoch_without;
  }
  if (content.has_head()) return std::max(content.epoch, content.head->epoch);
  // One whose head is lost.
  return content.follows ? std::max(content.epoch, content.epoch_without) : content.epoch;
}

std::uint64_t BelievedEpochOf(const BucketContent& content) {
  // One of the older form below a head has come back alone.
  if (!content.follows || !content.has_head()) return content.epoch;
  return std::max(content.epoch, content.head->epoch);
}

std::uint64_t EpochToAnswer(const BucketContent& content) {
  if (!content.is_there()) return content.has_head() ? 0 : content.epoch_without;
  if (content.follows) {
    return content.has_head() ? content.head->epoch_to_answer() : content.epoch_without;
  }
  return content.has_head() ? std::min(content.epoch, content.head->epoch_to_answer())
                            : content.epoch;
}

std::uint64_t RemovedSince(const BucketContent& content) {
  const bool is_behind =
      content.follows && content.has_head() && content.epoch < content.head->epoch;
  return is_behind ? 0 : content.removed_count;
}

absl::StatusOr<bool> IsInDoubt(const BucketContent& content, std::uint64_t session_epoch) {
  if (!content.is_there() || !content.follows || session_epoch <= content.epoch) return false;
  if (session_epoch - content.epoch > index_rules::kMaxEpochStep) return true;
  for (const std::string& value : content.values) {
    if (value.empty()) continue;
    KERF_ASSIGN_OR_RETURN(const index_codec::EntryValue entry, index_codec::ParseEntry(value));
    if (entry.epoch < session_epoch) return true;
  }
  return false;
}

absl::StatusOr<LookupResult> LookupIn(const BucketContent& content, std::size_t index,
                                      std::uint64_t session_epoch) {
  const std::uint64_t fence = FenceOf(content);
  KERF_RETURN_IF_ERROR(index_rules::CheckNotAhead(session_epoch, fence));
  LookupResult result;
  result.repository_epoch = index_rules::EpochToTell(fence);
  if (content.values[index].empty()) return result;
  KERF_ASSIGN_OR_RETURN(const index_codec::EntryValue value,
                        index_codec::ParseEntry(content.values[index]));
  result.verdict = index_rules::VerdictOf(value.epoch, content.epoch, session_epoch);
  result.length_bytes = value.length_bytes;
  result.locator = std::string(value.locator);
  return result;
}

absl::StatusOr<std::vector<FieldChange>> PlanBucketCommit(const RepositoryId& repository,
                                                          const BucketContent& content,
                                                          std::uint64_t session_epoch,
                                                          std::span<const IndexEntry> entries,
                                                          bool replace) {
  KERF_RETURN_IF_ERROR(CheckSessionEpoch(session_epoch, FenceOf(content)));
  Fields fields = FieldsOf(content, entries);
  for (const IndexEntry& entry : entries) {
    Field& field = fields.at(entry.digest);
    std::optional<std::uint64_t> held_epoch;
    if (!field.wanted.empty()) {
      KERF_ASSIGN_OR_RETURN(const index_codec::EntryValue held,
                            index_codec::ParseEntry(field.wanted));
      held_epoch = held.epoch;
    }
    const std::optional<std::uint64_t> epoch =
        index_rules::EpochToWrite(held_epoch, BelievedEpochOf(content), session_epoch, replace);
    if (!epoch.has_value()) continue;
    field.wanted = index_codec::EncodeEntry({*epoch, entry.length_bytes, entry.locator});
  }
  return ChangesOf(repository, fields);
}

absl::StatusOr<std::vector<FieldChange>> PlanBucketForget(const RepositoryId& repository,
                                                          const BucketContent& content,
                                                          std::span<const IndexEntry> entries) {
  Fields fields = FieldsOf(content, entries);
  for (const IndexEntry& entry : entries) {
    Field& field = fields.at(entry.digest);
    if (field.wanted.empty()) continue;
    KERF_ASSIGN_OR_RETURN(const index_codec::EntryValue held,
                          index_codec::ParseEntry(field.wanted));
    if (index_rules::IsForgotten(held.locator, entry.locator)) field.wanted.clear();
  }
  return ChangesOf(repository, fields);
}

absl::StatusOr<std::vector<FieldChange>> PlanBucketForgetOlder(const BucketContent& content,
                                                               std::span<const std::string> fields,
                                                               std::uint64_t epoch) {
  KERF_CHECK(content.values.size() == fields.size());
  KERF_RETURN_IF_ERROR(index_rules::CheckNotAhead(epoch, FenceOf(content)));
  std::vector<FieldChange> changes;
  for (std::size_t index = 0; index < fields.size(); ++index) {
    KERF_ASSIGN_OR_RETURN(const index_codec::EntryValue held,
                          index_codec::ParseEntry(content.values[index]));
    if (!index_rules::IsOlder(held.epoch, epoch)) continue;
    changes.push_back({fields[index], content.values[index], ""});
  }
  return changes;
}

absl::StatusOr<std::vector<FieldChange>> PlanBucketReset(const BucketContent& content,
                                                         std::span<const std::string> fields,
                                                         std::uint64_t epoch) {
  KERF_CHECK(content.values.size() == fields.size());
  std::vector<FieldChange> changes;
  for (std::size_t index = 0; index < fields.size(); ++index) {
    KERF_ASSIGN_OR_RETURN(index_codec::EntryValue value,
                          index_codec::ParseEntry(content.values[index]));
    if (index_rules::EpochAfterReset(value.epoch, epoch) == value.epoch) continue;
    value.epoch = epoch;
    changes.push_back({fields[index], content.values[index], index_codec::EncodeEntry(value)});
  }
  return changes;
}

std::uint64_t RemovedBy(std::span<const FieldChange> changes) {
  return static_cast<std::uint64_t>(std::count_if(
      changes.begin(), changes.end(),
      [](const FieldChange& change) { return change.is_change() && change.wanted.empty(); }));
}

bool AreAnyChanges(std::span<const FieldChange> changes) {
  return std::any_of(changes.begin(), changes.end(), std::mem_fn(&FieldChange::is_change));
}

std::string EpochToRejoin(const BucketContent& content, std::span<const FieldChange> changes) {
  // One that is behind may lack what was removed since: that is one removal more.
  const std::uint64_t unknown_count = content.epoch < FenceOf(content) ? 1 : 0;
  return index_codec::EncodeFollowing(
      {FenceOf(content), content.removed_count + RemovedBy(changes) + unknown_count});
}

std::pair<std::string, std::string> EpochChange(const BucketContent& content,
                                                std::span<const FieldChange> changes) {
  const std::string before = content.epoch_value.value_or("");
  const std::uint64_t removed_count = RemovedSince(content) + RemovedBy(changes);
  if (!content.is_there() && !content.has_head() && !content.makes_head) {
    return {before, index_codec::EncodeEpoch({content.epoch_without, 0})};
  }
  const bool is_alone = content.is_there() && !content.has_head();
  if (content.is_there() && (!content.follows || (is_alone && AreAnyChanges(changes)))) {
    return {before, index_codec::EncodeEpoch({content.epoch, removed_count})};
  }
  const std::uint64_t epoch = is_alone ? content.epoch : FenceOf(content);
  return {before, index_codec::EncodeFollowing({epoch, removed_count})};
}

std::pair<std::string, std::string> HeadChange(const BucketContent& content) {
  if (content.makes_head) return {"", EncodeHead(content.epoch_without)};
  if (!content.has_head()) return {"", ""};
  const BucketHead& head = *content.head;
  if (content.is_there()) return {head.value, head.value};
  return {head.value, WithLoss(head)};
}

}  // namespace kerf
