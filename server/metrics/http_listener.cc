#include "server/metrics/http_listener.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <list>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/tls/tls_source.h"
#include "base/unique_fd.h"
#include "server/net/listen_address.h"

namespace kerf::metrics {
namespace {

using std::chrono::steady_clock;

// How often connections are looked at for their time.
constexpr timeval kSweep{.tv_sec = 0, .tv_usec = 250'000};

template <auto kFree>
struct Freed {
  template <typename Object>
  void operator()(Object* object) const {
    kFree(object);
  }
};
using Base = std::unique_ptr<event_base, Freed<event_base_free>>;
using Event = std::unique_ptr<event, Freed<event_free>>;
using Http = std::unique_ptr<evhttp, Freed<evhttp_free>>;

class EventListener final : public HttpListener {
 public:
  EventListener(const HttpLimits& limits, Handler handler, const TlsSource* tls)
      : limits_(limits), handler_(std::move(handler)), tls_(tls) {}
  ~EventListener() override;

  absl::Status Listen(const std::string& address);
  const std::string& address() const override { return address_; }

 private:
  struct Connection {
    // This holds it beside libevent, so that its socket is not closed, and another opened under the
    // same number, while it stands here.
    bufferevent* stream = nullptr;
    steady_clock::time_point began;
    bool is_shut = false;
  };

  static bufferevent* OnConnection(event_base* base, void* self);
  bufferevent* MakeStream(event_base* base) const;
  static void OnRequest(evhttp_request* request, void* self);
  // No more descriptors, say: to be tried again later, and not in a loop.
  static void OnAcceptError(evconnlistener* listener, void* /*self*/) {
    evconnlistener_disable(listener);
  }
  static void OnSweep(evutil_socket_t, short, void* self) {
    static_cast<EventListener*>(self)->Sweep();
  }
  static void OnStop(evutil_socket_t, short, void* self) {
    event_base_loopbreak(static_cast<EventListener*>(self)->base_.get());
  }
  // Those that libevent has ended are let go, those whose time is over are ended.
  void Sweep();
  void Answer(evhttp_request* request);
  bool IsOfProvenPeer(evhttp_request& request) const;

  const HttpLimits limits_;
  const Handler handler_;
  // Null: in the clear.
  const TlsSource* const tls_;
  std::string address_;
  UniqueFd stop_;
  Base base_;
  Event stop_event_;
  Event sweep_event_;
  Http http_;
  evconnlistener* listener_ = nullptr;
  // The thread's own; the oldest first.
  std::list<Connection> connections_;
  std::thread thread_;
};

absl::Status EventListener::Listen(const std::string& address) {
  KERF_ASSIGN_OR_RETURN(const ListenAddress parsed, ParseListenAddress(address));
  if (parsed.is_unix) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("'", address, "': HTTP is served at HOST:PORT, as 127.0.0.1:9461")));
  }
  const std::size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  const auto port = static_cast<std::uint16_t>(std::stoul(address.substr(colon + 1)));

  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  base_ = Base(event_base_new());
  if (!stop_.valid() || base_ == nullptr) return absl::InternalError("libevent did not start");
  stop_event_ = Event(event_new(base_.get(), stop_.get(), EV_READ, OnStop, this));
  sweep_event_ = Event(event_new(base_.get(), -1, EV_PERSIST, OnSweep, this));
  http_ = Http(evhttp_new(base_.get()));
  event_add(stop_event_.get(), nullptr);
  event_add(sweep_event_.get(), &kSweep);
  evhttp_set_allowed_methods(http_.get(), EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
  evhttp_set_max_headers_size(http_.get(), static_cast<ev_ssize_t>(limits_.max_request_bytes));
  evhttp_set_max_body_size(http_.get(), 0);
  evhttp_set_bevcb(http_.get(), OnConnection, this);
  evhttp_set_gencb(http_.get(), OnRequest, this);
  evhttp_bound_socket* const socket =
      evhttp_bind_socket_with_handle(http_.get(), host.c_str(), port);
  if (socket == nullptr) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("cannot listen on ", address,
                   ": the address is in use, not of this machine, or not permitted")));
  }
  listener_ = evhttp_bound_socket_get_listener(socket);
  evconnlistener_set_error_cb(listener_, OnAcceptError);
  sockaddr_storage bound{};
  socklen_t bound_bytes = sizeof bound;
  if (getsockname(evhttp_bound_socket_get_fd(socket), reinterpret_cast<sockaddr*>(&bound),
                  &bound_bytes) != 0) {
    return absl::InternalError("a socket without an address");
  }
  const std::uint16_t bound_port = bound.ss_family == AF_INET6
                                       ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                       : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port;
  address_ = Cat(address.substr(0, colon + 1), ntohs(bound_port));
  thread_ = std::thread([this] { event_base_dispatch(base_.get()); });
  return absl::OkStatus();
}

