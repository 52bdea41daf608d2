// What can be set of TLS where kerfd listens.
#pragma once

#include <string>
#include <vector>

#include "base/cli/option_set.h"
#include "base/tls/tls_files.h"

namespace kerf {

struct TlsSettings {
  // What is shown to clients, and whoever else asks; `ca` is that of clients.
  TlsFiles files;
  // Clients need no certificate where `files.ca` is: they may show a token.
  bool is_client_certificate_optional = false;
  // Other machines may be served in the clear.
  bool is_insecure = false;
};

void AddTlsSettings(OptionSet& options, TlsSettings& settings);

// What is wrong with settings that are good one by one; empty: nothing.
std::string FindTlsContradiction(const TlsSettings& settings,
                                 const std::vector<std::string>& listen);

}  // namespace kerf
