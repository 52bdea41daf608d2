#include "server/redis/redis_client.h"

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/logging/logging.h"
#include "server/net/name_resolver.h"
#include "server/redis/certificate_ends.h"
#include "server/redis/connection.h"
#include "server/redis/reply.h"
#include "server/redis/slot.h"
#include "server/redis/strangers.h"
#include "server/redis/topology.h"
#include "server/redis/wire.h"

namespace kerf {
namespace {

using redis::Clock;
using redis::TimePoint;
using std::chrono::milliseconds;

// How often clocks are looked at; also the shortest pause before a retry.
constexpr milliseconds kTick{10};
constexpr milliseconds kTopologyPause{50};
// A command that is sent from node to node more often waits until the map is new.
constexpr int kMaxRedirects = 5;
// As the answer to a WAIT: there was none.
constexpr std::int64_t kNobody = -1;

// Another cluster at the addresses of one that was well is believed after so long: all nodes may
// have been made anew.
constexpr std::chrono::seconds kOthersPatience{10};

using redis::Connection;
using redis::Flight;
using redis::Held;
using redis::Node;
using redis::PauseAfter;
using redis::Request;
using redis::RequestPtr;

absl::Status Stopped() { return absl::CancelledError("the Redis client has stopped"); }

class Client final : public RedisClient, public redis::ConnectionUser {
 public:
  explicit Client(RedisOptions options)
      : options_(std::move(options)),
        names_(options_.look_up_host ? options_.look_up_host : LookUpHostInSystem),
        topology_(options_.seeds) {
    base_ = event_base_new();
    wakeup_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    KERF_CHECK(base_ != nullptr && wakeup_fd_ >= 0);
    const auto on_wakeup = [](evutil_socket_t, short, void* self) {
      static_cast<Client*>(self)->OnWakeup();
    };
    const auto on_tick = [](evutil_socket_t, short, void* self) {
      static_cast<Client*>(self)->OnTick();
    };
    wakeup_ = event_new(base_, wakeup_fd_, EV_READ | EV_PERSIST, on_wakeup, this);
    tick_ = event_new(base_, -1, EV_PERSIST, on_tick, this);
    const timeval every{0, kTick.count() * 1000};
    KERF_CHECK(event_add(wakeup_, nullptr) == 0 && event_add(tick_, &every) == 0);
    thread_ = std::thread([this] { event_base_dispatch(base_); });
  }

  ~Client() override {
    Client::Close();
    event_free(wakeup_);
    event_free(tick_);
    event_base_free(base_);
    close(wakeup_fd_);
  }

  void Send(RedisCommand command, Done done) override {
    KERF_CHECK(!command.arguments.empty() && command.replica_count >= 0);
    RequestPtr request = redis::RequestOf(std::move(command), options_.command_timeout);
    request->done = std::move(done);
    command_count_.fetch_add(1, std::memory_order_relaxed);
    Post(std::move(request));
  }

  using RedisClient::ReadMasters;
  void ReadMasters(MastersDone done, std::chrono::milliseconds timeout) override {
    auto request = std::make_unique<Request>();
    request->timeout = timeout.count() > 0 ? timeout : options_.command_timeout;
    request->deadline = Clock::now() + request->timeout;
    request->done = [this, done = std::move(done)](const absl::StatusOr<RedisReply>& reply) {
      if (!reply.ok()) return done(reply.status());
      done(topology_.masters());
    };
    Post(std::move(request));
  }

  void ReadSlots(SlotsDone done) override {
    ReadMasters([this, done = std::move(done)](const auto& masters) {
      if (!masters.ok()) return done(masters.status());
      done(topology_.SlotOfEach(random_));
    });
  }

  void ExpectIdentity(std::vector<std::string> known) override {
    strangers_.Expect(std::move(known));
  }

  void Close() override {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(is_stopping_, true)) return;
    }
    Wake();
    thread_.join();
  }

  RedisCounters counters() const override {
    return {command_count_.load(), retry_count_.load(), redirect_count_.load(),
            connect_count_.load(), topology_count_.load()};
  }
  std::optional<std::int64_t> certificate_expires_at_s() const override {
    return certificate_ends_.first_s();
  }

