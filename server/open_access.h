// Who may do what, as settings ask for it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/access_settings.h"
#include "server/access/access_source.h"
#include "server/net/tls_settings.h"

namespace kerf {

// Null: everybody may do everything, of which the log tells if others than this machine are served
// (`listen`). Changes of the file are told in the log from here on. The errors of
// AccessSource::Open.
absl::StatusOr<std::unique_ptr<access::AccessSource>> OpenAccess(
    const AccessSettings& settings, const TlsSettings& tls, const std::vector<std::string>& listen);

}  // namespace kerf
