#include "server/routing/worker_set.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/logging/logging.h"
#include "server/logging/rated_log.h"
#include "server/net/shard_key.h"
#include "server/routing/choice.h"
#include "server/routing/health_check.h"
#include "server/routing/rendezvous.h"

namespace kerf::routing {
namespace {

using std::chrono::steady_clock;
using TimePoint = steady_clock::time_point;

// For checks that are under way when the set goes; each ends at its own deadline.
constexpr std::chrono::milliseconds kStopPoll{1};
// How often workers that are no longer members are looked at.
constexpr std::chrono::milliseconds kRetiredPoll{1000};
// While a name is being looked up.
constexpr std::chrono::milliseconds kLookupPoll{50};
// What a worker may call itself; longer ones are called by their addresses.
constexpr std::size_t kMaxNameBytes = 256;
// Of the workers that are not alive, in the message to a client.
constexpr std::size_t kMaxNamedWorkers = 3;

// What calls are routed by; never changed once it is there. In the order of (name, address).
struct Live {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<Worker>> workers;
};

Live Without(const Live& live, const Avoid& avoid) {
  Live others;
  for (std::size_t index = 0; index < live.names.size(); ++index) {
    if (std::find(avoid.begin(), avoid.end(), live.names[index]) != avoid.end()) continue;
    others.names.push_back(live.names[index]);
    others.workers.push_back(live.workers[index]);
  }
  return others;
}

absl::StatusOr<Route> Enter(const std::string& name, const std::shared_ptr<Worker>& worker,
                            CallKind kind) {
  CallPermit permit = CallPermit::TryEnter(worker, kind);
  if (!permit) {
    const bool is_upload = kind == CallKind::kUpload;
    return MakeError(is_upload ? Reason::kTooManyStreams : Reason::kTooManyCalls,
                     Cat("worker ", name, " has ", worker->max_calls(kind),
                         is_upload ? " uploads" : " calls that are no uploads",
                         " of this front, as many as it may have"),
                     {{"limit", Cat(worker->max_calls(kind))}, {"worker", name}});
  }
  return Route{name, std::move(permit)};
}

}  // namespace

// Shared with the checks that are under way. One thread changes the members; whoever routes reads
// what it has published.
class WorkerSet::State : public std::enable_shared_from_this<WorkerSet::State> {
 public:
  explicit State(WorkerSetOptions options)
      : options_(std::move(options)),
        names_(options_.look_up),
        random_(options_.seed),
        live_(std::make_shared<const Live>()) {
    for (const WorkerAddress& address : options_.workers) {
      if (address.is_group) {
        groups_.try_emplace(address.text, Group{.address = address});
      } else {
        singles_.push_back(EndpointOf(address));
      }
    }
    const TimePoint now = steady_clock::now();
    SetMembers(now);
    Publish(now);
  }

  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    for (auto& [address, member] : members_) retired_.push_back(member.worker);
    members_.clear();
    {
      const std::lock_guard lock(mutex_);
      live_ = std::make_shared<const Live>();
    }
    const auto deadline = steady_clock::now() + 2 * options_.check_timeout;
    while (!DropRetired() && steady_clock::now() < deadline) {
      {
        const std::lock_guard lock(mutex_);
        ended_.clear();
      }
      std::this_thread::sleep_for(kStopPoll);
    }
  }

