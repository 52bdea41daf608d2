#include "server/door/link.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"

namespace kerf::door {
namespace {

// Of one write.
constexpr std::size_t kMaxVectors = 64;
// Room that is worth a read.
constexpr std::size_t kMinReadBytes = std::size_t{32} << 10;
// A frame header.
constexpr std::size_t kFrameHeaderBytes = 9;
// By which nghttp2 ends connections whose peer resets streams; CancelBound counts the same for all
// connections of an address, and comes first.
constexpr std::uint64_t kResetBurst = 4096;
constexpr std::uint64_t kResetsPerSecond = 200;

RelayedCall* CallOf(nghttp2_session* session, std::int32_t stream) {
  return static_cast<RelayedCall*>(nghttp2_session_get_stream_user_data(session, stream));
}

std::vector<nghttp2_nv> Names(const Headers& headers) {
  std::vector<nghttp2_nv> names;
  names.reserve(headers.size());
  for (const auto& [name, value] : headers) {
    // nghttp2 copies both.
    names.push_back({.name = reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                     .value = reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())),
                     .namelen = name.size(),
                     .valuelen = value.size(),
                     .flags = NGHTTP2_NV_FLAG_NONE});
  }
  return names;
}

std::string_view Text(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

// What nghttp2 calls, typed.
struct Callbacks {
  static Link& Of(void* user) { return *static_cast<Link*>(user); }

  static ssize_t Send(nghttp2_session* /*session*/, const std::uint8_t* bytes, std::size_t size,
                      int /*flags*/, void* user) {
    Link& link = Of(user);
    if (link.out_.size_bytes() >= link.options_.max_ahead_bytes) return NGHTTP2_ERR_WOULDBLOCK;
    link.out_.AppendCopy({bytes, size});
    return static_cast<ssize_t>(size);
  }

  static int SendData(nghttp2_session* session, nghttp2_frame* frame, const std::uint8_t* header,
                      std::size_t size, nghttp2_data_source* source, void* user) {
    Link& link = Of(user);
    if (link.out_.size_bytes() >= link.options_.max_ahead_bytes) return NGHTTP2_ERR_WOULDBLOCK;
    link.out_.AppendCopy({header, kFrameHeaderBytes});
    static_cast<Body*>(source->ptr)->bytes.MoveTo(link.out_, size);
    RelayedCall* const call = CallOf(session, frame->hd.stream_id);
    if (call != nullptr && size > 0) link.events_->OnBodySent(link, *call, size);
    return 0;
  }

  static ssize_t ReadBody(nghttp2_session* session, std::int32_t stream, std::uint8_t* /*buffer*/,
                          std::size_t size, std::uint32_t* flags, nghttp2_data_source* source,
                          void* /*user*/) {
    const Body& body = *static_cast<Body*>(source->ptr);
    const std::size_t there = body.bytes.size_bytes();
    if (there == 0 && !body.is_whole) return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (there <= size && body.is_whole) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (!body.trailers.empty()) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        const std::vector<nghttp2_nv> names = Names(body.trailers);
        if (nghttp2_submit_trailer(session, stream, names.data(), names.size()) != 0) {
          return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
      }
    }
    return static_cast<ssize_t>(std::min(there, size));
  }

  static ssize_t ReadLength(nghttp2_session* /*session*/, std::uint8_t /*type*/,
                            std::int32_t /*stream*/, std::int32_t window,
                            std::int32_t stream_window, std::uint32_t max_frame_bytes, void* user) {
    const std::int64_t ours = Of(user).options_.max_frame_bytes;
    return static_cast<ssize_t>(std::min<std::int64_t>(
        {std::int64_t{window}, std::int64_t{stream_window}, std::int64_t{max_frame_bytes}, ours}));
  }

  static int BeginHeaders(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    Link& link = Of(user);
    const std::int32_t stream = frame->hd.stream_id;
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    RelayedCall* const call = CallOf(session, stream);
    const bool is_request = frame->headers.cat == NGHTTP2_HCAT_REQUEST;
    if (call == nullptr && !is_request) return 0;
    RelayedCall& begun = link.events_->OnHeadersBegin(link, stream, is_request ? nullptr : call);
    if (is_request) nghttp2_session_set_stream_user_data(session, stream, &begun);
    return 0;
  }

  static int Header(nghttp2_session* session, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                    std::uint8_t /*flags*/, void* user) {
    RelayedCall* const call = CallOf(session, frame->hd.stream_id);
    if (call == nullptr) return 0;
    Link& link = Of(user);
    return link.events_->OnHeader(link, *call, Text(name, name_size), Text(value, value_size))
               ? 0
               : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static int FrameRead(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    Link& link = Of(user);
    const bool is_last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    switch (frame->hd.type) {
      case NGHTTP2_SETTINGS:
        link.has_settings_ = true;
        break;
      case NGHTTP2_GOAWAY:
        link.events_->OnGoAway(link);
        break;
      case NGHTTP2_HEADERS:
        if (RelayedCall* const call = CallOf(session, frame->hd.stream_id); call != nullptr) {
          link.events_->OnHeadersEnd(link, *call, is_last);
        }
        break;
      case NGHTTP2_DATA:
        if (RelayedCall* const call = CallOf(session, frame->hd.stream_id);
            call != nullptr && is_last) {
          link.events_->OnDataEnd(link, *call);
        }
        break;
      default:
        break;
    }
    return 0;
  }

  static int Data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t stream,
                  const std::uint8_t* bytes, std::size_t size, void* user) {
    Link& link = Of(user);
    link.events_->OnData(link, CallOf(session, stream), stream, {bytes, size});
    return 0;
  }

  static int Closed(nghttp2_session* session, std::int32_t stream, std::uint32_t error,
                    void* user) {
    Link& link = Of(user);
    if (RelayedCall* const call = CallOf(session, stream); call != nullptr) {
      link.events_->OnClosed(link, *call, error);
    }
    return 0;
  }

  static int FrameSent(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_GOAWAY) NoteGoAway(Of(user), frame->goaway.error_code);
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    if (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) return 0;
    Link& link = Of(user);
    if (RelayedCall* const call = CallOf(session, frame->hd.stream_id); call != nullptr) {
      link.events_->OnLastSent(link, *call);
    }
    return 0;
  }

  // Those that Link::GoAway sends say that nobody is wanted any more; nghttp2's own, what was
  // wrong.
  static void NoteGoAway(Link& link, std::uint32_t error) {
    if (error != NGHTTP2_NO_ERROR && error != NGHTTP2_ENHANCE_YOUR_CALM) link.is_broken_ = true;
  }

  static int FrameNotSent(nghttp2_session* session, const nghttp2_frame* frame, int error,
                          void* user) {
    const bool is_over = error == NGHTTP2_ERR_STREAM_CLOSED ||
                         error == NGHTTP2_ERR_STREAM_CLOSING || error == NGHTTP2_ERR_STREAM_SHUT_WR;
    if (frame->hd.type != NGHTTP2_HEADERS || is_over) return 0;
    Link& link = Of(user);
    if (RelayedCall* const call = CallOf(session, frame->hd.stream_id); call != nullptr) {
      link.events_->OnHeadersNotSent(link, *call);
    }
    return 0;
  }

  static nghttp2_session_callbacks* Make() {
    nghttp2_session_callbacks* made = nullptr;
    KERF_CHECK(nghttp2_session_callbacks_new(&made) == 0);
    nghttp2_session_callbacks_set_send_callback(made, Send);
    nghttp2_session_callbacks_set_send_data_callback(made, SendData);
    nghttp2_session_callbacks_set_data_source_read_length_callback(made, ReadLength);
    nghttp2_session_callbacks_set_on_begin_headers_callback(made, BeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(made, Header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, FrameRead);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, Data);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, Closed);
    nghttp2_session_callbacks_set_on_frame_send_callback(made, FrameSent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(made, FrameNotSent);
    return made;
  }

  static nghttp2_session* NewSession(const LinkOptions& options, Link* link) {
    // One set for all, kept for ever.
    static const nghttp2_session_callbacks* const callbacks = Make();
    nghttp2_option* option = nullptr;
    KERF_CHECK(nghttp2_option_new(&option) == 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_stream_reset_rate_limit(option, kResetBurst, kResetsPerSecond);
    const bool is_client = options.side == LinkOptions::Side::kClient;
    nghttp2_session* session = nullptr;
    KERF_CHECK((is_client ? nghttp2_session_server_new2 : nghttp2_session_client_new2)(
                   &session, callbacks, link, option) == 0);
    nghttp2_option_del(option);
    std::vector<nghttp2_settings_entry> settings = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options.stream_window_bytes},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, options.max_frame_bytes}};
    if (is_client) {
      settings.push_back({NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options.max_streams});
      settings.push_back({NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, options.max_header_list_bytes});
    } else {
      settings.push_back({NGHTTP2_SETTINGS_ENABLE_PUSH, 0});
    }
    KERF_CHECK(
        nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size()) == 0);
    return session;
  }
};

