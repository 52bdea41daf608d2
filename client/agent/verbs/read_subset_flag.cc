#include "client/agent/verbs/read_subset_flag.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/cli/duration.h"
#include "client/store/format/durable_file.h"
#include "client/store/snapshots/store_memory.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {
namespace {

constexpr std::uint64_t kMaxParts = 1'000'000;
constexpr std::uint64_t kMaxStateBytes = 64 * 1024;
constexpr std::size_t kStateNameBytes = 16;

std::optional<ReadSubset> ParsePart(std::string_view text) {
  const std::size_t slash = text.find('/');
  ReadSubset subset;
  if (slash == std::string_view::npos ||
      !absl::SimpleAtoi(ToAbsl(text.substr(0, slash)), &subset.part) ||
      !absl::SimpleAtoi(ToAbsl(text.substr(slash + 1)), &subset.part_count) || subset.part == 0 ||
      subset.part > subset.part_count || subset.part_count > kMaxParts) {
    return std::nullopt;
  }
  return subset;
}

}  // namespace

absl::StatusOr<ReadSubset> ParseReadSubset(std::string_view text) {
  if (const std::optional<ReadSubset> part = ParsePart(text)) return *part;
  ReadSubset subset;
  if (const auto time = ParseDuration(text); time.ok() && time->count() > 0) {
    subset.max_time = *time;
    return subset;
  }
  if (const auto size = ParseByteSize(text); size.ok() && *size > 0) {
    subset.max_bytes = *size;
    return subset;
  }
  return absl::InvalidArgumentError(
      Cat("'", text,
          "' is no part of a store: write 2/7 for the second of seven parts, a size as 20G, or a "
          "time as 90m"));
}

std::string VerifyStatePath(std::string_view repository) {
  // The store's word for itself may be anything.
  const Digest name =
      Fingerprint(DigestAlgorithm::kBlake3,
                  {reinterpret_cast<const std::uint8_t*>(repository.data()), repository.size()});
  const std::string stores = StoreMemory::UsualDirectory();
  if (stores.empty()) return "";
  return Cat(DirectoryOf(stores), "/verify/", DigestToHex(name, kStateNameBytes), ".json");
}

absl::StatusOr<VerifyState> ReadVerifyState(const std::string& path) {
  const absl::StatusOr<std::vector<std::uint8_t>> bytes = ReadWholeFile(path, kMaxStateBytes);
  if (absl::IsNotFound(bytes.status())) return VerifyState();
  if (!bytes.ok()) return bytes.status();
  const auto object = nlohmann::json::parse(*bytes, nullptr, /*allow_exceptions=*/false);
  VerifyState state;
  const auto number = [&object](const char* key, std::int64_t& value) {
    if (!object.contains(key) || !object[key].is_number_integer()) return false;
    value = object[key].get<std::int64_t>();
    return true;
  };
  if (object.is_object() && object.contains("read_up_to") && object["read_up_to"].is_string() &&
      number("round_started_unix_ns", state.round_started_unix_ns) &&
      number("round_finished_unix_ns", state.round_finished_unix_ns)) {
    state.read_up_to = ParsePackId(object["read_up_to"].get<std::string>());
    if (state.read_up_to.has_value()) return state;
  }
  return absl::DataLossError(Cat(path, ": it does not say where the last verification has ended"));
}

absl::Status WriteVerifyState(const std::string& path, const VerifyState& state) {
  const std::string folder = DirectoryOf(path);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), folder);
  const nlohmann::json object = {
      {"read_up_to", state.read_up_to.has_value() ? PackIdToHex(*state.read_up_to) : ""},
      {"round_started_unix_ns", state.round_started_unix_ns},
      {"round_finished_unix_ns", state.round_finished_unix_ns}};
  const std::string text = object.dump() + "\n";
  return WriteFileDurably(path, folder,
                          {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

}  // namespace kerf::agent