 private:
  void Post(RequestPtr request) {
    std::unique_lock lock(mutex_);
    if (is_stopping_) {
      lock.unlock();
      return request->done(Stopped());
    }
    const bool wake = incoming_.empty();
    incoming_.push_back(std::move(request));
    lock.unlock();
    if (wake) Wake();
  }

  void Wake() const {
    const std::uint64_t one = 1;
    // Full means that it is awake.
    if (write(wakeup_fd_, &one, sizeof one) < 0) KERF_CHECK(errno == EAGAIN);
  }

  // All below runs on thread_.

  void OnWakeup() {
    std::uint64_t count = 0;
    if (read(wakeup_fd_, &count, sizeof count) < 0) KERF_CHECK(errno == EAGAIN);
    std::deque<RequestPtr> incoming;
    bool is_stopping = false;
    {
      const std::lock_guard lock(mutex_);
      incoming.swap(incoming_);
      is_stopping = is_stopping_;
    }
    for (RequestPtr& request : incoming) Dispatch(std::move(request));
    SendWaits();
    if (is_stopping) Stop();
  }

  void OnTick() {
    const TimePoint now = Clock::now();
    CheckConnections(now);
    std::vector<RequestPtr> ready;
    for (auto& request : parked_) {
      if (request->deadline <= now) {
        GiveUp(std::move(request));
      } else if (request->not_before <= now) {
        ready.push_back(std::move(request));
      }
    }
    for (auto& request : topology_waiters_) {
      if (request->deadline > now) continue;
      request->last_error = topology_.error();
      GiveUp(std::move(request));
    }
    std::erase(parked_, nullptr);
    std::erase(topology_waiters_, nullptr);
    for (RequestPtr& request : ready) Dispatch(std::move(request));
    SendWaits();
  }

  // A node that is silent for too long, or cannot be reached.
  void CheckConnections(TimePoint now) {
    for (auto& [address, node] : nodes_) {
      ForEachConnection(node, [&](Connection& connection) {
        if (connection.socket == nullptr) return;
        const std::string& refusal =
            connection.stranger.empty() ? connection.auth_error : connection.stranger;
        if (!refusal.empty() && connection.flights.empty()) {
          // The password, or Redis's idea of it, may change, and so may who is there.
          connection.last_error = refusal;
          Close(connection);
          Pause(connection);
          return;
        }
        const bool is_late =
            connection.is_connected
                ? !connection.flights.empty() &&
                      std::max(connection.flights.front()->sent_at, connection.last_answer_at) +
                              options_.attempt_timeout <=
                          now
                : connection.connect_began + options_.connect_timeout <= now;
        if (!is_late) return;
        connection.last_error =
            connection.is_connected ? "it does not answer" : connection.socket->WaitsFor();
        // Answers all that is on it with nothing, which sends it again.
        Close(connection);
        Pause(connection);
      });
      redis::ReplaceWornOut(node, options_, now);
    }
  }

  template <typename Visit>
  static void ForEachConnection(Node& node, Visit visit) {
    for (auto& reader : node.readers) visit(*reader);
    if (node.writer != nullptr) visit(*node.writer);
    for (auto& connection : node.leaving) visit(*connection);
  }

  void Pause(Connection& connection) {
    connection.is_connected = false;
    connection.not_before = Clock::now() + PauseAfter(kTick, connection.failure_count++, random_);
    wants_topology_ = true;
    OnWaited(connection, kNobody);
  }

  void GiveUp(RequestPtr request) {
    request->done(absl::UnavailableError(ToAbsl(Cat(
        "Redis has not answered within ", request->timeout.count(),
        " ms: ", request->last_error.empty() ? "no node could be asked" : request->last_error))));
  }

  void Park(RequestPtr request) {
    request->not_before = Clock::now() + PauseAfter(kTick, request->attempt_count++, random_);
    parked_.push_back(std::move(request));
  }

  // Where it is to go; none while nobody knows.
  std::optional<RedisAddress> TargetOf(const Request& request) const {
    if (request.ask.has_value()) return request.ask;
    if (request.node.has_value()) return request.node;
    return topology_.MasterOf(request.slot);
  }

