// Whether a store keeps parity of its packs, and where.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/pack_format.h"

namespace kerf::agent {

inline constexpr std::string_view kParitySuffix = ".parity";

// Of a store. The folder is not there in one that never had parity.
std::string ParityDirectory(std::string_view store_directory);
std::string ParitySettingPath(std::string_view store_directory);
std::string ParityPath(std::string_view store_directory, const PackId& id);
// Of the pack at STORE/packs/XX/ID.pack.
std::string ParityPathOf(const std::string& pack_path);

// How many bytes of parity a pack gets for each 100 of its own; 0: none. DataLoss if the setting is
// damaged: what to do about it is in the message.
absl::StatusOr<unsigned> ReadParityPercent(std::string_view store_directory);

// Durable on return. Packs that are sealed from then on get parity, or with 0 none.
absl::Status WriteParityPercent(const std::string& store_directory, unsigned percent);

}  // namespace kerf::agent
