#include "client/agent/verbs/index_warning.h"

#include "base/status.h"
#include "base/strings.h"
#include "client/cpp/failed_call.h"

namespace kerf::agent {

bool IsIndexBehind(const absl::Status& index_warning, const Store& store,
                   std::uint64_t epoch_before) {
  if (index_warning.ok()) return false;
  if (!absl::IsFailedPrecondition(index_warning)) return true;
  const absl::StatusOr<std::uint64_t> epoch = store.ReadEpoch();
  return !epoch.ok() || *epoch <= epoch_before;
}

void WarnOfIndex(Reporter& reporter, const std::string& server, const absl::Status& index_warning) {
  const std::string text = Cat(
      "the server's index does not take what it is told: what was stored is whole, and the "
      "next backup costs more (",
      MessageOf(index_warning), ")",
      absl::IsFailedPrecondition(index_warning)
          ? "; no collection runs: the store was set back, or the index' epoch was set too far; "
            "run kerf gc, which sets it right or says who can"
          : "");
  reporter.Warning(server, client::WithRequestId({index_warning.code(), ToAbsl(text)},
                                                 client::RequestIdOf(index_warning)));
}

}  // namespace kerf::agent