  void Dispatch(RequestPtr request) {
    // A question for the masters needs a map of now: not one that was asked for before.
    if (request->wire.empty()) {
      request->min_question = topology_.question() + 1;
      topology_waiters_.push_back(std::move(request));
      return ReadTopology();
    }
    const std::optional<RedisAddress> target = TargetOf(*request);
    if (!target.has_value()) {
      ReadTopology();
      // What was wrong last, not first.
      if (!topology_.error().empty()) request->last_error = topology_.error();
      return Park(std::move(request));
    }
    if (request->is_for_master && topology_.MasterOf(request->slot) != request->node) {
      return request->done(redis::MovedReply(request->slot));
    }
    Connection& connection = ConnectionFor(*target, *request);
    if (!Connect(connection)) {
      request->last_error = Cat(FormatRedisAddress(*target), ": ", connection.last_error);
      ReadTopology();
      // The cluster may have a new master for it by then.
      request->ask.reset();
      return Park(std::move(request));
    }
    if (request->ask.has_value()) {
      Launch(connection, redis::FormatWire({"ASKING"}), nullptr, Flight::Kind::kAsking);
      request->ask.reset();
    }
    if (request->replica_count > 0) connection.wants_wait = true;
    const std::string& wire = request->wire;
    Launch(connection, wire, std::move(request), Flight::Kind::kCommand);
  }

  Connection& ConnectionFor(const RedisAddress& address, const Request& request) {
    Node& node = nodes_[address];
    const bool is_write = request.replica_count > 0;
    if (node.readers.empty()) {
      for (int index = 0; index < options_.read_connection_count; ++index) {
        node.readers.push_back(NewConnection(address));
      }
      node.writer = NewConnection(address);
    }
    return is_write ? *node.writer : *node.readers[request.slot % node.readers.size()];
  }

  std::unique_ptr<Connection> NewConnection(const RedisAddress& address) {
    return std::make_unique<Connection>(this, address);
  }

  // Null: in the clear.
  TlsSession NewSession(const RedisAddress& address) const {
    if (options_.tls == nullptr) return nullptr;
    TlsSession session = options_.tls->current()->NewSession();
    ExpectName(*session, options_.tls_name.empty() ? address.host : options_.tls_name);
    return session;
  }

  // Whether commands may be put on it; they are sent as soon as it is there.
  bool Connect(Connection& connection) {
    if (connection.socket != nullptr) return true;
    const TimePoint now = Clock::now();
    if (now < connection.not_before) return false;
    const auto hosts = names_.Find(connection.address.host);
    if (!hosts.has_value()) {
      // Also of one that has failed, of which it hides nothing.
      if (connection.last_error.empty()) connection.last_error = "its name is being looked up";
      return false;
    }
    if (!hosts->ok()) {
      connection.last_error = std::string(hosts->status().message());
      Pause(connection);
      return false;
    }
    connection.auth_error.clear();
    connection.stranger.clear();
    const std::string& host =
        (**hosts)[static_cast<std::size_t>(connection.failure_count) % (*hosts)->size()];
    auto socket = redis::Socket::Connect(base_, host, connection.address.port,
                                         NewSession(connection.address), &connection);
    if (!socket.ok()) {
      connection.last_error = std::string(socket.status().message());
      Pause(connection);
      return false;
    }
    connection.socket = *std::move(socket);
    connection.connect_began = now;
    connect_count_.fetch_add(1, std::memory_order_relaxed);
    if (!options_.password.empty()) {
      Launch(connection, redis::AuthWire(options_), nullptr, Flight::Kind::kAuth);
    }
    AskWhoItIs(connection);
    return true;
  }

  // In front of everything: an address may have gone to somebody else since it was last used.
  void AskWhoItIs(Connection& connection) {
    const std::vector<std::string> question = strangers_.Question();
    if (question.empty()) return;
    Launch(connection, redis::FormatWire(question), nullptr, Flight::Kind::kMember);
  }

  void OnUp(Connection& connection) override {
    connection.is_connected = true;
    connection.last_error.clear();
    certificate_ends_.Note(connection.address, connection.socket->PeerExpiresAt());
    // What waited for the connection was not late before it was there.
    for (auto& flight : connection.flights) flight->sent_at = Clock::now();
  }

  void OnClosed(Connection& connection, const std::string& why) override {
    connection.last_error = why;
    Close(connection);
    Pause(connection);
  }

