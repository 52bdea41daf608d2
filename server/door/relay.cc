#include "server/door/relay.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "base/check.h"
#include "base/request_id.h"
#include "base/strings.h"

namespace kerf::door {
namespace {

// What HTTP/2 gives a connection before anything is said, whatever its streams have.
constexpr std::size_t kInitialWindowBytes = 65'535;
// Each name and value counts so much more (RFC 9113, 6.5.2).
constexpr std::size_t kHeaderOverheadBytes = 32;
// Smaller pieces are copied.
constexpr std::size_t kMinSharedBytes = 1024;
constexpr std::uint32_t kMaxFrameBytes = 64 << 10;
// Of one connection, before others have their turn.
constexpr int kReadsPerTurn = 4;
// Of what windows grow into, and is left, what one may grow by; and of what is left of his part.
constexpr std::size_t kGrowthPart = 8;
constexpr std::size_t kOwnGrowthPart = 4;
// Of what windows grow into, what anybody may have, whatever his part is.
constexpr std::size_t kFreePart = 2;

// Of the windows of one connection's calls that have grown: twice as much is less than HTTP/2's
// largest window.
constexpr std::size_t kMaxGrownBytes = std::size_t{1'000} << 20;

// In cancelled calls, of a connection that had to be ended.
constexpr std::size_t kHostileConnectionCost = 20;

LinkOptions ClientLink(const RelayContext& context) {
  return {.side = LinkOptions::Side::kClient,
          .max_frame_bytes = kMaxFrameBytes,
          .stream_window_bytes = static_cast<std::uint32_t>(context.first_window_bytes),
          .max_streams = context.options->max_calls,
          .max_header_list_bytes = static_cast<std::uint32_t>(context.options->max_metadata_bytes),
          .max_ahead_bytes = context.max_ahead_bytes};
}

bool IsUnix(const ClientAddress& address) { return address.text.starts_with("unix:"); }

std::unique_ptr<Wire> ClientWire(const RelayContext& context, const ClientAddress& address,
                                 UniqueFd socket) {
  if (context.new_session == nullptr || IsUnix(address)) return MakeClearWire(std::move(socket));
  return MakeTlsWire(std::move(socket), context.new_session());
}

LinkOptions ServerLink(const RelayContext& context) {
  return {.side = LinkOptions::Side::kServer,
          .max_frame_bytes = kMaxFrameBytes,
          .stream_window_bytes = static_cast<std::uint32_t>(context.first_window_bytes),
          .max_ahead_bytes = context.max_ahead_bytes};
}

bool IsPost(const Headers& headers) {
  return std::any_of(headers.begin(), headers.end(), [](const auto& header) {
    return header.first == ":method" && header.second == "POST";
  });
}

}  // namespace

Relay::Relay(const RelayContext* context, UniqueFd client, ClientAddress address, Time now)
    : context_(*context),
      address_(std::move(address)),
      begun_at_(now),
      now_(now),
      memory_(context->memory),
      idle_since_(now) {
  LinkEvents* const events = this;
  client_ = std::make_unique<Link>(ClientLink(context_),
                                   ClientWire(context_, address_, std::move(client)), events,
                                   context_.pool);
  Flush();
}

void Relay::Close() {
  is_done_ = true;
  if (client_ == nullptr) return;
  std::size_t cancelled_count = 0;
  for (const auto& [stream, call] : calls_) {
    if (call->is_client_open && !call->is_end_sent) ++cancelled_count;
  }
  CountCancelled(cancelled_count);
  // Whoever does nothing but shake hands has us pay for each.
  if (client_->has_greeted() && !client_->has_settings())
    context_.cancels->Take(address_.key, 1, now_);
  client_.reset();
  server_.reset();
  calls_.clear();
  if (windows_ != nullptr) windows_->GiveBack(memory_.bytes());
  memory_.Set(0);
}

void Relay::OnReady(Side side, bool is_readable, Time now) {
  now_ = now;
  if (is_readable && side == Side::kClient) ReadClient();
  if (is_readable && side == Side::kServer) ReadServer();
  Flush();
}

void Relay::ReadClient() {
  for (int turn = 0; turn < kReadsPerTurn && !is_done_; ++turn) {
    switch (client_->Read(now_)) {
      case Link::ReadResult::kMore:
        Flush();
        break;
      case Link::ReadResult::kNothingMore:
        return;
      case Link::ReadResult::kBroken:
        if (end_reason_ == EndReason::kClosed) end_reason_ = EndReason::kNotHttp2;
        // For its last word, which says what was wrong.
        Flush();
        End(end_reason_);
        return;
      case Link::ReadResult::kEnded:
        End(client_->failure().value_or(end_reason_));
        return;
    }
  }
}

void Relay::ReadServer() {
  for (int turn = 0; turn < kReadsPerTurn && server_ != nullptr && !is_done_; ++turn) {
    switch (server_->Read(now_)) {
      case Link::ReadResult::kMore:
        Flush();
        break;
      case Link::ReadResult::kNothingMore:
        return;
      case Link::ReadResult::kBroken:
      case Link::ReadResult::kEnded:
        LoseServer();
        return;
    }
  }
}

// What one side takes gives the other side's windows back, so that it may have something to say.
void Relay::Flush() {
  while (!is_done_) {
    if (!client_->Write(now_)) return End(client_->failure().value_or(end_reason_));
    if (server_ != nullptr && !server_->Write(now_)) {
      // It may have said something before it went.
      while (server_->Read(now_) == Link::ReadResult::kMore) {
      }
      LoseServer();
    }
    if (server_ != nullptr && server_->is_finished()) LoseServer();
    const bool has_more = client_->has_more() || (server_ != nullptr && server_->has_more());
    if (!has_more) break;
  }
  if (!is_done_ && client_->is_finished()) End(end_reason_);
}

void Relay::End(EndReason reason) {
  if (is_done_) return;
  // Whether it has heard so, or was gone before.
  if (reason == EndReason::kClosed && client_->is_broken()) reason = EndReason::kNotHttp2;
  const bool is_hostile = reason == EndReason::kNotHttp2 || reason == EndReason::kLargeHeader ||
                          reason == EndReason::kSlowHeader || client_->failure().has_value();
  // It would come again at once, which costs a client less than it costs us.
  if (is_hostile) context_.cancels->Take(address_.key, kHostileConnectionCost, now_);
  is_done_ = true;
  end_reason_ = reason;
}

void Relay::GoAway(Time now) {
  now_ = now;
  client_->GoAway(NGHTTP2_NO_ERROR);
  Flush();
}

bool Relay::OpenServer() {
  UniqueFd socket = context_.connect();
  if (!socket.valid()) return false;
  ++server_count_;
  LinkEvents* const events = this;
  server_ = std::make_unique<Link>(ServerLink(context_), MakeClearWire(std::move(socket)), events,
                                   context_.pool);
  server_->SetWindow(context_.server_window_bytes);
  return true;
}

void Relay::LoseServer() {
  server_.reset();
  std::vector<RelayedCall*> lost;
  for (const auto& [stream, call] : calls_) {
    call->is_server_lost = true;
    if (call->is_server_open) lost.push_back(call.get());
  }
  for (RelayedCall* const call : lost) OnServerClosed(*call, NGHTTP2_NO_ERROR);
}

// Headers.

RelayedCall& Relay::OnHeadersBegin(Link& link, std::int32_t stream, RelayedCall* call) {
  if (link.is_client()) {
    header_since_ = now_;
    header_stream_ = stream;
  }
  if (call == nullptr) {
    auto begun = std::make_unique<RelayedCall>(context_.pool);
    call = begun.get();
    call->client_stream = stream;
    call->heard_at = now_;
    calls_[stream] = std::move(begun);
  }
  // A client's block behind its request's is counted, and not kept.
  if (!link.is_client()) call->headers.clear();
  call->header_bytes = 0;
  return *call;
}

bool Relay::OnHeader(Link& link, RelayedCall& call, std::string_view name, std::string_view value) {
  if (link.is_client()) {
    call.header_bytes += name.size() + value.size() + kHeaderOverheadBytes;
    if (call.header_bytes > context_.options->max_header_bytes) {
      end_reason_ = EndReason::kLargeHeader;
      return false;
    }
    if (call.has_request_headers || name == context_.peer_header) return true;
    if (name == context_.seen_header) return true;
    if (call.header_bytes > context_.options->max_metadata_bytes) {
      call.is_too_large = true;
      return true;
    }
  }
  call.headers.emplace_back(name, value);
  return true;
}

void Relay::OnHeadersEnd(Link& link, RelayedCall& call, bool is_last) {
  if (!link.is_client()) return Answer(call, is_last);
  header_since_.reset();
  if (!std::exchange(call.has_request_headers, true)) return BeginCall(call, is_last);
  if (is_last) EndRequest(call);
}

void Relay::BeginCall(RelayedCall& call, bool is_last) {
  call.request.is_whole = is_last;
  if (client_->was_told_last()) {
    // It has crossed the GOAWAY, which says that it was not looked at.
    call.is_end_sent = true;
    return client_->Reset(call.client_stream, NGHTTP2_REFUSED_STREAM);
  }
  context_.metrics->calls.Add();
  // All of gRPC is POST. A CONNECT has no path, by which gRPC would look for whom it is; and 200,
  // by which a refusal begins, would tell its client that a tunnel is there.
  if (!IsPost(call.headers)) return RefuseMethod(call);
  if (call.is_too_large) return TurnAway(call, RefusedCallReason::kLargeMetadata);
  if (!TakePlace()) {
    // Others of his may find a place where this one has none.
    client_->GoAway(NGHTTP2_NO_ERROR);
    return TurnAway(call, RefusedCallReason::kManyConnections);
  }
  if (server_ == nullptr && !OpenServer()) return Fail(call, RefusedCallReason::kNoServer);
  if (!TakeWindows(call)) return TurnAway(call, RefusedCallReason::kNoMemory);
  call.headers.emplace_back(context_.peer_header, Cat(context_.peer_stamp, address_.text));
  if (!context_.seen_header.empty()) {
    call.headers.emplace_back(context_.seen_header, Cat(context_.peer_stamp, Seen()));
  }
  call.server_stream =
      server_->SubmitRequest(call.headers, is_last ? nullptr : &call.request, &call);
  call.headers.clear();
  if (call.server_stream < 0) {
    // All numbers of that connection's streams are used up, or it is about to end.
    client_->GoAway(NGHTTP2_NO_ERROR);
    return Fail(call, RefusedCallReason::kNoServer);
  }
  call.is_server_open = true;
}

bool Relay::TakePlace() {
  if (place_.has_value()) return true;
  const auto& limit_of = context_.options->max_connections_of;
  const std::string seen = Seen();
  const std::optional<std::uint64_t> limit = limit_of ? limit_of(seen) : std::nullopt;
  place_ = limit.has_value() ? context_.places->Enter(seen, *limit) : Places::Hold();
  return place_.has_value();
}

std::string Relay::Seen() const {
  if (!IsUnix(address_)) return client_->seen();
  return address_.user.has_value() ? Cat("unix ", *address_.user) : "unix";
}

std::uint64_t Relay::Number() const {
  const std::string_view address(reinterpret_cast<const char*>(address_.key.data()),
                                 address_.key.size());
  const std::string seen = Seen();
  return absl::HashOf(seen.starts_with("tls ") ? seen : Cat(seen, " ", address));
}

void Relay::EndRequest(RelayedCall& call) {
  call.request.is_whole = true;
  if (call.is_server_open) server_->Resume(call.server_stream);
}

void Relay::Answer(RelayedCall& call, bool is_last) {
  if (!call.is_client_open || call.is_end_sent) return;
  // An informational one; the answer follows.
  if (!call.is_answered && !call.headers.empty() && call.headers.front().first == ":status" &&
      call.headers.front().second.starts_with('1')) {
    return;
  }
  if (!std::exchange(call.is_answered, true)) {
    call.answer.is_whole = is_last;
    client_->SubmitResponse(call.client_stream, call.headers, is_last ? nullptr : &call.answer);
  } else {
    call.answer.trailers = std::move(call.headers);
    EndAnswer(call);
  }
  call.headers.clear();
}

void Relay::EndAnswer(RelayedCall& call) {
  call.answer.is_whole = true;
  // The end waits for a window as bytes do.
  if (!call.unread_since.has_value()) call.unread_since = now_;
  client_->Resume(call.client_stream);
}

void Relay::TurnAway(RelayedCall& call, RefusedCallReason reason) {
  if (context_.options->on_turned_away) {
    TurnedAway client{.peer = address_.text, .why = reason, .seen = Seen()};
    for (const auto& [name, value] : call.headers) {
      if (name == ":path") client.method = value;
      if (name == kRequestIdMetadata) client.request_id = value;
    }
    context_.options->on_turned_away(std::move(client));
  }
  Fail(call, reason);
}

void Relay::RefuseMethod(RelayedCall& call) {
  call.is_answered = true;
  call.answer.is_whole = true;
  client_->SubmitResponse(call.client_stream, {{":status", "405"}, {"allow", "POST"}}, nullptr);
}

void Relay::Fail(RelayedCall& call, RefusedCallReason reason) {
  if (!call.is_client_open || call.answer.is_whole) return;
  context_.metrics->Refused(reason).Add();
  const Refusal& refusal = context_.options->refusals[static_cast<std::size_t>(reason)];
  Headers end = {{"grpc-status", refusal.status}, {"grpc-message", refusal.message}};
  if (!refusal.details.empty()) end.emplace_back("grpc-status-details-bin", refusal.details);
  call.answer.is_whole = true;
  if (std::exchange(call.is_answered, true)) {
    call.answer.trailers = std::move(end);
    return EndAnswer(call);
  }
  Headers headers = {{":status", "200"}, {"content-type", "application/grpc"}};
  headers.insert(headers.end(), end.begin(), end.end());
  client_->SubmitResponse(call.client_stream, headers, nullptr);
}

// Bodies.

bool Relay::MayShare(std::size_t size_bytes) const {
  return size_bytes >= kMinSharedBytes && context_.pool->used_bytes() < context_.max_shared_bytes;
}

void Relay::OnData(Link& link, RelayedCall* call, std::int32_t stream,
                   std::span<const std::uint8_t> bytes) {
  if (call == nullptr) return link.ConsumeOfGone(bytes.size());
  const bool is_request = link.is_client();
  const bool is_wanted =
      is_request ? call->is_server_open : call->is_client_open && !call->answer.is_whole;
  if (!is_wanted) {
    return link.Consume(stream, bytes.size());
  }
  SliceQueue& queue = is_request ? call->request.bytes : call->answer.bytes;
  if (MayShare(bytes.size())) {
    queue.Append(link.Share(bytes));
  } else {
    queue.AppendCopy(bytes);
  }
  if (is_request) {
    call->heard_at = now_;
    server_->Resume(call->server_stream);
    GrowWindow(*call, bytes.size());
  } else {
    if (!call->unread_since.has_value()) call->unread_since = now_;
    client_->Resume(call->client_stream);
  }
}

void Relay::OnDataEnd(Link& link, RelayedCall& call) {
  if (link.is_client()) return EndRequest(call);
  if (call.is_client_open && !call.answer.is_whole) EndAnswer(call);
}

void Relay::OnBodySent(Link& link, RelayedCall& call, std::size_t size_bytes) {
  if (!link.is_client()) {
    if (call.is_client_open) return client_->Consume(call.client_stream, size_bytes);
    return client_->ConsumeOfGone(size_bytes);
  }
  const bool is_all = call.answer.bytes.empty() && !call.answer.is_whole;
  call.unread_since = is_all ? std::nullopt : std::optional<Time>(now_);
  ConsumeOfServer(call, size_bytes);
}

void Relay::ConsumeOfServer(const RelayedCall& call, std::size_t size_bytes) {
  if (server_ == nullptr || call.is_server_lost) return;
  if (call.is_server_open) return server_->Consume(call.server_stream, size_bytes);
  server_->ConsumeOfGone(size_bytes);
}

// Ends.

void Relay::OnLastSent(Link& link, RelayedCall& call) {
  if (!link.is_client()) return;
  call.is_end_sent = true;
  call.unread_since.reset();
  // The rest of the request is not wanted.
  if (!call.is_server_open && !call.request.is_whole) {
    client_->Reset(call.client_stream, NGHTTP2_NO_ERROR);
  }
}

void Relay::OnHeadersNotSent(Link& link, RelayedCall& call) {
  // nghttp2 closes the stream of a request itself.
  if (!link.is_client()) return;
  call.is_end_sent = true;
  client_->Reset(call.client_stream, NGHTTP2_INTERNAL_ERROR);
}

void Relay::OnClosed(Link& link, RelayedCall& call, std::uint32_t error) {
  if (link.is_client()) {
    OnClientClosed(call, error);
  } else {
    OnServerClosed(call, error);
  }
}

void Relay::OnClientClosed(RelayedCall& call, std::uint32_t error) {
  call.is_client_open = false;
  call.unread_since.reset();
  if (header_stream_ == call.client_stream) header_since_.reset();
  if (!call.is_end_sent) CountCancelled(1);
  if (call.is_server_open) {
    server_->Reset(call.server_stream,
                   error != NGHTTP2_NO_ERROR ? error : std::uint32_t{NGHTTP2_CANCEL});
  }
  ForgetIfOver(call);
}

void Relay::OnServerClosed(RelayedCall& call, std::uint32_t error) {
  call.is_server_open = false;
  if (const std::size_t left_bytes = call.request.bytes.size_bytes(); left_bytes > 0) {
    call.request.bytes.Clear();
    if (call.is_client_open) {
      client_->Consume(call.client_stream, left_bytes);
    } else {
      client_->ConsumeOfGone(left_bytes);
    }
  }
  if (!call.is_client_open) return ForgetIfOver(call);
  if (call.answer.is_whole) {
    if (call.is_end_sent && !call.request.is_whole) {
      client_->Reset(call.client_stream, NGHTTP2_NO_ERROR);
    }
  } else if (error == NGHTTP2_NO_ERROR) {
    Fail(call, RefusedCallReason::kNoServer);
  } else {
    call.is_end_sent = true;
    client_->Reset(call.client_stream, error);
  }
}

void Relay::ForgetIfOver(RelayedCall& call) {
  if (call.is_client_open || call.is_server_open) return;
  ConsumeOfServer(call, call.answer.bytes.size_bytes());
  GiveWindowsBack(call);
  calls_.erase(call.client_stream);
  if (calls_.empty()) idle_since_ = now_;
}

void Relay::OnGoAway(Link& link) {
  // The client's own: its calls go on, and the link ends with the last of them.
  if (link.is_client()) return;
  client_->GoAway(NGHTTP2_NO_ERROR);
}

void Relay::CountCancelled(std::size_t count) {
  if (count == 0) return;
  context_.metrics->calls_cancelled.Add(count);
  if (context_.cancels->Take(address_.key, count, now_) || is_done_) return;
  end_reason_ = EndReason::kCancels;
  client_->GoAway(NGHTTP2_ENHANCE_YOUR_CALM);
}

// Windows.

bool Relay::TakeWindows(RelayedCall& call) {
  const std::size_t window_bytes = context_.first_window_bytes;
  if (!memory_.Set(memory_.bytes() + 2 * window_bytes)) return false;
  if (windows_ == nullptr) windows_ = context_.windows->ShareOf(Number());
  windows_->Take(2 * window_bytes);
  call.window_bytes = window_bytes;
  client_windows_bytes_ += window_bytes;
  SetWindow();
  return true;
}

void Relay::GrowWindow(RelayedCall& call, std::size_t received_bytes) {
  call.received_since_growth_bytes += received_bytes;
  if (call.window_bytes >= kMaxWindowBytes ||
      call.received_since_growth_bytes < call.window_bytes / 2) {
    return;
  }
  call.received_since_growth_bytes = 0;
  const std::size_t more_bytes =
      std::min<std::size_t>(kMaxWindowBytes - call.window_bytes, MayGrowBy());
  if (more_bytes < context_.first_window_bytes / 2) return;
  if (client_windows_bytes_ + more_bytes > kMaxGrownBytes) return;
  if (!memory_.Set(memory_.bytes() + more_bytes)) return;
  windows_->Take(more_bytes);
  call.window_bytes += more_bytes;
  client_windows_bytes_ += more_bytes;
  client_->SetStreamWindow(call.client_stream, call.window_bytes);
  SetWindow();
}

// One who has many calls must not leave others the windows that calls begin with: with those they
// would have as much a round trip. Where there is enough for all, nobody is kept to his part.
std::size_t Relay::MayGrowBy() const {
  const auto left = [](std::size_t limit_bytes, std::size_t used_bytes) {
    return limit_bytes - std::min(limit_bytes, used_bytes);
  };
  const MemoryBudget& total = context_.windows->total();
  const std::size_t limit_bytes = total.limit_bytes();
  const std::size_t used_bytes = total.used_bytes();
  // Whoever is there divides for whom it carries.
  if (context_.options->is_behind_fronts) return left(limit_bytes, used_bytes) / kGrowthPart;
  const std::size_t common_bytes = left(limit_bytes / kFreePart, used_bytes);
  // What others had before somebody came stays theirs: so all together have more than the limit,
  // and half as much again at most. The rest is there for calls that begin.
  if (!windows_->MayGrow()) return common_bytes / kGrowthPart;
  const std::size_t own_bytes = std::min(left(windows_->part_bytes(), windows_->used_bytes()),
                                         left(limit_bytes + limit_bytes / 2, used_bytes));
  return std::max(common_bytes / kGrowthPart, own_bytes / kOwnGrowthPart);
}

void Relay::GiveWindowsBack(RelayedCall& call) {
  if (call.window_bytes == 0) return;
  const std::size_t server_window_bytes = context_.first_window_bytes;
  KERF_CHECK(memory_.Set(memory_.bytes() - call.window_bytes - server_window_bytes));
  windows_->GiveBack(call.window_bytes + server_window_bytes);
  client_windows_bytes_ -= call.window_bytes;
  call.window_bytes = 0;
  SetWindow();
}

// No call waits for another one's window, however many of them stand: what was taken of the others
// is told of once it is half of the connection's, and the other half is all of theirs.
void Relay::SetWindow() { client_->SetWindow(kInitialWindowBytes + 2 * client_windows_bytes_); }

// Time.

void Relay::CheckCallTime(RelayedCall& call) {
  const DoorTimes& times = context_.options->times;
  if (call.unread_since.has_value() && now_ - *call.unread_since > times.unread) {
    call.unread_since.reset();
    call.is_end_sent = true;
    client_->Reset(call.client_stream, NGHTTP2_CANCEL);
    return;
  }
  const bool is_waited_for = !call.request.is_whole && !call.is_answered && call.is_server_open;
  if (!is_waited_for || now_ - call.heard_at <= times.request) return;
  Fail(call, RefusedCallReason::kSlowRequest);
  server_->Reset(call.server_stream, NGHTTP2_CANCEL);
}

void Relay::CheckTime(Time now) {
  now_ = now;
  const DoorTimes& times = context_.options->times;
  if (!client_->has_settings() && now - begun_at_ > times.first_frame) {
    return End(EndReason::kSilent);
  }
  if (header_since_.has_value() && now - *header_since_ > times.header) {
    return End(EndReason::kSlowHeader);
  }
  if (client_->is_waiting_to_write() && now - client_->write_progress() > times.unread) {
    return End(EndReason::kNotReading);
  }
  if (calls_.empty() && now - idle_since_ > times.idle) {
    end_reason_ = EndReason::kIdle;
    client_->GoAway(NGHTTP2_NO_ERROR);
  }
  if (ping_sent_at_.has_value() && client_->last_read() >= *ping_sent_at_) ping_sent_at_.reset();
  if (ping_sent_at_.has_value()) {
    if (now - *ping_sent_at_ > times.ping_timeout) return End(EndReason::kNoPing);
  } else if (client_->has_settings() && now - client_->last_read() > times.ping) {
    ping_sent_at_ = now;
    client_->SubmitPing();
  }
  // None is taken away by this: that comes with its reset, which is read later.
  for (const auto& [stream, call] : calls_) CheckCallTime(*call);
  Flush();
}

}  // namespace kerf::door