  bool WaitForFirstChecks(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return unasked_count_ == 0; });
  }

  std::size_t known_count() const {
    const std::lock_guard lock(mutex_);
    return known_count_;
  }
  WorkerSetWork work() const {
    const std::lock_guard lock(mutex_);
    return work_;
  }
  std::shared_ptr<const Live> live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }
  std::vector<WorkerState> States() const {
    const std::lock_guard lock(mutex_);
    std::vector<WorkerState> states;
    states.reserve(live_->names.size() + lost_.size());
    for (std::size_t index = 0; index < live_->names.size(); ++index) {
      states.push_back({{live_->names[index], live_->workers[index]->address()}, ""});
    }
    states.insert(states.end(), lost_.begin(), lost_.end());
    return states;
  }
  // Where in `live` the worker is that has the key.
  absl::StatusOr<std::size_t> Find(const Live& live, std::string_view shard_key, CallKind kind,
                                   const Avoid& avoid) const;
  // Calls of a worker have failed in a row.
  void LookForOutliers() {
    {
      const std::lock_guard lock(mutex_);
      has_failures_ = true;
    }
    changed_.notify_all();
  }
  void Doubt(const std::string& address) {
    {
      const std::lock_guard lock(mutex_);
      doubted_.insert(address);
    }
    changed_.notify_all();
  }

 private:
  struct Member {
    Member(Endpoint endpoint, const WorkerSetOptions& options, TimePoint now)
        : worker(std::make_shared<Worker>(std::move(endpoint), options.max_calls_per_worker,
                                          options.tls)),
          name(worker->endpoint().is_name ? worker->address() : ""),
          schedule(options.check_times, now),
          outlier(options.ejection_times) {}

    const std::shared_ptr<Worker> worker;
    // Empty until it is known.
    std::string name;
    CheckSchedule schedule;
    bool is_checking = false;
    bool was_asked = false;
    // Doubted while a check was under way, which may have seen what was before.
    bool is_doubted = false;
    std::string why = "it has not been asked yet";
    // As it said last: which index it has, and why it has none.
    std::string index;
    std::string trouble;
    Outlier outlier;
    // Alive, and all the same without calls: why, and since when.
    std::string unused;
    TimePoint unused_since;
    bool is_unused_told = false;
  };
  struct Group {
    WorkerAddress address;
    // Nothing: it has not been found out yet.
    std::optional<std::vector<Endpoint>> endpoints = std::nullopt;
    std::string why = "its name is being looked up";
  };
  struct Ended {
    std::shared_ptr<Worker> worker;
    CheckOutcome outcome;
  };
  // All of a member that Publish looks at, but for whether it is ejected.
  struct View {
    bool was_asked = false;
    bool is_live = false;
    std::string name;
    std::string index;
    std::string trouble;
    std::string why;

    friend bool operator==(const View&, const View&) = default;
  };
  static View ViewOf(const Member& member) {
    const bool is_live = member.schedule.is_live();
    return {member.was_asked, is_live,        member.name,
            member.index,     member.trouble, is_live ? "" : member.why};
  }

  // The rest is the thread's own.
  void Run();
  // When there is something to do for it next.
  TimePoint WakeFor(const Member& member) const {
    TimePoint wake_at = TimePoint::max();
    if (!member.is_checking) wake_at = member.schedule.due();
    if (member.outlier.is_ejected()) wake_at = std::min(wake_at, member.outlier.until());
    if (!member.unused.empty() && !member.is_unused_told) {
      wake_at = std::min(wake_at, member.unused_since + options_.unused_grace);
    }
    return wake_at;
  }
  // Looks up the groups; when it wants to be called again.
  TimePoint Refresh(TimePoint now);
  // Of workers that nobody uses any more; whether there are no others. gRPC does not like its
  // channels to go while one of its own threads is at work for them.
  bool DropRetired() {
    std::erase_if(retired_, [](const auto& worker) { return worker.use_count() == 1; });
    return retired_.empty();
  }
  // Makes members of all that is known, and of nothing else.
  void SetMembers(TimePoint now);
  void TakeOutcome(const Ended& ended, TimePoint now);
  void TakeDoubt(const std::string& address, TimePoint now);
  void StartChecks(TimePoint now);
  void LookForOutliers(TimePoint now);
  void Publish(TimePoint now);
  // In the order of their names, one of each; also puts those into `lost` that have the name of
  // another one.
  std::vector<Member*> FindAnswering(std::vector<WorkerState>& lost);
  // Also puts those into `lost` that answer and are not used.
  std::shared_ptr<const Live> FindLive(TimePoint now, std::vector<WorkerState>& lost);
  void SetUnused(Member& member, const std::string& why, TimePoint now);
  // Tells of those that have been without their index for long enough.
  void TellOfUnused(TimePoint now);
  // What is known and is not alive.
  void FindLost(std::vector<WorkerState>& lost) const;
  void WarnOfTwins(const std::string& name, const std::string& used_address);
  std::string DescribeTroubles() const;

  const WorkerSetOptions options_;
  NameResolver names_;
  Random random_;
  std::vector<Endpoint> singles_;
  std::map<std::string, Group> groups_;
  // By address.
  std::map<std::string, Member> members_;
  // Members that have gone, until their calls and checks have ended.
  std::vector<std::shared_ptr<Worker>> retired_;
  bool had_live_ = false;
  // Of the workers that are used.
  std::string index_;
  bool is_without_index_ = false;
  // Something that Publish looks at has changed. A thousand workers are checked a thousand times a
  // second, and nearly always as they were.
  bool is_to_publish_ = false;
  // Of two that have it.
  std::set<std::string> warned_names_;
  std::thread thread_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_stopping_ = false;
  std::vector<Ended> ended_;
  std::set<std::string> doubted_;
  bool has_failures_ = false;
  std::shared_ptr<const Live> live_;
  std::vector<WorkerState> lost_;
  // Members, and groups without any, of which nothing has been heard.
  std::size_t unasked_count_ = 1;
  std::size_t known_count_ = 0;
  WorkerSetWork work_;
  std::string troubles_ = "none has been asked yet";
};