  void Launch(Connection& connection, const std::string& wire, RequestPtr request,
              Flight::Kind kind) {
    auto flight = std::make_unique<Flight>();
    flight->sent_at = Clock::now();
    flight->kind = kind;
    // `wire` may be the request's own.
    connection.socket->Write(wire);
    flight->request = std::move(request);
    connection.flights.push_back(std::move(flight));
  }

  void Retry(RequestPtr request) {
    retry_count_.fetch_add(1, std::memory_order_relaxed);
    wants_topology_ = true;
    Park(std::move(request));
  }

  void OnReply(Connection& connection, const redisReply& reply) override {
    if (!connection.flights.empty()) return TakeReply(connection, &reply);
    // To nothing that was asked: such as that it has clients enough.
    OnClosed(connection, reply.type == REDIS_REPLY_ERROR ? std::string(reply.str, reply.len)
                                                         : "it says what nobody has asked");
  }

  // Without an answer the connection is gone.
  void TakeReply(Connection& connection, const redisReply* reply) {
    const std::unique_ptr<Flight> flight = std::move(connection.flights.front());
    connection.flights.pop_front();
    connection.last_answer_at = Clock::now();
    if (reply != nullptr) connection.failure_count = 0;
    if (flight->kind == Flight::Kind::kBarrier) {
      if (reply == nullptr) {
        connection.barrier_error = "the connection was lost";
      } else if (reply->type == REDIS_REPLY_ERROR) {
        connection.barrier_error.assign(reply->str, reply->len);
      }
      return;
    }
    if (flight->kind == Flight::Kind::kWait) {
      OnWaited(connection,
               reply != nullptr && reply->type == REDIS_REPLY_INTEGER ? reply->integer : kNobody);
      // What was written meanwhile.
      if (reply != nullptr) SendWait(connection);
      return;
    }
    if (flight->kind == Flight::Kind::kTopology) return OnTopology(connection, reply);
    if (flight->kind == Flight::Kind::kMember) {
      if (reply == nullptr) return;
      connection.stranger = strangers_.Judge(connection.address, CopyReply(reply));
      return;
    }
    if (flight->kind == Flight::Kind::kAuth) {
      if (reply != nullptr && reply->type == REDIS_REPLY_ERROR) {
        // Its first word only: what follows may repeat the password.
        const std::string_view error(reply->str, reply->len);
        connection.auth_error = Cat(error.substr(0, error.find(' ')), " in answer to AUTH");
      }
      return;
    }
    if (flight->request == nullptr) return;
    RequestPtr request = std::move(flight->request);
    if (reply == nullptr || !connection.stranger.empty()) {
      // What was held behind it goes again with it.
      const std::string& error =
          connection.stranger.empty() ? connection.last_error : connection.stranger;
      request->last_error = Cat(FormatRedisAddress(connection.address), ": ",
                                error.empty() ? "the connection was lost" : error);
      return Retry(std::move(request));
    }
    if (!connection.auth_error.empty()) {
      return request->done(absl::PermissionDeniedError(
          ToAbsl(Cat(FormatRedisAddress(connection.address), ": ", connection.auth_error))));
    }
    OnAnswer(connection, std::move(request), CopyReply(reply));
  }

  void OnAnswer(Connection& connection, RequestPtr request, RedisReply reply) {
    using Action = RedisErrorMeaning::Action;
    RedisErrorMeaning meaning;
    if (reply.kind == RedisReply::Kind::kError) {
      if (!redis::IsAnswer(*request, reply)) meaning = MeaningOf(reply.text, connection.address);
      request->last_error = Cat(FormatRedisAddress(connection.address), ": ", reply.text);
    }
    switch (meaning.action) {
      case Action::kAnswer:
        if (request->replica_count == 0 || reply.kind == RedisReply::Kind::kError) {
          return request->done(std::move(reply));
        }
        connection.held.push_back({std::move(request), std::move(reply)});
        return;
      case Action::kForbidden:
        return request->done(absl::PermissionDeniedError(ToAbsl(request->last_error)));
      case Action::kRetry:
        return Retry(std::move(request));
      case Action::kMoved:
        topology_.Learn(request->slot, meaning.target);
        wants_topology_ = true;
        break;
      case Action::kAsk:
        request->ask = meaning.target;
        break;
    }
    redirect_count_.fetch_add(1, std::memory_order_relaxed);
    if (request->node.has_value() || ++request->redirect_count > kMaxRedirects) {
      request->redirect_count = 0;
      return Retry(std::move(request));
    }
    // Not from within the callback of a connection.
    request->not_before = Clock::now();
    parked_.push_back(std::move(request));
  }

