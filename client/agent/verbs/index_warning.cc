#include "client/agent/verbs/index_warning.h"

#include "base/status.h"
#include "base/strings.h"
#include "client/cpp/retry.h"

namespace kerf::agent {
namespace {

bool IsEpochBehind(const absl::Status& status) {
  return client::ReasonOfLoss(status) == "EPOCH_BEHIND";
}

}  // namespace

bool IsIndexBehind(const absl::Status& index_warning, const Store& store,
                   std::uint64_t epoch_before) {
  if (index_warning.ok()) return false;
  if (!IsEpochBehind(index_warning)) return true;
  const absl::StatusOr<std::uint64_t> epoch = store.ReadEpoch();
  return !epoch.ok() || *epoch <= epoch_before;
}

void WarnOfFullIndex(Reporter& reporter, const std::string& path, const absl::Status& status) {
  const std::string text =
      Cat("the server's index has no room for all that the store holds, and backups send what it "
          "does not know again (",
          MessageOf(status), ")");
  reporter.Warning(path, client::OfCall({status.code(), ToAbsl(text)}, status));
}

void WarnOfIndex(Reporter& reporter, const std::string& server, const absl::Status& index_warning) {
  const std::string text = Cat(
      "the server's index does not take what it is told: what was stored is whole, and the "
      "next backup costs more (",
      MessageOf(index_warning), ")",
      IsEpochBehind(index_warning)
          ? "; no collection runs. If the store was set back to an older copy of itself, bring the "
            "newer one back, or accept this one with kerf repair --accept-set-back --apply; then "
            "run kerf gc, which sets the epochs right or says who can"
          : "");
  reporter.Warning(server, client::OfCall({index_warning.code(), ToAbsl(text)}, index_warning));
}

}  // namespace kerf::agent
