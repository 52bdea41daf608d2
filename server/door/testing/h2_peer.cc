#include "server/door/testing/h2_peer.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace kerf::door {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kBigBytes = std::size_t{1} << 20;
constexpr std::size_t kPartBytes = 100'000;
constexpr std::size_t kMaxOutBytes = std::size_t{256} << 10;

std::vector<nghttp2_nv> Names(const Pairs& headers) {
  std::vector<nghttp2_nv> names;
  for (const auto& [name, value] : headers) {
    names.push_back({.name = reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                     .value = reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())),
                     .namelen = name.size(),
                     .valuelen = value.size(),
                     .flags = NGHTTP2_NV_FLAG_NONE});
  }
  return names;
}

std::string_view Find(const Pairs& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

}  // namespace

std::string_view PeerCall::HeaderOf(std::string_view name) const { return Find(headers, name); }
std::string_view PeerCall::TrailerOf(std::string_view name) const { return Find(trailers, name); }

struct PeerCallbacks {
  static H2Peer& Of(void* user) { return *static_cast<H2Peer*>(user); }

  static PeerCall* Find(H2Peer& peer, std::int32_t stream) {
    const auto found = peer.calls_.find(stream);
    return found == peer.calls_.end() ? nullptr : found->second.get();
  }

  static ssize_t Send(nghttp2_session* /*session*/, const std::uint8_t* bytes, std::size_t size,
                      int /*flags*/, void* user) {
    H2Peer& peer = Of(user);
    if (peer.out_.size() > kMaxOutBytes) return NGHTTP2_ERR_WOULDBLOCK;
    peer.out_.append(reinterpret_cast<const char*>(bytes), size);
    return static_cast<ssize_t>(size);
  }

  static ssize_t ReadBody(nghttp2_session* session, std::int32_t stream, std::uint8_t* buffer,
                          std::size_t size, std::uint32_t* flags, nghttp2_data_source* source,
                          void* /*user*/) {
    auto& call = *static_cast<PeerCall*>(source->ptr);
    if (call.to_send.empty() && !call.is_whole) return NGHTTP2_ERR_DEFERRED;
    const std::size_t taken = std::min(size, call.to_send.size() - call.sent_bytes);
    std::copy_n(call.to_send.data() + call.sent_bytes, taken, buffer);
    call.sent_bytes += taken;
    if (call.sent_bytes == call.to_send.size()) {
      call.to_send.clear();
      call.sent_bytes = 0;
    }
    if (call.to_send.empty() && call.is_whole) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (!call.last_headers.empty()) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        const auto names = Names(call.last_headers);
        nghttp2_submit_trailer(session, stream, names.data(), names.size());
      }
    }
    return static_cast<ssize_t>(taken);
  }

  static int BeginHeaders(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* user) {
    H2Peer& peer = Of(user);
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    peer.last_stream_ = frame->hd.stream_id;
    peer.calls_[frame->hd.stream_id] = std::make_unique<PeerCall>();
    return 0;
  }

  static int Header(nghttp2_session* /*session*/, const nghttp2_frame* frame,
                    const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                    std::size_t value_size, std::uint8_t /*flags*/, void* user) {
    PeerCall* const call = Find(Of(user), frame->hd.stream_id);
    if (call == nullptr) return 0;
    const bool is_first = frame->headers.cat != NGHTTP2_HCAT_HEADERS;
    (is_first ? call->headers : call->trailers)
        .emplace_back(std::string(reinterpret_cast<const char*>(name), name_size),
                      std::string(reinterpret_cast<const char*>(value), value_size));
    return 0;
  }

  static int FrameRead(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* user) {
    H2Peer& peer = Of(user);
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      peer.has_goaway_ = true;
      peer.goaway_error_ = frame->goaway.error_code;
    }
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    PeerCall* const call = Find(peer, frame->hd.stream_id);
    if (call == nullptr) return 0;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) call->is_ended = true;
    if (peer.role_ == H2Peer::Role::kServer) peer.Answer(frame->hd.stream_id);
    return 0;
  }

  static int Data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t stream,
                  const std::uint8_t* bytes, std::size_t size, void* user) {
    H2Peer& peer = Of(user);
    PeerCall* const call = Find(peer, stream);
    if (call == nullptr) return 0;
    call->body.append(reinterpret_cast<const char*>(bytes), size);
    const bool is_held = call->is_held || call->HeaderOf(":path") == "/hold";
    if (peer.is_taking_ && !is_held) nghttp2_session_consume(session, stream, size);
    if (call->HeaderOf(":path") == "/echo") {
      call->to_send.append(reinterpret_cast<const char*>(bytes), size);
      nghttp2_session_resume_data(session, stream);
    }
    return 0;
  }

  // As gRPC does: what is left of the request is not wanted.
  static int FrameSent(nghttp2_session* /*session*/, const nghttp2_frame* frame, void* user) {
    H2Peer& peer = Of(user);
    const bool is_last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    const bool is_of_call = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!is_last || !is_of_call || peer.role_ != H2Peer::Role::kServer) return 0;
    PeerCall* const call = Find(peer, frame->hd.stream_id);
    if (call != nullptr && !call->is_ended) peer.Reset(frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
  }

  static int Closed(nghttp2_session* /*session*/, std::int32_t stream, std::uint32_t error,
                    void* user) {
    if (PeerCall* const call = Find(Of(user), stream); call != nullptr) {
      call->is_closed = true;
      call->error = error;
    }
    return 0;
  }
};

