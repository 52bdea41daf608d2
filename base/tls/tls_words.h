// Why a client did not come to an understanding with a server, for an operator.
#pragma once

#include <openssl/ssl.h>

#include <string>

namespace kerf {

// Of a client's session whose last call failed by the protocol (SSL_ERROR_SSL), about the server:
// "it does not speak TLS there ...". Clears OpenSSL's queue of errors. `is_up`: the handshake was
// done, as far as the client knows.
std::string TlsFailureInWords(SSL& session, bool is_up);

}  // namespace kerf
