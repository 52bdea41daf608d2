#include "client/store/parity/parity_setting.h"

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/framed_file.h"
#include "client/store/format/pack_files.h"
#include "client/store/parity/parity_layout.h"

namespace kerf::agent {
namespace {

constexpr std::string_view kFolder = "/parity";
constexpr std::uint64_t kMaxSettingBytes = 4096;

absl::Status AdviseToSetAgain(const absl::Status& status, std::string_view store_directory) {
  if (!absl::IsDataLoss(status) && !absl::IsOutOfRange(status)) return status;
  return absl::DataLossError(Cat(MessageOf(status), ": how much parity packs get is not known; ",
                                 "`kerf parity --store ", store_directory,
                                 " --percent N` says it again"));
}

// There was a setting before there was parity, and whoever removes that for good removes the folder
// or leaves a setting of 0. Without this a store would keep no parity from then on, in silence.
absl::Status CheckNoneIsThere(const std::string& setting_path, std::string_view store_directory) {
  const absl::StatusOr<std::vector<PackId>> with_parity =
      ListPackFiles(ParityDirectory(store_directory), kParitySuffix);
  if (absl::IsNotFound(with_parity.status())) return absl::OkStatus();
  KERF_RETURN_IF_ERROR(with_parity.status());
  if (with_parity->empty()) return absl::OkStatus();
  return AdviseToSetAgain(absl::DataLossError(Cat(setting_path, " is gone, and there is parity")),
                          store_directory);
}

}  // namespace

std::string ParityDirectory(std::string_view store_directory) {
  return Cat(store_directory, kFolder);
}

std::string ParitySettingPath(std::string_view store_directory) {
  return Cat(store_directory, kFolder, "/setting");
}

std::string ParityPath(std::string_view store_directory, const PackId& id) {
  return PackFilePath(ParityDirectory(store_directory), id, kParitySuffix);
}

std::string ParityPathOf(const std::string& pack_path) {
  const std::string folder = DirectoryOf(pack_path);
  const std::string store_directory = DirectoryOf(DirectoryOf(folder));
  const std::string name = pack_path.substr(folder.size(), pack_path.rfind('.') - folder.size());
  return Cat(ParityDirectory(store_directory), folder.substr(folder.rfind('/')), name,
             kParitySuffix);
}

absl::StatusOr<unsigned> ReadParityPercent(std::string_view store_directory) {
  const std::string path = ParitySettingPath(store_directory);
  const absl::StatusOr<std::string> text =
      ReadFramedFile(path, kParitySettingMagic, kMaxSettingBytes);
  if (absl::IsNotFound(text.status())) {
    KERF_RETURN_IF_ERROR(CheckNoneIsThere(path, store_directory));
    return 0;
  }
  if (!text.ok()) return AdviseToSetAgain(text.status(), store_directory);
  unsigned percent = 0;
  if (!absl::SimpleAtoi(*text, &percent) || percent > kMaxParityPercent) {
    return AdviseToSetAgain(absl::DataLossError(Cat(path, ": '", *text, "' is no percentage")),
                            store_directory);
  }
  return percent;
}

absl::Status WriteParityPercent(const std::string& store_directory, unsigned percent) {
  KERF_CHECK(percent <= kMaxParityPercent);
  KERF_RETURN_IF_ERROR(MakeDirectory(ParityDirectory(store_directory)));
  KERF_RETURN_IF_ERROR(SyncDirectory(store_directory));
  return WriteFileDurably(ParitySettingPath(store_directory), Cat(store_directory, "/tmp"),
                          EncodeFramed(kParitySettingMagic, Cat(percent)));
}

}  // namespace kerf::agent