  // One WAIT for all that was written since the last one.
  void SendWaits() {
    for (auto& [address, node] : nodes_) {
      ForEachConnection(node, [this](Connection& connection) { SendWait(connection); });
    }
    if (std::exchange(wants_topology_, false)) ReadTopology();
  }

  // One at a time: it holds up the connection for as long as the replicas take. WAIT waits for the
  // last write of its connection, and is answered at once where that has none (Redis 7.2 and later
  // do not count a command that changed nothing, such as a repeated one). So a write that is always
  // one goes in front of it; also in a Redis that is full, for what it covers may free memory.
  void SendWait(Connection& writer) {
    if (writer.socket == nullptr || writer.is_waiting || !writer.wants_wait) return;
    writer.wants_wait = false;
    int most = 0;
    std::string barrier_key;
    for (const auto& flight : writer.flights) {
      if (flight->request == nullptr) continue;
      most = std::max(most, flight->request->replica_count);
      barrier_key = flight->request->barrier_key;
    }
    if (most == 0) return;
    writer.is_waiting = true;
    Launch(writer, redis::BarrierWire(barrier_key), nullptr, Flight::Kind::kBarrier);
    Launch(writer, redis::FormatWire({"WAIT", Cat(most), Cat(options_.replica_timeout.count())}),
           nullptr, Flight::Kind::kWait);
  }

  void OnWaited(Connection& connection, std::int64_t replica_count) {
    connection.is_waiting = false;
    const std::string barrier_error = std::exchange(connection.barrier_error, "");
    if (!barrier_error.empty()) replica_count = kNobody;
    // Those that were answered before the WAIT: all, for answers come in order.
    std::deque<Held> held = std::move(connection.held);
    connection.held.clear();
    for (Held& written : held) {
      if (written.request->replica_count <= replica_count) {
        written.request->done(std::move(written.reply));
        continue;
      }
      written.request->last_error =
          replica_count == kNobody
              ? Cat(FormatRedisAddress(connection.address), ": ",
                    barrier_error.empty() ? "the connection was lost" : barrier_error)
              : Cat(FormatRedisAddress(connection.address), ": ", replica_count, " of ",
                    written.request->replica_count, " replicas have what was written");
      Retry(std::move(written.request));
    }
  }

  // Asks one node after the other until one answers.
  void ReadTopology() {
    const TimePoint now = Clock::now();
    if (topology_.is_asking() || now < topology_not_before_) {
      wants_topology_ = wants_topology_ || !topology_.is_asking();
      return;
    }
    topology_not_before_ = now + kTopologyPause;
    topology_count_.fetch_add(1, std::memory_order_relaxed);
    const RedisAddress asked = topology_.Ask();
    Connection& connection = ConnectionFor(asked, Request());
    if (!Connect(connection)) return OnNoMap(connection, connection.last_error, false);
    Launch(connection, redis::FormatWire({"CLUSTER", "SLOTS"}), nullptr, Flight::Kind::kTopology);
  }

  void OnTopology(const Connection& connection, const redisReply* reply) {
    if (reply == nullptr) {
      const std::string& error = connection.last_error;
      return OnNoMap(connection, error.empty() ? "the connection was lost" : error, false);
    }
    if (!connection.auth_error.empty()) return OnNoMap(connection, connection.auth_error, true);
    const RedisReply answer = CopyReply(reply);
    const bool is_stranger = !topology_.StrangerIn(answer).empty();
    const bool may_be_others =
        topology_.has_turn_failed() && Clock::now() - last_map_at_ >= kOthersPatience;
    if (topology_.Answered(answer, connection.address, may_be_others)) {
      last_map_at_ = Clock::now();
      if (is_stranger) {
        Log(LogLevel::kWarning,
            Cat("no node of the Redis Cluster has answered for long but ",
                FormatRedisAddress(connection.address),
                ", which is of another one: it is taken for the same, made anew"));
      }
      DropOthers(connection.address);
      return OnMap();
    }
    if (is_stranger) {
      return OnNoMap(connection, strangers_.JudgeMap(connection.address, answer), false);
    }
    if (answer.kind != RedisReply::Kind::kError) {
      return OnNoMap(connection, "it knows no masters; is the cluster made?", false);
    }
    const RedisErrorMeaning meaning = MeaningOf(answer.text, connection.address);
    OnNoMap(connection, answer.text, meaning.action == RedisErrorMeaning::Action::kForbidden);
  }

