// OpenSSL tidies up in a handler of exit() and forgets, with all else, what to do when a thread
// ends. Threads that libraries hold (gRPC's) are still there then: what OpenSSL holds for them is
// lost by those that end afterwards, and those that use it meet what is gone already. The process's
// end tidies up as well, so the handler is not wanted. To be heard, this has to be the first call
// of OpenSSL's: before main() (OPENSSL_init_crypto(3), OPENSSL_INIT_NO_ATEXIT).
#include <openssl/crypto.h>

namespace {

// The initialisation itself is what is wanted.
[[maybe_unused]] const bool kStays = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;

}  // namespace
