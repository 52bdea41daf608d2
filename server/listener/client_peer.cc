#include "server/listener/client_peer.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <array>
#include <string_view>

#include "base/check.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr std::size_t kStampBytes = 16;

std::string DrawStamp() {
  std::array<unsigned char, kStampBytes> drawn{};
  KERF_CHECK(RAND_bytes(drawn.data(), static_cast<int>(drawn.size())) == 1);
  std::string stamp;
  for (const unsigned char byte : drawn) {
    stamp += "0123456789abcdef"[byte >> 4];
    stamp += "0123456789abcdef"[byte & 15];
  }
  return stamp + " ";
}

}  // namespace

const std::string& PeerStamp() {
  static const std::string stamp = DrawStamp();
  return stamp;
}

std::string PeerOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(kPeerMetadata);
  if (found == context.client_metadata().end()) return context.peer();
  const std::string_view said(found->second.data(), found->second.size());
  const std::string& stamp = PeerStamp();
  if (said.size() < stamp.size() || CRYPTO_memcmp(said.data(), stamp.data(), stamp.size()) != 0) {
    return context.peer();
  }
  return std::string(said.substr(stamp.size()));
}

}  // namespace kerf
