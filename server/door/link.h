// One HTTP/2 connection: its socket, nghttp2's state of it, and what is to be written. nghttp2 has
// the frames, header compression, the states of streams and the windows; this has the bytes.
#pragma once

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/door/slices.h"
#include "server/door/wire.h"

namespace kerf::door {

using Time = std::chrono::steady_clock::time_point;
using Headers = std::vector<std::pair<std::string, std::string>>;

// A call, as the one who gets LinkEvents knows it.
struct RelayedCall;
class Link;

// What is to be sent of a stream behind its headers.
struct Body {
  explicit Body(BlockPool* pool) : bytes(pool) {}

  SliceQueue bytes;
  // Nothing more is put in.
  bool is_whole = false;
  // Sent at the end, if there are some.
  Headers trailers;
};

// What a link has read and sent, told while it does. Streams whose call is null are not told of.
class LinkEvents {
 public:
  // A header block begins; `call` is null for that of a new stream, whose call is returned.
  virtual RelayedCall& OnHeadersBegin(Link& link, std::int32_t stream, RelayedCall* call) = 0;
  // False ends the connection.
  virtual bool OnHeader(Link& link, RelayedCall& call, std::string_view name,
                        std::string_view value) = 0;
  // `is_last`: nothing of the stream follows.
  virtual void OnHeadersEnd(Link& link, RelayedCall& call, bool is_last) = 0;
  // Null: of a stream that is gone. Whoever gets the bytes gives them back (Link::Consume).
  virtual void OnData(Link& link, RelayedCall* call, std::int32_t stream,
                      std::span<const std::uint8_t> bytes) = 0;
  virtual void OnDataEnd(Link& link, RelayedCall& call) = 0;
  // From here on the stream has no call.
  virtual void OnClosed(Link& link, RelayedCall& call, std::uint32_t error) = 0;
  // Of the stream's body.
  virtual void OnBodySent(Link& link, RelayedCall& call, std::size_t size_bytes) = 0;
  // Nothing of the stream follows.
  virtual void OnLastSent(Link& link, RelayedCall& call) = 0;
  // A header block cannot be sent, which leaves the stream without its end.
  virtual void OnHeadersNotSent(Link& link, RelayedCall& call) = 0;
  // The peer takes no new streams.
  virtual void OnGoAway(Link& link) = 0;

 protected:
  ~LinkEvents() = default;
};

struct LinkOptions {
  enum class Side : std::uint8_t {
    // The peer is a client.
    kClient,
    // The peer is a server.
    kServer,
  };

  Side side = Side::kClient;
  std::uint32_t max_frame_bytes = 0;
  // Of each stream, until Link::SetStreamWindow.
  std::uint32_t stream_window_bytes = 0;
  // Of the peer, at once. Clients only.
  std::uint32_t max_streams = 0;
  // Told to clients, which then fail such calls themselves.
  std::uint32_t max_header_list_bytes = 0;
  // What nghttp2 may have written ahead of the socket; more only to finish a frame.
  std::size_t max_ahead_bytes = 0;
};

// Not thread-safe. What it is told to send is sent by Write.
class Link {
 public:
  // `events` and `pool` outlive it.
  Link(const LinkOptions& options, std::unique_ptr<Wire> wire, LinkEvents* events, BlockPool* pool);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  // Tells of nothing.
  ~Link();

  // Broken: the peer breaks the rules of HTTP/2, or an event said no; what is left to write tells
  // it why.
  enum class ReadResult : std::uint8_t { kMore, kNothingMore, kEnded, kBroken };
  // Once, as much as a block has room for.
  ReadResult Read(Time now);
  // All that the socket takes. False: the connection has ended.
  bool Write(Time now);
  // Something is left that the socket did not take.
  bool is_waiting_to_write() const {
    return wire_->has_unsent() || (!out_.empty() && wire_->is_open_for_writing());
  }
  // There is something to read of which the socket does not tell.
  bool has_unread() const { return wire_->has_unread(); }
  // Whether a handshake was begun, which is the dearest thing about a connection.
  bool has_greeted() const { return wire_->has_greeted(); }
  // How the peer is seen.
  std::string seen() const { return wire_->seen(); }
  // Why there was never a connection to read from.
  std::optional<EndReason> failure() const { return wire_->failure(); }
  // nghttp2 has something to write, and nothing waits before it.
  bool has_more() const { return out_.empty() && nghttp2_session_want_write(session_) != 0; }
  // Neither has anything to say any more, and all of it is written.
  bool is_finished() const;

  int socket() const { return wire_->socket(); }
  bool is_client() const { return options_.side == LinkOptions::Side::kClient; }
  // Since when something waits to be written and nothing was.
  Time write_progress() const { return write_progress_; }
  // When the peer was last heard.
  Time last_read() const { return last_read_; }
  // Whether the peer has sent its first frame.
  bool has_settings() const { return has_settings_; }
  // Whether the peer was told to go.
  bool was_told_last() const { return was_told_last_; }
  // Whether the peer has broken the rules of HTTP/2, and was told so: nothing else is read of it.
  bool is_broken() const { return is_broken_; }

  // Part of what OnData was given last, to keep: its block is shared.
  Slice Share(std::span<const std::uint8_t> bytes) const;

  // A new stream to a server; `body` null: there is none, else it is sent as it comes in. Its id,
  // or a negative number: no more streams can be had of this link.
  std::int32_t SubmitRequest(const Headers& headers, Body* body, RelayedCall* call);
  void SubmitResponse(std::int32_t stream, const Headers& headers, Body* body);
  // There is more in the body, or it is whole.
  void Resume(std::int32_t stream) { nghttp2_session_resume_data(session_, stream); }
  void Reset(std::int32_t stream, std::uint32_t error) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, error);
  }
  void SubmitPing() { nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr); }
  // Those that are open go on; the peer may begin no more.
  void GoAway(std::uint32_t error);
  // The peer may send as much as it was given and this, which is what OnData gave. The second one:
  // of a stream that is gone.
  void Consume(std::int32_t stream, std::size_t size_bytes) {
    nghttp2_session_consume(session_, stream, size_bytes);
  }
  void ConsumeOfGone(std::size_t size_bytes) {
    nghttp2_session_consume_connection(session_, size_bytes);
  }
  void SetStreamWindow(std::int32_t stream, std::size_t size_bytes);
  // Of all streams together; a smaller one than before is smaller once the peer has used it. Of
  // what was consumed the peer learns when it is half of it.
  void SetWindow(std::size_t size_bytes);

 private:
  friend struct Callbacks;

  const LinkOptions options_;
  const std::unique_ptr<Wire> wire_;
  LinkEvents* const events_;
  BlockPool* const pool_;
  nghttp2_session* session_ = nullptr;
  SliceQueue out_;
  BlockRef in_;
  Time write_progress_;
  Time last_read_;
  bool has_settings_ = false;
  bool was_told_last_ = false;
  bool is_broken_ = false;
};

}  // namespace kerf::door
