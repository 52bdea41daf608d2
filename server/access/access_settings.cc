#include "server/access/access_settings.h"

namespace kerf {

void AddAccessSettings(OptionSet& options, AccessSettings& settings) {
  options.AddText(
      {"access",
       "Serve only whom this file knows, and only what it grants him "
       "(docs/spec/access.md): by a certificate, a token, or the user of a unix socket. "
       "It is read anew when it changes. Without it everybody may do everything",
       "FILE"},
      settings.file);
}

}  // namespace kerf
