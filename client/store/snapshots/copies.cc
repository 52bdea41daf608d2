#include "client/store/snapshots/copies.h"

#include <algorithm>
#include <span>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/framed_file.h"

namespace kerf::agent {
namespace {

constexpr std::uint64_t kMaxConfigBytes = 64 * 1024;
constexpr int kDigestAlgorithmCount = 3;

absl::StatusOr<store::v1::StoreConfig> ReadConfigFile(const std::string& path) {
  KERF_ASSIGN_OR_RETURN(const std::string payload,
                        ReadFramedFile(path, kConfigMagic, kMaxConfigBytes));
  store::v1::StoreConfig config;
  if (!config.ParseFromString(payload) || config.id().empty() || config.digest_algorithm() < 1 ||
      config.digest_algorithm() > kDigestAlgorithmCount) {
    return absl::DataLossError(Cat(path, ": it is no configuration of a store"));
  }
  return config;
}

absl::StatusOr<std::uint64_t> ReadEpochFile(const std::string& path) {
  KERF_ASSIGN_OR_RETURN(const std::string text, ReadFramedFile(path, kEpochMagic, kMaxConfigBytes));
  std::uint64_t epoch = 0;
  if (!absl::SimpleAtoi(text, &epoch) || epoch == 0) {
    return absl::DataLossError(Cat(path, ": it is no epoch"));
  }
  return epoch;
}

// A newer kerf's, or one that this user may not read: the other copy must not be taken instead.
bool ForbidsTheOther(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status);
}

// Of neither copy being of use: says how to mend it.
absl::Status BothUseless(const absl::Status& first, const absl::Status& copy) {
  for (const absl::Status& status : {first, copy}) {
    if (absl::IsNotFound(status) || absl::IsDataLoss(status)) continue;
    if (absl::IsPermissionDenied(status)) return status;
    // What a disk or a server does not give today, it may tomorrow: nothing is known to be lost.
    return Annotate(status, "no copy can be read, run it again; `kerf repair` if it stays so");
  }
  const absl::Status& status = absl::IsNotFound(first) && !absl::IsNotFound(copy) ? copy : first;
  const std::string text =
      Cat(MessageOf(status), ", and there is no other copy of use: `kerf repair` makes it anew");
  return absl::DataLossError(ToAbsl(text));
}

template <typename T>
void AddFlaw(const absl::StatusOr<T>& file, const std::string& path, bool may_be_gone,
             std::vector<StoreFlaw>& flaws) {
  if (file.ok() || (may_be_gone && absl::IsNotFound(file.status()))) return;
  const std::string text =
      Cat(MessageOf(file.status()), " (its copy is used; `kerf repair` mends", " it)");
  flaws.push_back({path, {absl::StatusCode::kDataLoss, ToAbsl(text)}});
}

// Durable on return; a file that is there already stays.
absl::Status AddFile(const std::string& path, const std::string& temporary_directory,
                     std::span<const std::uint8_t> bytes) {
  const std::string temporary = Cat(temporary_directory, "/new-", RandomHex());
  KERF_RETURN_IF_ERROR(WriteFileDurably(temporary, temporary_directory, bytes));
  const absl::Status status = PublishUnlessThere(temporary, path);
  RemoveFile(temporary).IgnoreError();
  return status;
}

std::vector<std::uint8_t> Encode(const store::v1::StoreConfig& config) {
  return EncodeFramed(kConfigMagic, config.SerializeAsString());
}
std::vector<std::uint8_t> Encode(std::uint64_t epoch) {
  return EncodeFramed(kEpochMagic, Cat(epoch));
}

}  // namespace

std::string ConfigPath(std::string_view directory) { return Cat(directory, "/config"); }
std::string EpochPath(std::string_view directory) { return Cat(directory, "/epoch"); }
std::string CopiesDirectory(std::string_view directory) { return Cat(directory, "/copies"); }
std::string ConfigCopyPath(std::string_view directory) { return Cat(directory, "/copies/config"); }
std::string EpochCopyPath(std::string_view directory) { return Cat(directory, "/copies/epoch"); }

ConfigCopies ReadConfigCopies(const std::string& directory) {
  return {ReadConfigFile(ConfigPath(directory)), ReadConfigFile(ConfigCopyPath(directory))};
}

EpochCopies ReadEpochCopies(const std::string& directory) {
  return {ReadEpochFile(EpochPath(directory)), ReadEpochFile(EpochCopyPath(directory))};
}

absl::StatusOr<store::v1::StoreConfig> ChooseConfig(const ConfigCopies& copies) {
  if (copies.config.ok() && absl::IsFailedPrecondition(copies.copy.status())) {
    return copies.copy.status();
  }
  if (copies.config.ok() || ForbidsTheOther(copies.config.status())) return copies.config;
  if (copies.copy.ok() || ForbidsTheOther(copies.copy.status())) return copies.copy;
  if (absl::IsNotFound(copies.config.status()) && absl::IsNotFound(copies.copy.status())) {
    return copies.config;
  }
  return BothUseless(copies.config.status(), copies.copy.status());
}

absl::StatusOr<std::uint64_t> ChooseEpoch(const EpochCopies& copies) {
  for (const absl::StatusOr<std::uint64_t>* epoch : {&copies.epoch, &copies.copy}) {
    if (ForbidsTheOther(epoch->status())) return *epoch;
  }
  if (copies.epoch.ok() && copies.copy.ok()) return std::max(*copies.epoch, *copies.copy);
  if (copies.epoch.ok()) return copies.epoch;
  if (copies.copy.ok()) return copies.copy;
  return BothUseless(copies.epoch.status(), copies.copy.status());
}

std::vector<StoreFlaw> FlawsOf(const std::string& directory, const ConfigCopies& configs,
                               const EpochCopies& epochs) {
  std::vector<StoreFlaw> flaws;
  AddFlaw(configs.config, ConfigPath(directory), false, flaws);
  AddFlaw(configs.copy, ConfigCopyPath(directory), true, flaws);
  AddFlaw(epochs.epoch, EpochPath(directory), false, flaws);
  AddFlaw(epochs.copy, EpochCopyPath(directory), true, flaws);
  if (configs.config.ok() && configs.copy.ok() &&
      configs.config->SerializeAsString() != configs.copy->SerializeAsString()) {
    flaws.push_back({ConfigCopyPath(directory),
                     absl::DataLossError(Cat(ConfigCopyPath(directory), ": it is another one than ",
                                             ConfigPath(directory),
                                             ", which is used; `kerf repair` tells more"))});
  }
  return flaws;
}

absl::Status WriteConfigFile(const std::string& path, const std::string& temporary_directory,
                             const store::v1::StoreConfig& config) {
  return WriteFileDurably(path, temporary_directory, Encode(config));
}

absl::Status WriteEpochFile(const std::string& path, const std::string& temporary_directory,
                            std::uint64_t epoch) {
  return WriteFileDurably(path, temporary_directory, Encode(epoch));
}

absl::Status AddConfigFile(const std::string& path, const std::string& temporary_directory,
                           const store::v1::StoreConfig& config) {
  return AddFile(path, temporary_directory, Encode(config));
}

absl::Status AddEpochFile(const std::string& path, const std::string& temporary_directory,
                          std::uint64_t epoch) {
  return AddFile(path, temporary_directory, Encode(epoch));
}

}  // namespace kerf::agent