H2Peer::H2Peer(Role role, std::unique_ptr<Wire> wire, std::uint32_t window_bytes)
    : role_(role), wire_(std::move(wire)) {
  nghttp2_session_callbacks* callbacks = nullptr;
  KERF_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
  nghttp2_session_callbacks_set_send_callback(callbacks, PeerCallbacks::Send);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, PeerCallbacks::BeginHeaders);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, PeerCallbacks::Header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, PeerCallbacks::FrameRead);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, PeerCallbacks::Data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, PeerCallbacks::Closed);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, PeerCallbacks::FrameSent);
  nghttp2_option* option = nullptr;
  KERF_CHECK(nghttp2_option_new(&option) == 0);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_send_header_block_length(option, 1 << 20);
  const bool is_client = role == Role::kClient;
  KERF_CHECK((is_client ? nghttp2_session_client_new2 : nghttp2_session_server_new2)(
                 &session_, callbacks, this, option) == 0);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  const std::array<nghttp2_settings_entry, 2> settings = {
      {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window_bytes},
       {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1'000}}};
  KERF_CHECK(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(),
                                     is_client ? 1 : settings.size()) == 0);
  // As gRPC's: no call waits for another one's window.
  KERF_CHECK(nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, 1 << 30) == 0);
}

H2Peer::~H2Peer() { nghttp2_session_del(session_); }

