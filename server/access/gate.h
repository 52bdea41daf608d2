// Where each call is asked who it is and whether it may: docs/spec/access.md.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access_source.h"
#include "server/access/decide.h"
#include "server/access/identity.h"
#include "server/access/method.h"
#include "server/listener/client_peer.h"
#include "server/metrics/counters.h"
#include "server/metrics/page.h"

namespace kerf::access {

// By which a front tells a worker who has called it (EncodeIdentity). Of nobody else is it
// believed.
inline constexpr char kIdentityMetadata[] = "kerf-identity";
// Where a token is shown. Never passed on, nor written down.
inline constexpr char kAuthorizationMetadata[] = "authorization";

// Why a call was refused, as metrics have it.
enum class Refusal : std::uint8_t {
  kNoProof,
  // A token that could be read on its way.
  kTokenInTheClear,
  kBadToken,
  kExpired,
  // A front that does not say who has called it.
  kFrontWithoutCaller,
  kForbidden,
};
inline constexpr std::size_t kRefusalCount = 6;
std::string_view NameOf(Refusal refusal);

// Thread-safe. Errors are those of server/errors: UNKNOWN_CALLER, NOT_YOURS. What it refuses it
// counts, and tells the log.
class Gate {
 public:
  // Null: everybody may do everything, and has no name. `source` outlives it.
  explicit Gate(const AccessSource* source) : source_(source) {}

  bool is_open() const { return source_ == nullptr; }

  // Who calls, if he may do what needs this in some repository. `proven`, unless null, becomes who
  // he is also where he may not, as far as that was proven.
  absl::StatusOr<Identity> Admit(const grpc::CallbackServerContext& context, Need need,
                                 Identity* proven = nullptr) const;
  // The same by the call's method.
  absl::StatusOr<Identity> Admit(const grpc::GenericCallbackServerContext& context,
                                 Identity* proven = nullptr) const;
  // Of somebody who was admitted: whether he may do that in this repository, or without one in
  // some; asked again, whether he still may, and so may the front that has said who he is.
  absl::Status Check(const Identity& identity, Need need,
                     std::optional<std::string_view> repository) const;

  // Who is at the other end of a connection, as far as the connection itself proves it; nobody
  // where nobody is asked.
  Identity Seen(const SeenClient& seen) const;
  // The same of its connections.
  std::optional<std::uint64_t> MaxConnectionsOf(const SeenClient& seen) const;
  // As the file has them now; without one: nothing has a bound.
  Quota QuotaOf(const Identity& identity) const;
  Quota QuotaOfRepository(std::string_view repository) const;

  void AddMetrics(metrics::Page& page) const;

 private:
  // Whom a connection itself proves.
  static std::optional<Identity> IdentityOf(const SeenClient& seen);
  // Who calls, or by the word of a front for whom it calls.
  absl::StatusOr<Identity> Identify(const grpc::CallbackServerContext& context, Need need,
                                    const AccessState& state) const;
  // Who is at the other end of the connection.
  absl::StatusOr<Identity> IdentifyPeer(const grpc::CallbackServerContext& context,
                                        const AccessState& state) const;
  absl::StatusOr<Identity> IdentifyToken(std::string_view authorization, bool is_private,
                                         const AccessState& state) const;
  absl::Status StatusOf(Decision decision, const Identity& identity) const;
  absl::Status Refuse(Refusal refusal, const Identity& identity) const;

  const AccessSource* const source_;
  mutable std::array<metrics::Counter, kRefusalCount> refused_;
};

}  // namespace kerf::access
