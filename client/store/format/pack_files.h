// How a folder of the store has a file for each pack: XX/ID.SUFFIX, XX being the first two digits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/store/format/pack_format.h"

namespace kerf::agent {

// `suffix` with its dot.
std::string PackFilePath(std::string_view directory, const PackId& id, std::string_view suffix);

// The packs of which there are such files; all else in the folder is passed over.
absl::StatusOr<std::vector<PackId>> ListPackFiles(const std::string& directory,
                                                  std::string_view suffix);

}  // namespace kerf::agent
