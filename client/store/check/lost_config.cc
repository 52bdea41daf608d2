#include "client/store/check/lost_config.h"

#include <optional>

#include "base/hex.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/snapshots/store.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kStoreIdDigits = 32;

bool IsStoreId(std::string_view text) { return text.size() == kStoreIdDigits && IsHex(text); }

absl::StatusOr<std::string> FindId(const SnapshotList& checked, const SnapshotList& pending,
                                   const LostConfigHints& hints) {
  if (!hints.id.empty()) {
    if (IsStoreId(hints.id)) return hints.id;
    return absl::FailedPreconditionError(Cat("'", hints.id, "' is no id of a store: those have ",
                                             kStoreIdDigits, " digits, 0-9a-f"));
  }
  // The newest one: a store may have been given another id (`kerf store adopt`).
  for (const SnapshotList* list : {&checked, &pending}) {
    for (auto snapshot = list->snapshots.rbegin(); snapshot != list->snapshots.rend(); ++snapshot) {
      if (!snapshot->store_id().empty()) return snapshot->store_id();
    }
  }
  if (hints.remembered_ids.size() == 1) return hints.remembered_ids.front();
  if (hints.new_id) return RandomHex();
  return absl::FailedPreconditionError(
      "both copies of the configuration are lost, and no snapshot says what id the store had: name "
      "it with --id (servers know it as the repository), or take a new one with --new-id; its "
      "index "
      "then begins anew, and nothing else is lost");
}

}  // namespace

absl::StatusOr<DigestAlgorithm> DigestAlgorithmOfPacks(const std::string& directory) {
  ChunkIndex index(Cat(directory, "/packs"));
  KERF_RETURN_IF_ERROR(index.Refresh());
  std::optional<DigestAlgorithm> digest;
  for (const auto& pack : index.packs()) {
    if (digest.has_value() && *digest != pack->footer.digest_algorithm) {
      return absl::DataLossError("packs have different digest algorithms: they are of two stores");
    }
    digest = pack->footer.digest_algorithm;
  }
  if (!digest.has_value()) return absl::NotFoundError("no pack can be read");
  return *digest;
}

absl::StatusOr<store::v1::StoreConfig> RebuildStoreConfig(const std::string& directory,
                                                          const SnapshotList& checked,
                                                          const SnapshotList& pending,
                                                          const LostConfigHints& hints) {
  const absl::StatusOr<DigestAlgorithm> digest = DigestAlgorithmOfPacks(directory);
  if (!digest.ok()) {
    return absl::FailedPreconditionError(
        Cat("both copies of the configuration are lost, and how chunks are named is not known: ",
            MessageOf(digest.status())));
  }
  store::v1::StoreConfig config;
  KERF_ASSIGN_OR_RETURN(std::string id, FindId(checked, pending, hints));
  config.set_id(std::move(id));
  config.set_digest_algorithm(Number(*digest));
  config.set_metadata_profile(std::string(kMetadataProfile));
  for (const SnapshotList* list : {&pending, &checked}) {
    if (list->snapshots.empty()) continue;
    config.set_profile(list->snapshots.back().profile());
    config.set_created_unix_ns(list->snapshots.front().started_unix_ns());
  }
  // How it cuts changes nothing of what is stored.
  if (config.profile().empty()) {
    KERF_ASSIGN_OR_RETURN(const Profile profile, ParseProfile(kDefaultProfileName));
    config.set_profile(FormatProfile(profile));
  }
  return config;
}

}  // namespace kerf::agent
