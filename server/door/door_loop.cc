#include "server/door/door_loop.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "server/logging/rated_log.h"

namespace kerf::door {
namespace {

// How often times are looked at, and listeners armed anew.
constexpr std::chrono::milliseconds kCheckInterval{250};
constexpr std::chrono::milliseconds kStopPoll{20};
constexpr std::size_t kMaxEvents = 64;
// Of one listener, before others have their turn.
constexpr int kAcceptsPerTurn = 64;
// Of which one makes room for another.
constexpr int kDrawnForRoom = 16;

// But for those that were just closed.
void LogEnded(const ClientAddress& address, EndReason reason) {
  if (reason == EndReason::kClosed || reason == EndReason::kIdle) return;
  LogRated(LogLevel::kWarning, Cat("connection ended: ", NameOf(reason)),
           Cat("ended a connection: ", TextOf(reason)),
           {{"peer", address.text}, {"reason", std::string(NameOf(reason))}});
}

void LogNoSockets(int error) {
  LogRated(
      LogLevel::kError, "no sockets",
      Cat("takes no connections until there are file descriptors again: ", std::strerror(error)));
}

}  // namespace

DoorLoop::DoorLoop(const RelayContext& context, std::span<const UniqueFd> listeners)
    : context_(context),
      listeners_(listeners),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      watched_listeners_(listeners.size()),
      is_listener_armed_(listeners.size(), false),
      random_(std::random_device()()) {
  context_.pool = &pool_;
  KERF_CHECK(epoll_.valid() && wakeup_.valid());
  KERF_CHECK(Control(EPOLL_CTL_ADD, wakeup_.get(), EPOLLIN, nullptr));
  for (std::size_t index = 0; index < listeners.size(); ++index) {
    watched_listeners_[index].listener = listeners[index].get();
  }
}

DoorLoop::~DoorLoop() { Wait(); }

void DoorLoop::Start(std::span<const std::unique_ptr<DoorLoop>> others) {
  others_ = others;
  thread_ = std::thread([this] { Run(); });
}

void DoorLoop::Wait() {
  if (!thread_.joinable()) return;
  if (!is_stopping_.load()) BeginStop(std::chrono::milliseconds(0));
  thread_.join();
}

void DoorLoop::Give(Newcomer newcomer) {
  client_count_.fetch_add(1);
  const std::lock_guard lock(given_mutex_);
  given_.push_back(std::move(newcomer));
  eventfd_write(wakeup_.get(), 1);
}

std::vector<DoorLoop::Newcomer> DoorLoop::TakeGiven() {
  const std::lock_guard lock(given_mutex_);
  return std::exchange(given_, {});
}

void DoorLoop::StopAccepting() {
  is_accepting_.store(false);
  eventfd_write(wakeup_.get(), 1);
}

void DoorLoop::BeginStop(std::chrono::milliseconds grace) {
  grace_ms_.store(grace.count());
  is_accepting_.store(false);
  is_stopping_.store(true);
  eventfd_write(wakeup_.get(), 1);
}

bool DoorLoop::Control(int operation, int socket, std::uint32_t events, void* data) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = data;
  return epoll_ctl(epoll_.get(), operation, socket, &event) == 0;
}

void DoorLoop::ArmListeners() {
  for (std::size_t index = 0; index < listeners_.size(); ++index) {
    const int socket = listeners_[index].get();
    if (is_listener_armed_[index] == is_accepting_.load()) continue;
    if (is_accepting_.load()) {
      is_listener_armed_[index] =
          Control(EPOLL_CTL_ADD, socket, EPOLLIN | EPOLLEXCLUSIVE, &watched_listeners_[index]);
    } else {
      Control(EPOLL_CTL_DEL, socket, 0, nullptr);
      is_listener_armed_[index] = false;
    }
  }
}

