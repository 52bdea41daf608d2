// How a folder of the store has a file for each pack: XX/ID.SUFFIX, XX being the first two digits.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/pack_format.h"

namespace kerf::agent {

// `suffix` with its dot.
std::string PackFilePath(std::string_view directory, const PackId& id, std::string_view suffix);

// One of the folders XX that cannot be listed: which files it holds is not known.
struct UnlistedFolder {
  std::string path;
  absl::Status status;
};

// Of the name of such a folder.
inline constexpr std::size_t kPackFolderDigits = 2;

// The packs of which there are such files; all else in the folder is passed over. `unlisted` gets
// the folders that cannot be listed; null: one is an error.
absl::StatusOr<std::vector<PackId>> ListPackFiles(const std::string& directory,
                                                  std::string_view suffix,
                                                  std::vector<UnlistedFolder>* unlisted = nullptr);

}  // namespace kerf::agent