Link::Link(const LinkOptions& options, std::unique_ptr<Wire> wire, LinkEvents* events,
           BlockPool* pool)
    : options_(options),
      wire_(std::move(wire)),
      events_(events),
      pool_(pool),
      session_(Callbacks::NewSession(options, this)),
      out_(pool) {}

Link::~Link() { nghttp2_session_del(session_); }

Link::ReadResult Link::Read(Time now) {
  if (in_.is_alone()) in_->used_bytes = 0;
  if (in_.get() == nullptr || in_->capacity_bytes - in_->used_bytes < kMinReadBytes) {
    in_ = pool_->New(BlockPool::kReadBytes);
  }
  std::uint8_t* const at = in_->bytes.get() + in_->used_bytes;
  const std::size_t room = in_->capacity_bytes - in_->used_bytes;
  const Wire::Got got = wire_->Read({at, room});
  if (got.kind != Wire::Got::Kind::kBytes) {
    if (in_.is_alone()) in_ = BlockRef();
    return got.kind == Wire::Got::Kind::kNothing ? ReadResult::kNothingMore : ReadResult::kEnded;
  }
  in_->used_bytes += got.size_bytes;
  last_read_ = now;
  const ssize_t taken = nghttp2_session_mem_recv(session_, at, got.size_bytes);
  if (in_.is_alone()) in_ = BlockRef();
  if (taken != static_cast<ssize_t>(got.size_bytes)) return ReadResult::kBroken;
  return got.size_bytes == room ? ReadResult::kMore : ReadResult::kNothingMore;
}

