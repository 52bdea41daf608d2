#include "server/listener/client_peer.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/check.h"
#include "base/hex.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr std::size_t kStampBytes = 16;

std::string DrawStamp() {
  std::array<unsigned char, kStampBytes> drawn{};
  KERF_CHECK(RAND_bytes(drawn.data(), static_cast<int>(drawn.size())) == 1);
  return HexOf(drawn) + " ";
}

// Nothing: no door has said it.
std::optional<std::string> SaidByDoor(const grpc::CallbackServerContext& context,
                                      const char* metadata) {
  const auto found = context.client_metadata().find(metadata);
  if (found == context.client_metadata().end()) return std::nullopt;
  const std::string_view said(found->second.data(), found->second.size());
  const std::string& stamp = PeerStamp();
  if (said.size() < stamp.size() || CRYPTO_memcmp(said.data(), stamp.data(), stamp.size()) != 0) {
    return std::nullopt;
  }
  return std::string(said.substr(stamp.size()));
}

}  // namespace

const std::string& PeerStamp() {
  static const std::string stamp = DrawStamp();
  return stamp;
}

std::string PeerOf(const grpc::CallbackServerContext& context) {
  return SaidByDoor(context, kPeerMetadata).value_or(context.peer());
}

SeenClient SeenOf(const grpc::CallbackServerContext& context) {
  return ParseSeen(SaidByDoor(context, kSeenMetadata).value_or(""));
}

SeenClient ParseSeen(std::string_view text) {
  SeenClient seen;
  const auto how_bytes =
      static_cast<std::size_t>(std::find(text.begin(), text.end(), ' ') - text.begin());
  const std::string_view how = text.substr(0, how_bytes);
  const std::string_view whom = text.substr(std::min(text.size(), how_bytes + 1));
  seen.is_private = how == "tls" || how == "unix";
  if (how == "tls") seen.certificate = whom;
  std::uint32_t user = 0;
  const auto [end, error] = std::from_chars(whom.data(), whom.data() + whom.size(), user);
  if (how == "unix" && error == std::errc() && end == whom.data() + whom.size()) seen.user = user;
  return seen;
}

}  // namespace kerf