void WorkerSet::State::Run() {
  TimePoint next_refresh = steady_clock::now();
  while (true) {
    TimePoint now = steady_clock::now();
    if (now >= next_refresh) next_refresh = Refresh(now);
    StartChecks(now);
    LookForOutliers(now);
    if (std::exchange(is_to_publish_, false)) Publish(now);
    TellOfUnused(now);
    TimePoint wake_at = next_refresh;
    if (!DropRetired()) wake_at = std::min(wake_at, now + kRetiredPoll);
    for (const auto& [address, member] : members_) wake_at = std::min(wake_at, WakeFor(member));
    std::vector<Ended> ended;
    std::set<std::string> doubted;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, wake_at, [this] {
        return is_stopping_ || !ended_.empty() || !doubted_.empty() || has_failures_;
      });
      if (is_stopping_) return;
      has_failures_ = false;
      work_.check_count += ended_.size();
      ended.swap(ended_);
      doubted.swap(doubted_);
    }
    now = steady_clock::now();
    for (const Ended& check : ended) TakeOutcome(check, now);
    for (const std::string& address : doubted) TakeDoubt(address, now);
  }
}

TimePoint WorkerSet::State::Refresh(TimePoint now) {
  bool is_pending = false;
  for (auto& [text, group] : groups_) {
    const auto found = names_.Find(group.address.host);
    if (!found.has_value()) {
      is_pending = true;
      continue;
    }
    if (!found->ok()) {
      // A name server that is away takes no worker with it.
      const std::string why(MessageOf(found->status()));
      if (why != group.why) {
        Log(LogLevel::kWarning, Cat("workers of ", text, ": ", why));
        is_to_publish_ = true;
      }
      group.why = why;
      continue;
    }
    std::vector<Endpoint> endpoints;
    for (const std::string& host_address : **found) {
      endpoints.push_back(EndpointOf(group.address, host_address));
    }
    // One that has no addresses is known, too.
    is_to_publish_ |= !group.endpoints.has_value() || !group.why.empty();
    group.endpoints = std::move(endpoints);
    group.why.clear();
  }
  SetMembers(now);
  if (is_pending) return now + kLookupPoll;
  const auto half = static_cast<std::uint64_t>(options_.refresh.count() / 2);
  return now + options_.refresh - std::chrono::milliseconds(random_.Between(0, half));
}

void WorkerSet::State::SetMembers(TimePoint now) {
  std::set<Endpoint> wanted(singles_.begin(), singles_.end());
  for (const auto& [text, group] : groups_) {
    if (group.endpoints.has_value())
      wanted.insert(group.endpoints->begin(), group.endpoints->end());
  }
  if (wanted.size() > kMaxWorkers) {
    Log(LogLevel::kError, Cat("there are ", wanted.size(), " workers; a front takes ", kMaxWorkers,
                              ", and leaves the others out"));
    wanted.erase(std::next(wanted.begin(), kMaxWorkers), wanted.end());
  }
  // Their calls go on.
  std::erase_if(members_, [&](const auto& item) {
    const bool is_gone = !wanted.contains(item.second.worker->endpoint());
    if (!is_gone) return false;
    Log(LogLevel::kInfo, Cat("worker ", item.first, " is no longer among the workers"));
    retired_.push_back(item.second.worker);
    is_to_publish_ = true;
    return true;
  });
  for (const Endpoint& endpoint : wanted) {
    is_to_publish_ |= members_.try_emplace(endpoint.address, endpoint, options_, now).second;
  }
}