void H2Peer::Answer(std::int32_t stream) {
  PeerCall& call = *calls_.at(stream);
  const std::string_view path = call.HeaderOf(":path");
  const bool is_first = call.last_headers.empty();
  const Pairs headers = {{":status", "200"}, {"content-type", "application/grpc"}};
  const nghttp2_data_provider provider{.source = {.ptr = &call},
                                       .read_callback = PeerCallbacks::ReadBody};
  const auto begin = [&] {
    const auto names = Names(headers);
    nghttp2_submit_response(session_, stream, names.data(), names.size(), &provider);
  };
  if (path == "/echo") {
    if (is_first) {
      call.last_headers = {{"grpc-status", "0"}, {"path", "echo"}};
      begin();
    }
    call.is_whole = call.is_ended;
    nghttp2_session_resume_data(session_, stream);
  } else if (path == "/count" || path == "/hints") {
    if (!call.is_ended || !is_first) return;
    if (path == "/hints") {
      const Pairs early = {{":status", "103"}, {"link", "</style.css>"}};
      const auto hint = Names(early);
      nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream, nullptr, hint.data(), hint.size(),
                             nullptr);
    }
    call.last_headers = {{"grpc-status", "0"}, {"bytes", std::to_string(call.body.size())}};
    call.is_whole = true;
    begin();
  } else if (path == "/reset") {
    if (is_first) Reset(stream, NGHTTP2_REFUSED_STREAM);
    call.last_headers = {{"grpc-status", "0"}};
  } else if (path == "/bare") {
    if (!call.is_ended) return;
    call.to_send = std::to_string(call.body.size());
    call.is_whole = true;
    begin();
  } else if (path == "/big" || path == "/part") {
    if (!is_first) return;
    call.to_send.assign(path == "/big" ? kBigBytes : kPartBytes, 'b');
    call.last_headers = {{"grpc-status", "0"}};
    call.is_whole = true;
    begin();
  } else if (path == "/later") {
    if (!is_first) return;
    call.to_send.assign(10, 'l');
    call.last_headers = {{"grpc-status", "0"}};
    begin();
  } else if (path == "/huge") {
    if (!is_first) return;
    call.last_headers = {{"grpc-status", "0"}};
    call.last_headers.emplace_back("x", std::string(70'000, 'x'));
    call.is_whole = true;
    begin();
  } else if (path != "/hold") {
    if (!is_first) return;
    call.last_headers = {{"grpc-status", path == "/early" ? "0" : "12"}};
    Pairs all = headers;
    all.insert(all.end(), call.last_headers.begin(), call.last_headers.end());
    const auto names = Names(all);
    nghttp2_submit_response(session_, stream, names.data(), names.size(), nullptr);
  }
}

bool H2Peer::Write() {
  bool has_moved = false;
  while (true) {
    if (nghttp2_session_send(session_) != 0) {
      CloseSocket();
      return has_moved;
    }
    if (out_.empty() && !wire_->has_unsent()) return has_moved;
    const iovec all{.iov_base = out_.data(), .iov_len = out_.size()};
    const Wire::Put put = wire_->Write({&all, out_.empty() ? std::size_t{0} : std::size_t{1}});
    if (!put.is_open) CloseSocket();
    has_moved |= put.has_moved;
    if (put.size_bytes == 0) return has_moved;
    has_moved = true;
    out_.erase(0, put.size_bytes);
  }
}

bool H2Peer::Read() {
  std::array<std::uint8_t, 16'384> bytes;
  // Of TLS, a part of a record may be all that comes.
  const bool is_some = recv(wire_->socket(), bytes.data(), 1, MSG_PEEK) > 0;
  const Wire::Got got = wire_->Read(bytes);
  if (got.kind == Wire::Got::Kind::kNothing) return is_some;
  const bool is_good = got.kind == Wire::Got::Kind::kBytes &&
                       nghttp2_session_mem_recv(session_, bytes.data(), got.size_bytes) ==
                           static_cast<ssize_t>(got.size_bytes);
  if (!is_good) CloseSocket();
  return true;
}

bool H2Peer::Move() {
  bool has_moved = false;
  if (is_open()) has_moved |= Write();
  if (is_open()) has_moved |= Read();
  if (is_open()) has_moved |= Write();
  return has_moved;
}

std::int32_t H2Peer::Call(std::string_view path, std::string body, bool is_whole,
                          Pairs more_headers) {
  auto call = std::make_unique<PeerCall>();
  call->to_send = std::move(body);
  call->is_whole = is_whole;
  Pairs headers = {{":method", "POST"},
                   {":scheme", "http"},
                   {":path", std::string(path)},
                   {":authority", "localhost"},
                   {"content-type", "application/grpc"},
                   {"te", "trailers"}};
  headers.insert(headers.end(), more_headers.begin(), more_headers.end());
  const auto names = Names(headers);
  const nghttp2_data_provider provider{.source = {.ptr = call.get()},
                                       .read_callback = PeerCallbacks::ReadBody};
  const std::int32_t stream =
      nghttp2_submit_request(session_, nullptr, names.data(), names.size(), &provider, nullptr);
  if (stream > 0) {
    calls_[stream] = std::move(call);
    last_stream_ = stream;
  }
  return stream;
}

void H2Peer::Send(std::int32_t stream, std::string_view bytes, bool is_whole) {
  PeerCall& sender = call(stream);
  sender.to_send += bytes;
  sender.is_whole = is_whole;
  nghttp2_session_resume_data(session_, stream);
}

void H2Peer::Reset(std::int32_t stream, std::uint32_t error) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, error);
}

void H2Peer::End(std::int32_t stream) {
  call(stream).is_whole = true;
  nghttp2_session_resume_data(session_, stream);
}

void H2Peer::GoAway() {
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

}  // namespace kerf::door