bool Link::Write(Time now) {
  while (true) {
    if (!is_waiting_to_write()) write_progress_ = now;
    if (nghttp2_session_send(session_) != 0) return false;
    if (out_.empty() && !wire_->has_unsent()) return true;
    std::array<iovec, kMaxVectors> vectors;
    const Wire::Put put = wire_->Write(out_.Front(vectors));
    if (!put.is_open) return false;
    if (put.has_moved) write_progress_ = now;
    out_.DropFront(put.size_bytes);
    if (put.size_bytes == 0) return true;
  }
}

bool Link::is_finished() const {
  return out_.empty() && !wire_->has_unsent() && nghttp2_session_want_read(session_) == 0 &&
         nghttp2_session_want_write(session_) == 0;
}

Slice Link::Share(std::span<const std::uint8_t> bytes) const {
  return {.block = in_,
          .at = static_cast<std::size_t>(bytes.data() - in_->bytes.get()),
          .size_bytes = bytes.size()};
}

std::int32_t Link::SubmitRequest(const Headers& headers, Body* body, RelayedCall* call) {
  const std::vector<nghttp2_nv> names = Names(headers);
  const nghttp2_data_provider provider{.source = {.ptr = body},
                                       .read_callback = Callbacks::ReadBody};
  return nghttp2_submit_request(session_, nullptr, names.data(), names.size(),
                                body == nullptr ? nullptr : &provider, call);
}

void Link::SubmitResponse(std::int32_t stream, const Headers& headers, Body* body) {
  const std::vector<nghttp2_nv> names = Names(headers);
  const nghttp2_data_provider provider{.source = {.ptr = body},
                                       .read_callback = Callbacks::ReadBody};
  if (nghttp2_submit_response(session_, stream, names.data(), names.size(),
                              body == nullptr ? nullptr : &provider) != 0) {
    Reset(stream, NGHTTP2_INTERNAL_ERROR);
  }
}

void Link::SetStreamWindow(std::int32_t stream, std::size_t size_bytes) {
  const std::size_t most_bytes = std::numeric_limits<std::int32_t>::max();
  nghttp2_session_set_local_window_size(
      session_, NGHTTP2_FLAG_NONE, stream,
      static_cast<std::int32_t>(std::min(size_bytes, most_bytes)));
}

void Link::SetWindow(std::size_t size_bytes) {
  SetStreamWindow(0, size_bytes);
  // What was too little to tell of with the window as it was may be enough for this one.
  ConsumeOfGone(0);
}

void Link::GoAway(std::uint32_t error) {
  if (std::exchange(was_told_last_, true)) return;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), error, nullptr, 0);
}

}  // namespace kerf::door
