// The two ends that a relay stands between, for tests: a client that makes calls, and a server that
// answers them as their paths say. Both by nghttp2, and driven by hand.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "server/door/wire.h"

namespace kerf::door {

// One call, as this end sees it.
struct PeerCall {
  std::vector<std::pair<std::string, std::string>> headers;
  // Behind the body.
  std::vector<std::pair<std::string, std::string>> trailers;
  std::string body;
  bool is_ended = false;
  bool is_closed = false;
  std::uint32_t error = 0;

  // What has come is not taken from now on: no window is given back for it.
  bool is_held = false;

  // What this end sends.
  std::string to_send;
  // Of it, from its beginning: it goes once all of it has.
  std::size_t sent_bytes = 0;
  bool is_whole = false;
  std::vector<std::pair<std::string, std::string>> last_headers;

  std::string_view HeaderOf(std::string_view name) const;
  std::string_view TrailerOf(std::string_view name) const;
};

// Not thread-safe.
class H2Peer {
 public:
  enum class Role : std::uint8_t { kClient, kServer };

  // `window_bytes` is that of each stream.
  H2Peer(Role role, std::unique_ptr<Wire> wire, std::uint32_t window_bytes = 65'535);
  // `socket` does not block.
  H2Peer(Role role, UniqueFd socket, std::uint32_t window_bytes = 65'535)
      : H2Peer(role, MakeClearWire(std::move(socket)), window_bytes) {}
  H2Peer(const H2Peer&) = delete;
  H2Peer& operator=(const H2Peer&) = delete;
  ~H2Peer();

  // Reads and writes what goes without waiting; whether there was anything.
  bool Move();
  bool is_open() const { return wire_ != nullptr; }
  int socket() const { return wire_->socket(); }
  void CloseSocket() { wire_.reset(); }

  // Client: a call with `body`; whole, or more follows by Send. Its stream.
  std::int32_t Call(std::string_view path, std::string body, bool is_whole = true,
                    std::vector<std::pair<std::string, std::string>> more_headers = {});
  void Send(std::int32_t stream, std::string_view bytes, bool is_whole);
  void Reset(std::int32_t stream, std::uint32_t error);
  void GoAway();
  // Server: the answer has come to its end, with trailers.
  void End(std::int32_t stream);
  // Server: paths are
  //   /echo    the body comes back, with trailers
  //   /count   when the body has ended: its size in a trailer, and nothing else
  //   /early   status and trailers at once, whatever follows
  //   /reset   RST_STREAM at once
  //   /hold    nothing; the body is not taken
  //   /big     a megabyte, whatever is sent
  //   /part    100,000 bytes of it
  //   /later   ten bytes, and nothing more until End
  //   /hints   as /count, behind an informational answer
  //   /bare    as /count, without trailers: the body says it
  //   /huge    trailers that are larger than nghttp2 sends
  // Anything else: trailers with grpc-status 12.

  PeerCall& call(std::int32_t stream) { return *calls_.at(stream); }
  bool has_call(std::int32_t stream) const { return calls_.contains(stream); }
  std::size_t call_count() const { return calls_.size(); }
  // Of the last call that has come, or was made.
  std::int32_t last_stream() const { return last_stream_; }
  bool has_goaway() const { return has_goaway_; }
  std::uint32_t goaway_error() const { return goaway_error_; }
  // Whether bodies are taken, so that windows are given back.
  void SetTaking(bool is_taking) { is_taking_ = is_taking; }

 private:
  friend struct PeerCallbacks;
  void Answer(std::int32_t stream);
  bool Write();
  bool Read();

  const Role role_;
  std::unique_ptr<Wire> wire_;
  nghttp2_session* session_ = nullptr;
  std::string out_;
  std::map<std::int32_t, std::unique_ptr<PeerCall>> calls_;
  std::int32_t last_stream_ = 0;
  bool has_goaway_ = false;
  std::uint32_t goaway_error_ = 0;
  bool is_taking_ = true;
};

}  // namespace kerf::door
