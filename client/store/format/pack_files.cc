#include "client/store/format/pack_files.h"

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {

std::string PackFilePath(std::string_view directory, const PackId& id, std::string_view suffix) {
  const std::string name = PackIdToHex(id);
  return Cat(directory, "/", name.substr(0, kPackFolderDigits), "/", name, suffix);
}

absl::StatusOr<std::vector<PackId>> ListPackFiles(const std::string& directory,
                                                  std::string_view suffix,
                                                  std::vector<UnlistedFolder>* unlisted) {
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> prefixes, ListDirectory(directory));
  std::vector<PackId> ids;
  for (const std::string& prefix : prefixes) {
    if (prefix.size() != kPackFolderDigits) continue;
    const std::string folder = Cat(directory, "/", prefix);
    const absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder);
    if (!names.ok() && unlisted == nullptr) return names.status();
    if (!names.ok()) {
      unlisted->push_back({folder, Annotate(names.status(), "a folder of packs cannot be listed")});
      continue;
    }
    for (const std::string_view name : *names) {
      if (!name.ends_with(suffix)) continue;
      if (const auto id = ParsePackId(name.substr(0, name.size() - suffix.size()))) {
        ids.push_back(*id);
      }
    }
  }
  return ids;
}

}  // namespace kerf::agent