  void OnNoMap(const Connection& connection, std::string_view error, bool is_forbidden) {
    // Until another node has answered.
    wants_topology_ = true;
    const absl::Status status =
        topology_.Failed(Cat(FormatRedisAddress(connection.address), ": ", error), is_forbidden);
    if (status.ok()) return;
    // Nobody lets it in, so nobody can be answered.
    for (RequestPtr& request : TakeParked()) request->done(status);
  }

  void OnMap() {
    std::deque<RequestPtr> waiters;
    waiters.swap(topology_waiters_);
    for (RequestPtr& waiter : waiters) {
      if (waiter->min_question > topology_.question()) {
        topology_waiters_.push_back(std::move(waiter));
      } else {
        waiter->done(RedisReply());
      }
    }
    wants_topology_ = !topology_waiters_.empty();
  }

  std::deque<RequestPtr> TakeParked() {
    std::deque<RequestPtr> all;
    all.swap(topology_waiters_);
    for (RequestPtr& request : parked_) all.push_back(std::move(request));
    parked_.clear();
    return all;
  }

  // Connections to nodes that have left. `asked` is in use.
  void DropOthers(const RedisAddress& asked) {
    for (auto at = nodes_.begin(); at != nodes_.end();) {
      const auto is_it = [&](const RedisAddress& address) { return address == at->first; };
      const std::vector<RedisAddress>& masters = topology_.masters();
      bool is_idle = !is_it(asked) && std::none_of(masters.begin(), masters.end(), is_it);
      ForEachConnection(at->second, [&](const Connection& connection) {
        is_idle = is_idle && redis::IsIdle(connection);
      });
      if (!is_idle) {
        ++at;
        continue;
      }
      ForEachConnection(at->second, [this](Connection& connection) { Close(connection); });
      certificate_ends_.Forget(at->first);
      at = nodes_.erase(at);
    }
  }

  // What is on it is answered with nothing.
  void Close(Connection& connection) {
    connection.socket.reset();
    while (!connection.flights.empty()) TakeReply(connection, nullptr);
  }

  void Stop() {
    for (auto& [address, node] : nodes_) {
      ForEachConnection(node, [this](Connection& connection) {
        Close(connection);
        OnWaited(connection, kNobody);
      });
    }
    for (RequestPtr& request : TakeParked()) {
      request->done(Stopped());
    }
    event_base_loopbreak(base_);
  }

  const RedisOptions options_;
  event_base* base_ = nullptr;
  event* wakeup_ = nullptr;
  event* tick_ = nullptr;
  int wakeup_fd_ = -1;
  std::atomic<std::uint64_t> command_count_{0};
  std::atomic<std::uint64_t> retry_count_{0};
  std::atomic<std::uint64_t> redirect_count_{0};
  std::atomic<std::uint64_t> connect_count_{0};
  std::atomic<std::uint64_t> topology_count_{0};
  redis::CertificateEnds certificate_ends_;

  std::mutex mutex_;
  std::deque<RequestPtr> incoming_;
  bool is_stopping_ = false;

  // thread_'s own.
  std::minstd_rand random_{std::random_device()()};
  std::map<RedisAddress, Node> nodes_;
  // Waiting for their time.
  std::vector<RequestPtr> parked_;
  NameResolver names_;
  redis::Topology topology_;
  TimePoint last_map_at_;
  redis::Strangers strangers_{&topology_};
  bool wants_topology_ = false;
  TimePoint topology_not_before_;
  std::deque<RequestPtr> topology_waiters_;

  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RedisClient>> RedisClient::Create(RedisOptions options) {
  KERF_RETURN_IF_ERROR(redis::CheckOptions(options));
  return std::unique_ptr<RedisClient>(std::make_unique<Client>(std::move(options)));
}

}  // namespace kerf
