// One connection to a Redis: its bytes, in the clear or within TLS, and the answers in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/tls/tls_context.h"

struct event_base;
struct redisReply;

namespace kerf::redis {

// The loop's thread's own.
class Socket {
 public:
  // Told from within the loop, never from within a call. An owner may write, and drop the socket.
  class Owner {
   public:
    // It is there; TLS is up, and the peer is who it has to be.
    virtual void OnUp() = 0;
    // The next answer, which is gone afterwards.
    virtual void OnReply(const redisReply& reply) = 0;
    // The last that is told. Why: in words, without the address.
    virtual void OnClosed(const std::string& why) = 0;

   protected:
    ~Owner() = default;
  };

  // Begins to connect to an address as numbers. A null `session` speaks in the clear. The error is
  // the system's, in words.
  static absl::StatusOr<std::unique_ptr<Socket>> Connect(event_base* base, const std::string& host,
                                                         int port, TlsSession session,
                                                         Owner* owner);
  virtual ~Socket() = default;

  // Sent in this order as soon as it is up; nothing goes out before.
  virtual void Write(std::string_view bytes) = 0;

  // When the certificate ends that the peer has shown, in seconds since 1970; nothing: in the
  // clear.
  virtual std::optional<std::int64_t> PeerExpiresAt() const = 0;

  // Why it is not up yet, for somebody who does not wait any longer.
  virtual std::string WaitsFor() const = 0;
};

}  // namespace kerf::redis