void DoorLoop::Run() {
  std::array<epoll_event, kMaxEvents> events;
  Time stops_at = Time::max();
  ArmListeners();
  while (true) {
    std::chrono::milliseconds wait = stops_at == Time::max() ? kCheckInterval : kStopPoll;
    if (!unread_.empty()) wait = std::chrono::milliseconds(0);
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(wait.count()));
    const Time now = std::chrono::steady_clock::now();
    for (int index = 0; index < count; ++index) {
      const auto* const watched = static_cast<Watched*>(events[index].data.ptr);
      if (watched != nullptr) Handle(*watched, events[index].events, now);
    }
    HandleUnread(now);
    // Before what was given is taken: what is given later wakes it again.
    eventfd_t wakeups = 0;
    eventfd_read(wakeup_.get(), &wakeups);
    for (Newcomer& newcomer : TakeGiven()) {
      AddClient(std::move(newcomer), now);
      client_count_.fetch_sub(1);
    }
    removed_.clear();
    const bool is_due = now - checked_at_ >= kCheckInterval;
    if (wakeups > 0 || is_due) ArmListeners();
    // Not for each that is given: it looks at all clients.
    if (is_due) {
      checked_at_ = now;
      ForEach([now](Relay& relay) { relay.CheckTime(now); });
      LogLeftOut();
    }
    if (!is_stopping_.load()) continue;
    if (stops_at == Time::max()) {
      stops_at = now + std::chrono::milliseconds(grace_ms_.load());
      ForEach([now](Relay& relay) { relay.GoAway(now); });
    }
    if (clients_.empty() || now >= stops_at) return;
  }
}

void DoorLoop::HandleUnread(Time now) {
  for (Client* const client : std::exchange(unread_, {})) {
    // Of the same round, whose memory is there until it ends.
    if (client->relay->is_done()) continue;
    client->is_unread = false;
    client->relay->OnReady(Relay::Side::kClient, /*is_readable=*/true, now);
    Settle(*client);
  }
}

void DoorLoop::Handle(const Watched& watched, std::uint32_t events, Time now) {
  if (watched.client == nullptr) return Accept(watched.listener, now);
  Client& client = *watched.client;
  if (client.relay->is_done()) return;
  const bool is_readable = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
  // A socket that was there when the round began, and whose number another one has now.
  const bool is_gone =
      watched.side == Relay::Side::kServer && client.server_count != client.relay->server_count();
  if (!is_gone) client.relay->OnReady(watched.side, is_readable, now);
  Settle(client);
}

void DoorLoop::ForEach(const std::function<void(Relay& relay)>& visit) {
  std::vector<Client*> all;
  all.reserve(clients_.size());
  for (const auto& client : clients_) all.push_back(client.get());
  for (Client* const client : all) {
    visit(*client->relay);
    Settle(*client);
  }
  removed_.clear();
}

void DoorLoop::Accept(int listener, Time now) {
  for (int turn = 0; turn < kAcceptsPerTurn && is_accepting_.load(); ++turn) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    UniqueFd socket(
        accept4(listener, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      // A listener that was just shut down says EINVAL.
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED || !is_accepting_.load()) {
        return;
      }
      // Descriptors or memory are short. It would be called again at once, for nothing: the next
      // look at the time arms it anew.
      LogNoSockets(errno);
      for (std::size_t index = 0; index < listeners_.size(); ++index) {
        if (listeners_[index].get() != listener) continue;
        Control(EPOLL_CTL_DEL, listener, 0, nullptr);
        is_listener_armed_[index] = false;
      }
      return;
    }
    context_.metrics->connections_accepted.Add();
    ClientAddress address = ClientAddressOf(from, socket.get());
    Newcomer newcomer{.socket = std::move(socket), .address = std::move(address)};
    if (DoorLoop& loop = LeastBusy(); &loop != this) {
      loop.Give(std::move(newcomer));
    } else {
      AddClient(std::move(newcomer), now);
    }
  }
}

DoorLoop& DoorLoop::LeastBusy() {
  DoorLoop* least = this;
  for (const auto& other : others_) {
    if (other->client_count() < least->client_count()) least = other.get();
  }
  return *least;
}