EventListener::~EventListener() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    while (write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  // It ends its connections, and then these are the last that hold them.
  http_.reset();
  for (const Connection& connection : connections_) bufferevent_decref(connection.stream);
}

bufferevent* EventListener::MakeStream(event_base* base) const {
  if (tls_ == nullptr) return bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
  // libevent frees the session with the stream, or at once if there is none.
  return bufferevent_openssl_socket_new(base, -1, tls_->current()->NewSession().release(),
                                        BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
}

bufferevent* EventListener::OnConnection(event_base* base, void* self) {
  auto& listener = *static_cast<EventListener*>(self);
  bufferevent* const stream = listener.MakeStream(base);
  if (stream == nullptr) return nullptr;
  bufferevent_incref(stream);
  listener.Sweep();
  listener.connections_.push_back({.stream = stream, .began = steady_clock::now()});
  return stream;
}

void EventListener::Sweep() {
  std::size_t open_count = 0;
  for (auto at = connections_.begin(); at != connections_.end();) {
    // libevent takes its callbacks off what it has ended.
    bufferevent_event_cb on_event = nullptr;
    bufferevent_getcb(at->stream, nullptr, nullptr, &on_event, nullptr);
    if (on_event == nullptr) {
      bufferevent_decref(at->stream);
      at = connections_.erase(at);
      continue;
    }
    open_count += at->is_shut ? 0 : 1;
    ++at;
  }
  const steady_clock::time_point now = steady_clock::now();
  for (Connection& connection : connections_) {
    const bool is_over = now - connection.began >= limits_.connection_time;
    if (!is_over && open_count < limits_.max_connections) break;
    if (std::exchange(connection.is_shut, true)) continue;
    // libevent sees that soon, and ends it.
    shutdown(bufferevent_getfd(connection.stream), SHUT_RDWR);
    --open_count;
  }
  evconnlistener_enable(listener_);
}

bool EventListener::IsOfProvenPeer(evhttp_request& request) const {
  if (tls_ == nullptr) return false;
  bufferevent* const stream =
      evhttp_connection_get_bufferevent(evhttp_request_get_connection(&request));
  const SSL* const session = bufferevent_openssl_get_ssl(stream);
  return session != nullptr && IsProven(*session);
}

void EventListener::OnRequest(evhttp_request* request, void* self) {
  static_cast<EventListener*>(self)->Answer(request);
}

void EventListener::Answer(evhttp_request* request) {
  const std::string_view uri = evhttp_request_get_uri(request);
  HttpAnswer answer = handler_({uri.substr(0, uri.find('?')), IsOfProvenPeer(*request)});
  evkeyvalq* const headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Content-Type", answer.content_type.c_str());
  evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
  evhttp_add_header(headers, "Cache-Control", "no-store");
  if (!answer.content_security_policy.empty()) {
    evhttp_add_header(headers, "Content-Security-Policy", answer.content_security_policy.c_str());
  }
  evhttp_add_header(headers, "Connection", "close");
  if (evhttp_request_get_command(request) == EVHTTP_REQ_HEAD) {
    evhttp_add_header(headers, "Content-Length", Cat(answer.body.size()).c_str());
    answer.body.clear();
  }
  evbuffer* const body = evbuffer_new();
  evbuffer_add(body, answer.body.data(), answer.body.size());
  evhttp_send_reply(request, answer.code, nullptr, body);
  evbuffer_free(body);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(const std::string& address,
                                                                  const HttpLimits& limits,
                                                                  Handler handler,
                                                                  const TlsSource* tls) {
  auto listener = std::make_unique<EventListener>(limits, std::move(handler), tls);
  KERF_RETURN_IF_ERROR(listener->Listen(address));
  return std::unique_ptr<HttpListener>(std::move(listener));
}

}  // namespace kerf::metrics
