// The files of a TLS peer, all PEM.
#pragma once

#include <string>

namespace kerf {

struct TlsFiles {
  // What is shown to peers, and behind it those between it and its CA; empty: nothing is.
  std::string certificate = "";
  std::string key = "";
  // CAs of which a peer has to show a certificate. Empty: of a server, its clients show none; of a
  // client, the CAs that the system knows.
  std::string ca = "";
};

}  // namespace kerf