void WorkerSet::State::StartChecks(TimePoint now) {
  for (auto& [address, member] : members_) {
    if (member.is_checking || member.schedule.due() > now) continue;
    member.is_checking = true;
    member.worker->DropOldChannels();
    // Whoever is not alive is asked who it is, by a call as those that a front passes on: a front
    // serves, too, and must not be taken for a worker.
    const bool asks_who = member.name.empty() || !member.schedule.is_live();
    StartHealthCheck(member.worker, asks_who, options_.check_timeout,
                     [state = weak_from_this(), worker = member.worker](CheckOutcome outcome) {
                       const std::shared_ptr<State> self = state.lock();
                       if (self == nullptr) return;
                       const std::lock_guard lock(self->mutex_);
                       self->ended_.push_back({worker, std::move(outcome)});
                       self->changed_.notify_all();
                     });
  }
}

void WorkerSet::State::TakeOutcome(const Ended& ended, TimePoint now) {
  const auto found = members_.find(ended.worker->address());
  // It may have gone and come again meanwhile.
  if (found == members_.end() || found->second.worker != ended.worker) return;
  Member& member = found->second;
  const View before = ViewOf(member);
  const bool was_live = before.is_live;
  // Said once for each reason: who never was alive is not missed otherwise.
  const bool is_new_reason = ended.outcome.is_tls && member.why != ended.outcome.why;
  member.is_checking = false;
  member.was_asked = true;
  member.schedule.Record(ended.outcome.result, now, random_);
  if (std::exchange(member.is_doubted, false)) TakeDoubt(found->first, now);
  member.why = ended.outcome.why;
  const bool is_live = member.schedule.is_live();
  const CheckResult result = ended.outcome.result;
  if (result == CheckResult::kServing || result == CheckResult::kWithoutIndex) {
    member.index = ended.outcome.index;
    member.trouble = result == CheckResult::kServing ? "" : ended.outcome.why;
  }
  if (is_live && member.name.empty()) {
    const std::string& name = ended.outcome.name;
    const bool is_good =
        !name.empty() && name.size() <= kMaxNameBytes && name.find('\0') == std::string::npos;
    member.name = is_good ? name : found->first;
  }
  if (is_live && !was_live) {
    Log(LogLevel::kInfo, Cat("worker ", member.name, " at ", found->first, " is alive"));
  } else if (was_live && !is_live) {
    Log(LogLevel::kWarning,
        Cat("worker ", member.name, " at ", found->first, " is lost: ", member.why));
  } else if (!is_live && is_new_reason) {
    LogRated(LogLevel::kWarning, "worker without TLS",
             Cat("worker ", found->first, " is not used: ", member.why));
  }
  // Somebody else may come back at that address.
  if (!is_live && !member.worker->endpoint().is_name) member.name.clear();
  is_to_publish_ |= ViewOf(member) != before;
}

void WorkerSet::State::TakeDoubt(const std::string& address, TimePoint now) {
  const auto found = members_.find(address);
  if (found == members_.end()) return;
  Member& member = found->second;
  // A check that is under way may have begun before there was reason to doubt.
  member.is_doubted = member.is_checking;
  // Whoever is known to be gone is asked after its pause, however many calls fail.
  if (member.schedule.is_live()) member.schedule.Doubt(now);
}

void WorkerSet::State::WarnOfTwins(const std::string& name, const std::string& used_address) {
  if (warned_names_.size() >= kMaxWorkers || !warned_names_.insert(name).second) return;
  Log(LogLevel::kWarning, Cat("two workers call themselves ", name, ": only ", used_address,
                              " is used; give each its own --worker-name"));
}

std::vector<WorkerSet::State::Member*> WorkerSet::State::FindAnswering(
    std::vector<WorkerState>& lost) {
  std::vector<Member*> live;
  for (auto& [address, member] : members_) {
    if (member.schedule.is_live()) {
      live.push_back(&member);
    } else {
      member.unused.clear();
    }
  }
  // Of equal names the order of their addresses stays.
  std::stable_sort(live.begin(), live.end(), [](const Member* left, const Member* right) {
    return left->name < right->name;
  });
  std::vector<Member*> found;
  for (Member* const member : live) {
    // Of two with one name the first is used, whether calls have keys or not.
    if (found.empty() || found.back()->name != member->name) {
      found.push_back(member);
      continue;
    }
    const std::string& used_address = found.back()->worker->address();
    WarnOfTwins(member->name, used_address);
    lost.push_back({{member->name, member->worker->address()},
                    Cat("the worker at ", used_address, " has the same name")});
  }
  return found;
}

