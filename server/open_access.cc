#include "server/open_access.h"

#include <algorithm>

#include "base/status.h"
#include "base/strings.h"
#include "server/logging/logging.h"
#include "server/net/listen_address.h"

namespace kerf {
namespace {

bool ServesOthers(const std::vector<std::string>& listen) {
  return std::any_of(listen.begin(), listen.end(), [](const std::string& text) {
    const auto address = ParseListenAddress(text);
    return address.ok() && !address->is_unix && !IsLoopback(*address);
  });
}

void OnReload(const absl::Status& status, const access::AccessState& state) {
  if (!status.ok()) {
    return Log(LogLevel::kError, Cat("--access goes on as it was: ", MessageOf(status)));
  }
  Log(LogLevel::kInfo, Cat("--access has changed: ", state.rules.size(), " identities"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<access::AccessSource>> OpenAccess(
    const AccessSettings& settings, const TlsSettings& tls,
    const std::vector<std::string>& listen) {
  if (settings.file.empty()) {
    if (ServesOthers(listen)) {
      Log(LogLevel::kWarning,
          Cat("without --access ",
              tls.files.ca.empty() ? "whoever can reach --listen"
                                   : "whoever has a certificate of --tls-client-ca",
              " may do everything, in every repository"));
    }
    return nullptr;
  }
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<access::AccessSource> source,
                        access::AccessSource::Open(settings.file, OnReload));
  Log(LogLevel::kInfo, Cat("--access knows ", source->current()->rules.size(), " identities"));
  return source;
}

}  // namespace kerf