void DoorLoop::AddClient(Newcomer newcomer, Time now) {
  DoorMetrics& metrics = *context_.metrics;
  if (!context_.cancels->Has(newcomer.address.key, now)) {
    return TurnAway(newcomer.address, EndReason::kCancels);
  }
  // Its own place is taken first: other loops look for one at the same time.
  const bool is_full = metrics.connections.fetch_add(1) >= context_.options->max_connections;
  if (is_full && !MakeRoom(now)) {
    metrics.connections.fetch_sub(1);
    if (++newcomer.tried_count >= others_.size()) {
      return TurnAway(newcomer.address, EndReason::kFull);
    }
    // Others may have some without calls.
    const auto here = std::find_if(others_.begin(), others_.end(),
                                   [this](const auto& other) { return other.get() == this; });
    const std::size_t next = static_cast<std::size_t>(here - others_.begin()) + 1;
    return others_[next % others_.size()]->Give(std::move(newcomer));
  }
  const int on = 1;
  setsockopt(newcomer.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto client = std::make_unique<Client>();
  client->client_socket = {.client = client.get(), .side = Relay::Side::kClient};
  client->server_socket = {.client = client.get(), .side = Relay::Side::kServer};
  client->relay = std::make_unique<Relay>(&context_, std::move(newcomer.socket),
                                          std::move(newcomer.address), now);
  client->place = clients_.size();
  if (!Control(EPOLL_CTL_ADD, client->relay->client_socket(), EPOLLIN, &client->client_socket)) {
    metrics.connections.fetch_sub(1);
    return;
  }
  clients_.push_back(std::move(client));
  client_count_.fetch_add(1);
  Settle(*clients_.back());
}

bool DoorLoop::MakeRoom(Time now) {
  Client* least = nullptr;
  const auto rank = [](const Client& client) {
    return std::pair(client.relay->has_spoken(), client.relay->idle_since());
  };
  for (int draw = 0; draw < kDrawnForRoom && !clients_.empty(); ++draw) {
    Client& drawn = *clients_[random_.Below(clients_.size())];
    if (drawn.relay->has_calls()) continue;
    if (least == nullptr || rank(drawn) < rank(*least)) least = &drawn;
  }
  if (least == nullptr) return false;
  least->relay->SetEndReason(EndReason::kMadeRoom);
  least->relay->GoAway(now);
  Remove(*least);
  return true;
}

void DoorLoop::CountEnd(const ClientAddress& address, EndReason reason) {
  context_.metrics->Ended(reason).Add();
  LogEnded(address, reason);
}

void DoorLoop::TurnAway(const ClientAddress& address, EndReason reason) {
  CountEnd(address, reason);
  if (context_.options->on_turned_away) {
    context_.options->on_turned_away({.peer = address.text, .why = reason});
  }
}

// After anything that was done with it: what is to be watched, or that it has ended.
void DoorLoop::Settle(Client& client) {
  const Relay& relay = *client.relay;
  if (relay.is_done()) return Remove(client);
  const auto interest = [](bool is_writing) -> std::uint32_t {
    return EPOLLIN | (is_writing ? EPOLLOUT : 0u);
  };
  const bool is_client_writing = relay.is_client_waiting_to_write();
  if (std::exchange(client.is_client_writing, is_client_writing) != is_client_writing) {
    Control(EPOLL_CTL_MOD, relay.client_socket(), interest(is_client_writing),
            &client.client_socket);
  }
  if (relay.has_unread() && !std::exchange(client.is_unread, true)) unread_.push_back(&client);
  if (relay.server_socket() < 0) return;
  const bool is_server_writing = relay.is_server_waiting_to_write();
  const bool is_new =
      std::exchange(client.server_count, relay.server_count()) != relay.server_count();
  const bool was_writing = std::exchange(client.is_server_writing, is_server_writing);
  if (!is_new && was_writing == is_server_writing) return;
  const int operation = is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  // The system has no memory for one more: its calls would wait for ever.
  if (!Control(operation, relay.server_socket(), interest(is_server_writing),
               &client.server_socket)) {
    Remove(client);
  }
}

void DoorLoop::Remove(Client& client) {
  context_.metrics->connections.fetch_sub(1);
  if (client.is_unread) std::erase(unread_, &client);
  const EndReason reason = client.relay->end_reason();
  if (IsTurnedAwayByTls(reason)) {
    TurnAway(client.relay->address(), reason);
  } else {
    CountEnd(client.relay->address(), reason);
  }
  const std::size_t place = client.place;
  std::swap(clients_[place], clients_.back());
  clients_[place]->place = place;
  // Its sockets close with it, which takes them out of epoll; not before events of this round,
  // which may name it, are through.
  client.relay->Close();
  removed_.push_back(std::move(clients_.back()));
  clients_.pop_back();
  client_count_.fetch_sub(1);
}

}  // namespace kerf::door