std::shared_ptr<const Live> WorkerSet::State::FindLive(TimePoint now,
                                                       std::vector<WorkerState>& lost) {
  const std::vector<Member*> members = FindAnswering(lost);
  std::vector<Candidate> candidates;
  candidates.reserve(members.size());
  for (const Member* const member : members) {
    candidates.push_back(
        {member->name, member->index, member->trouble, member->outlier.is_ejected()});
  }
  Choice choice = Choose(candidates, index_);
  auto found = std::make_shared<Live>();
  for (std::size_t at = 0; at < members.size(); ++at) {
    Member& member = *members[at];
    SetUnused(member, choice.unused[at], now);
    if (!member.unused.empty()) {
      lost.push_back({{member.name, member.worker->address()}, member.unused});
      continue;
    }
    found->names.push_back(member.name);
    found->workers.push_back(member.worker);
  }
  index_ = std::move(choice.index);
  const bool is_without_index = choice.is_without_index && !found->names.empty();
  if (std::exchange(is_without_index_, is_without_index) != is_without_index) {
    Log(is_without_index ? LogLevel::kError : LogLevel::kInfo,
        is_without_index ? "no worker has its index; calls are passed on all the same, and wait"
                         : "workers have their index again");
  }
  return found;
}

void WorkerSet::State::SetUnused(Member& member, const std::string& why, TimePoint now) {
  const bool was_unused = !member.unused.empty();
  member.unused = why;
  if (!why.empty() && !was_unused) {
    member.unused_since = now;
    member.is_unused_told = false;
    Log(LogLevel::kError,
        Cat("worker ", member.name, " at ", member.worker->address(), " gets no new calls: ", why));
  } else if (why.empty() && was_unused) {
    Log(LogLevel::kInfo, Cat("worker ", member.name, " gets calls again"));
  }
}

void WorkerSet::State::TellOfUnused(TimePoint now) {
  for (auto& [address, member] : members_) {
    if (member.unused.empty() || member.is_unused_told) continue;
    if (now < member.unused_since + options_.unused_grace) continue;
    member.is_unused_told = true;
    // What an ejected one has under way may go well.
    const bool has_index =
        member.trouble.empty() && (member.index.empty() || member.index == index_);
    if (!has_index && options_.on_unused) options_.on_unused(member.name, member.unused);
  }
}

void WorkerSet::State::LookForOutliers(TimePoint now) {
  for (auto& [address, member] : members_) {
    const bool was_ejected = member.outlier.is_ejected();
    const int failure_count = member.worker->failure_count();
    const bool is_ejected = member.outlier.Look(failure_count, now, random_);
    if (!is_ejected && !(was_ejected && !member.outlier.is_ejected())) continue;
    is_to_publish_ = true;
    // What has failed until now counts no more.
    member.worker->CountCall(true);
    if (is_ejected) {
      Log(LogLevel::kWarning, Cat("worker ", member.name, " at ", address, ": ", failure_count,
                                  " calls in a row have failed; others get its keys for a while, "
                                  "unless that is half of all workers"));
    }
  }
}

void WorkerSet::State::FindLost(std::vector<WorkerState>& lost) const {
  for (const auto& [address, member] : members_) {
    if (!member.schedule.is_live()) lost.push_back({{member.name, address}, member.why});
  }
  for (const auto& [text, group] : groups_) {
    if (!group.endpoints.has_value()) lost.push_back({{"", text}, group.why});
  }
}

std::string WorkerSet::State::DescribeTroubles() const {
  std::string text;
  std::size_t count = 0;
  const auto add = [&](std::string_view who, std::string_view why) {
    if (why.empty() || count++ >= kMaxNamedWorkers) return;
    text += Cat(text.empty() ? "" : "; ", who, ": ", why);
  };
  for (const auto& [address, member] : members_) {
    if (!member.schedule.is_live()) add(address, member.why);
  }
  for (const auto& [address, group] : groups_) add(address, group.why);
  if (count > kMaxNamedWorkers) text += Cat("; and ", count - kMaxNamedWorkers, " more");
  return text;
}

