#include "server/redis/repository_state.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/index/codec.h"
#include "server/redis/answers.h"

namespace kerf {
namespace {

constexpr char kVersion[] = "version";
constexpr char kEpoch[] = "epoch";
constexpr char kNextEpoch[] = "next";
constexpr char kBegun[] = "begun";
constexpr char kTold[] = "told";
constexpr char kReset[] = "reset";
constexpr char kCreated[] = "created";

std::string VersionOf(RedisLayout layout) {
  return layout == RedisLayout::kNone ? "" : Cat(static_cast<int>(layout));
}

absl::StatusOr<std::uint64_t> EpochOf(const std::string& value) {
  return value.empty() ? 0 : index_codec::ParseNumber(value);
}

// What every rule depends on: nobody has told another epoch, or turned the repository into one of
// another layout.
std::vector<std::string> Unchanged(const RepositoryState& state) {
  const std::string version = VersionOf(state.layout);
  return {kVersion,
          version,
          version,
          kEpoch,
          state.epoch_value,
          state.epoch_value,
          kNextEpoch,
          state.next_epoch_value,
          state.next_epoch_value};
}

}  // namespace

const std::vector<std::string>& RepositoryStateFields() {
  static const auto* const kFields = new std::vector<std::string>{
      kVersion, "name", "base_bits", kEpoch, kNextEpoch, kBegun, kTold, kCreated, kReset};
  return *kFields;
}

absl::StatusOr<RepositoryState> ParseRepositoryState(const absl::StatusOr<RedisReply>& reply) {
  if (!IsArrayOf(reply, RepositoryStateFields().size())) {
    return NotUnderstood("reading a repository", reply);
  }
  const std::vector<RedisReply>& fields = reply->elements;
  RepositoryState state;
  state.created = fields[7].text;
  if (fields[0].kind == RedisReply::Kind::kNil) return state;
  int version = 0;
  if (!absl::SimpleAtoi(fields[0].text, &version) ||
      version < static_cast<int>(RedisLayout::kWhole) ||
      version > static_cast<int>(RedisLayout::kHeads)) {
    return absl::FailedPreconditionError(ToAbsl(
        Cat("the layout of repository '", fields[1].text, "' in Redis is of version ",
            fields[0].text, "; this kerfd knows versions ", static_cast<int>(RedisLayout::kWhole),
            " to ", static_cast<int>(RedisLayout::kHeads), ": a later one has made it")));
  }
  state.layout = static_cast<RedisLayout>(version);
  state.name = fields[1].text;
  state.base_bits = fields[2].text;
  if (!state.makes_when_needed()) return state;
  state.epoch_value = fields[3].text;
  state.next_epoch_value = fields[4].text;
  state.reset_epoch_value = fields[8].text;
  KERF_ASSIGN_OR_RETURN(state.epoch, EpochOf(state.epoch_value));
  KERF_ASSIGN_OR_RETURN(state.next_epoch, EpochOf(state.next_epoch_value));
  KERF_ASSIGN_OR_RETURN(state.reset_epoch, EpochOf(state.reset_epoch_value));
  state.begun = BaseSet(fields[5].text);
  state.told = BaseSet(fields[6].text);
  return state;
}

std::vector<std::string> BeginBases(const RepositoryState& state,
                                    const std::vector<std::uint32_t>& bases) {
  std::vector<std::string> change = {kVersion,   VersionOf(state.layout), kEpoch, state.epoch_value,
                                     kNextEpoch, state.next_epoch_value,  kBegun};
  for (const std::uint32_t base : bases) change.push_back(Cat(base));
  return change;
}

std::vector<std::string> BeginEpoch(const RepositoryState& state, std::uint64_t epoch) {
  std::vector<std::string> change = Unchanged(state);
  change.back() = index_codec::EncodeNumber(epoch);
  return change;
}

std::vector<std::string> EndEpoch(const RepositoryState& state, std::uint64_t epoch,
                                  const BaseSet& bases) {
  std::vector<std::string> change = Unchanged(state);
  change[5] = index_codec::EncodeNumber(epoch);
  change[8] = "";
  change.insert(change.end(), {kTold, state.told.bytes(), bases.bytes()});
  if (!state.reset_epoch_value.empty()) {
    change.insert(change.end(), {kReset, state.reset_epoch_value, ""});
  }
  return change;
}

std::vector<std::string> ResetTo(const RepositoryState& state, std::uint64_t epoch) {
  std::vector<std::string> change = Unchanged(state);
  change[5] = index_codec::EncodeNumber(epoch);
  change[8] = "";
  if (state.layout == RedisLayout::kHeads) {
    const std::uint64_t before = std::max(state.highest_epoch(), state.reset_epoch);
    change.insert(change.end(),
                  {kReset, state.reset_epoch_value, index_codec::EncodeNumber(before)});
  }
  return change;
}

std::vector<std::string> BecomeWhole(const RepositoryState& state) {
  std::vector<std::string> change = Unchanged(state);
  change[2] = VersionOf(RedisLayout::kWhole);
  return change;
}

}  // namespace kerf
