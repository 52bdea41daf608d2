#include "client/agent/verbs/index_warning.h"

#include "base/status.h"
#include "base/strings.h"
#include "client/cpp/failed_call.h"

namespace kerf::agent {

bool IsIndexBehind(const absl::Status& index_warning) {
  return !index_warning.ok() && !absl::IsFailedPrecondition(index_warning);
}

void WarnOfIndex(Reporter& reporter, const std::string& server, const absl::Status& index_warning) {
  const std::string text =
      Cat("the server's index does not take what it is told: what was stored is whole, and the "
          "next backup costs more (",
          MessageOf(index_warning), ")");
  reporter.Warning(server, client::WithRequestId({index_warning.code(), ToAbsl(text)},
                                                 client::RequestIdOf(index_warning)));
}

}  // namespace kerf::agent