void WorkerSet::State::Publish(TimePoint now) {
  std::vector<WorkerState> lost;
  std::shared_ptr<const Live> now_live = FindLive(now, lost);
  FindLost(lost);
  std::size_t unasked_count = 0;
  for (const auto& [address, member] : members_) unasked_count += member.was_asked ? 0 : 1;
  for (const auto& [address, group] : groups_) unasked_count += group.endpoints.has_value() ? 0 : 1;
  std::string troubles = DescribeTroubles();
  const bool has_live = !now_live->names.empty();
  {
    const std::lock_guard lock(mutex_);
    live_ = std::move(now_live);
    lost_ = std::move(lost);
    unasked_count_ = unasked_count;
    known_count_ = members_.size();
    troubles_ = std::move(troubles);
    ++work_.publish_count;
  }
  changed_.notify_all();
  if (std::exchange(had_live_, has_live) != has_live && options_.on_liveness) {
    options_.on_liveness(has_live);
  }
}

absl::StatusOr<std::size_t> WorkerSet::State::Find(const Live& live, std::string_view shard_key,
                                                   CallKind kind, const Avoid& avoid) const {
  KERF_RETURN_IF_ERROR(CheckShardKey(shard_key));
  if (live.workers.empty()) {
    const std::lock_guard lock(mutex_);
    return MakeError(Reason::kNoWorker, Cat("no worker is alive: ", troubles_));
  }
  if (!avoid.empty()) {
    const Live others = Without(live, avoid);
    if (!others.names.empty()) {
      KERF_ASSIGN_OR_RETURN(const std::size_t index, Find(others, shard_key, kind, {}));
      const auto found =
          std::lower_bound(live.names.begin(), live.names.end(), others.names[index]);
      return static_cast<std::size_t>(found - live.names.begin());
    }
  }
  if (!shard_key.empty()) return *PickMember(shard_key, live.names);
  const auto least = std::min_element(live.workers.begin(), live.workers.end(),
                                      [kind](const auto& left, const auto& right) {
                                        return left->call_count(kind) < right->call_count(kind);
                                      });
  return static_cast<std::size_t>(least - live.workers.begin());
}

WorkerSet::WorkerSet(WorkerSetOptions options)
    : state_(std::make_shared<State>(std::move(options))) {
  state_->Start();
}

WorkerSet::~WorkerSet() { state_->Stop(); }

bool WorkerSet::WaitForFirstChecks(std::chrono::milliseconds patience) const {
  return state_->WaitForFirstChecks(patience);
}

absl::StatusOr<Route> WorkerSet::Pick(std::string_view shard_key, CallKind kind,
                                      const Avoid& avoid) const {
  const std::shared_ptr<const Live> live = state_->live();
  KERF_ASSIGN_OR_RETURN(const std::size_t index, state_->Find(*live, shard_key, kind, avoid));
  return Enter(live->names[index], live->workers[index], kind);
}

absl::StatusOr<Route> WorkerSet::PickNamed(std::string_view name, CallKind kind) const {
  const std::shared_ptr<const Live> live = state_->live();
  const auto found = std::lower_bound(live->names.begin(), live->names.end(), name);
  if (found == live->names.end() || *found != name) {
    return MakeError(Reason::kNoWorker, "no live worker has the name that the call asks for");
  }
  return Enter(*found, live->workers[static_cast<std::size_t>(found - live->names.begin())], kind);
}

absl::StatusOr<WorkerPlace> WorkerSet::Locate(std::string_view shard_key,
                                              const Avoid& avoid) const {
  const std::shared_ptr<const Live> live = state_->live();
  KERF_ASSIGN_OR_RETURN(const std::size_t index,
                        state_->Find(*live, shard_key, CallKind::kUpload, avoid));
  const Worker& worker = *live->workers[index];
  return WorkerPlace{live->names[index], worker.address(), worker.tls_name()};
}

void WorkerSet::Record(Worker& worker, bool is_well) {
  worker.CountCall(is_well);
  if (worker.failure_count() >= kFailuresUntilEjected) state_->LookForOutliers();
}

void WorkerSet::Doubt(const Worker& worker) { state_->Doubt(worker.address()); }

std::vector<WorkerState> WorkerSet::States() const { return state_->States(); }

std::size_t WorkerSet::live_count() const { return state_->live()->names.size(); }

std::size_t WorkerSet::known_count() const { return state_->known_count(); }

WorkerSetWork WorkerSet::work() const { return state_->work(); }

}  // namespace kerf::routing
