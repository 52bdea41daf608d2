#include "client/agent/top/watcher.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/request_id.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/cli/context.h"
#include "client/cpp/channel.h"
#include "client/cpp/retry.h"
#include "client/cpp/tls_check.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/routing.grpc.pb.h"
#include "kerf/v1/status.grpc.pb.h"

namespace kerf::agent {
namespace {

using std::chrono::milliseconds;

// For one answer; a worker that takes longer is as good as lost.
constexpr milliseconds kPatience{2000};
// How soon an interrupt is noticed.
constexpr milliseconds kPoll{50};
// At once: fewer than a front or a worker has places for.
constexpr std::size_t kMaxQuestions = 32;
// As many as a front takes. Nobody is made to ask more by a server that says that it has them.
constexpr std::size_t kMaxWorkers = 1024;
// An honest one has some hundred bytes; those of two looks are kept.
constexpr std::size_t kMaxStatusBytes = 64 << 10;
// What a server says of why is cut there.
constexpr std::size_t kMaxReasonBytes = 500;
// Of workers that were met, also those that nobody names any more: fronts that lie cost no more.
constexpr std::size_t kMaxKnown = 2 * kMaxWorkers;
// gRPC's own words where TLS has come to nothing, or a server speaks something else.
constexpr const char* kBrokenHandshakes[] = {"handshake failed", "Peer name",
                                             "Endpoint read failed", "Socket closed"};
// docs/spec/routing.md, "A worker by its name".
constexpr char kWorkerMetadata[] = "kerf-worker-bin";

// Without the words of gRPC around it, the front's own gRPC included.
std::string Explain(const absl::Status& error) {
  const std::string_view failure = ConnectionFailure(error);
  return std::string((failure.empty() ? MessageOf(error) : failure).substr(0, kMaxReasonBytes));
}

std::string Explain(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return Cat("no answer within ", kPatience.count() / 1000, " s");
  }
  return Explain(client::FromGrpc(status));
}

// Only where somebody has answered: a look is not to wait for who is away.
void ExplainByHandshake(const std::string& server, const client::TlsChoice& tls,
                        grpc::Status& status) {
  const std::string& said = status.error_message();
  if (std::none_of(std::begin(kBrokenHandshakes), std::end(kBrokenHandshakes),
                   [&](const char* words) { return said.find(words) != std::string::npos; })) {
    return;
  }
  const absl::Status why =
      client::ExplainByTls(client::FromGrpc(status), {server, tls}, /*cancellation=*/nullptr);
  if (!client::IsTlsTrouble(why)) return;
  status = {grpc::StatusCode::UNAUTHENTICATED, std::string(MessageOf(why))};
}

const std::string& LabelOf(const WorkerLook& look) {
  return look.name.empty() ? look.address : look.name;
}

// 0: it is lost, or does not tell.
std::uint64_t ProcessOf(const WorkerLook& look) {
  return look.status.has_value() ? look.status->counts().process() : 0;
}

bool HasLive(const std::map<std::string, WorkerLook>& looks, const std::string& name) {
  return std::any_of(looks.begin(), looks.end(), [&](const auto& entry) {
    return entry.second.status.has_value() && entry.second.name == name;
  });
}

}  // namespace

struct Watcher::Question {
  const Server* server = nullptr;
  // Of an answer's worker; by name if it is behind a front.
  WorkerLook look;
  bool is_behind_front = false;
  // A front that knows no lists.
  bool is_old_front = false;

  grpc::ClientContext context;
  v1::ListWorkersRequest list_request;
  v1::ListWorkersResponse listed;
  v1::LocateRequest locate_request;
  v1::LocateResponse located;
  v1::GetStatusRequest status_request;
  v1::GetStatusResponse state;
  grpc::Status status;
};

absl::StatusOr<std::unique_ptr<Watcher>> Watcher::Create(const client::ServerAddress& servers,
                                                         const std::atomic<bool>& cancelled,
                                                         Clock clock) {
  std::unique_ptr<Watcher> watcher(new Watcher(servers.tls, cancelled, std::move(clock)));
  KERF_ASSIGN_OR_RETURN(const std::vector<std::string> all, client::ParseServers(servers.text));
  for (const std::string& server : all) {
    KERF_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                          client::OpenChannel({server, servers.tls}));
    watcher->servers_.push_back({server, std::move(channel)});
  }
  return watcher;
}

void Watcher::Ask(Questions& questions, const std::function<void(Question&)>& start) {
  std::size_t started_count = 0;
  const auto can_start = [&] {
    return started_count < questions.size() && started_count - ended_count_ < kMaxQuestions;
  };
  std::unique_lock lock(mutex_);
  ended_count_ = 0;
  while (ended_count_ < questions.size()) {
    while (can_start()) {
      Question& question = *questions[started_count++];
      lock.unlock();
      question.context.set_deadline(std::chrono::system_clock::now() + kPatience);
      question.context.AddMetadata(kRequestIdMetadata, NewRequestId());
      start(question);
      lock.lock();
    }
    changed_.wait_for(lock, kPoll, [&] { return ended_count_ == questions.size() || can_start(); });
    // An answer may come at once, in this thread.
    lock.unlock();
    (*poll_)();
    if (!cancelled_) {
      lock.lock();
      continue;
    }
    for (std::size_t index = 0; index < started_count; ++index) {
      questions[index]->context.TryCancel();
    }
    lock.lock();
  }
}

void Watcher::TakeAnswer(Question& question, grpc::Status status) {
  if (question.state.ByteSizeLong() > kMaxStatusBytes) {
    question.state.Clear();
    status = {grpc::StatusCode::RESOURCE_EXHAUSTED,
              Cat("its answer has more than ", kMaxStatusBytes, " bytes")};
  }
  const std::lock_guard lock(mutex_);
  question.status = std::move(status);
  ++ended_count_;
  changed_.notify_all();
}

void Watcher::Understand(const Question& list, Questions& questions, WorkerLooks& lost) {
  const auto ask = [&](WorkerLook look, bool is_behind_front) {
    questions.push_back(std::make_unique<Question>());
    questions.back()->server = list.server;
    questions.back()->look = std::move(look);
    questions.back()->is_behind_front = is_behind_front;
  };
  WorkerLook self;
  self.address = list.server->address;
  if (list.is_old_front) {
    self.error = "a front that is older than this kerf, and does not list its workers";
    lost.push_back(std::move(self));
    return;
  }
  if (list.status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    ask(std::move(self), /*is_behind_front=*/false);
    return;
  }
  if (!list.status.ok()) {
    self.error = Explain(list.status);
    lost.push_back(std::move(self));
    return;
  }
  for (const v1::WorkerState& worker : list.listed.workers()) {
    if (questions.size() + lost.size() == kMaxWorkers) return;
    WorkerLook look;
    look.address = worker.address();
    look.name = worker.worker();
    if (worker.lost().empty() && !look.name.empty()) {
      ask(std::move(look), /*is_behind_front=*/true);
      continue;
    }
    look.error = Explain(absl::UnavailableError(
        worker.lost().empty() ? "its front does not know its name" : worker.lost()));
    lost.push_back(std::move(look));
  }
}

void Watcher::OpenLostChannels() {
  if (!tls_.is_tls()) return;
  for (Server& server : servers_) {
    if (!server.is_lost) continue;
    auto channel = client::OpenChannel({server.address, tls_});
    if (channel.ok()) server.channel = *std::move(channel);
  }
}

Watcher::Questions Watcher::AskForLists() {
  OpenLostChannels();
  Questions lists;
  for (const Server& server : servers_) {
    lists.push_back(std::make_unique<Question>());
    lists.back()->server = &server;
  }
  Ask(lists, [this](Question& question) {
    const auto stub = v1::RoutingService::NewStub(question.server->channel);
    stub->async()->ListWorkers(
        &question.context, &question.list_request, &question.listed,
        [this, &question](grpc::Status status) { TakeAnswer(question, std::move(status)); });
  });
  for (std::size_t index = 0; index < lists.size(); ++index) {
    grpc::Status& status = lists[index]->status;
    servers_[index].is_lost = status.error_code() == grpc::StatusCode::UNAVAILABLE;
    if (servers_[index].is_lost) ExplainByHandshake(servers_[index].address, tls_, status);
  }
  // A front from before there were lists passes the question on to just any worker, which does not
  // know it either. What each front answers itself shows it.
  Questions places;
  std::vector<Question*> asked;
  for (const auto& list : lists) {
    if (list->status.error_code() != grpc::StatusCode::UNIMPLEMENTED) continue;
    places.push_back(std::make_unique<Question>());
    places.back()->server = list->server;
    asked.push_back(list.get());
  }
  Ask(places, [this](Question& question) {
    const auto stub = v1::RoutingService::NewStub(question.server->channel);
    stub->async()->Locate(
        &question.context, &question.locate_request, &question.located,
        [this, &question](grpc::Status status) { TakeAnswer(question, std::move(status)); });
  });
  for (std::size_t index = 0; index < places.size(); ++index) {
    asked[index]->is_old_front = places[index]->status.ok();
  }
  return lists;
}

void Watcher::AskForStates(Questions& questions) {
  Ask(questions, [this](Question& question) {
    if (question.is_behind_front) {
      question.context.AddMetadata(kWorkerMetadata, question.look.name);
    }
    const auto stub = v1::StatusService::NewStub(question.server->channel);
    stub->async()->GetStatus(
        &question.context, &question.status_request, &question.state,
        [this, &question](grpc::Status status) { TakeAnswer(question, std::move(status)); });
  });
}

WorkerLooks Watcher::Look(const std::function<void()>& poll) {
  poll_ = &poll;
  const Questions lists = AskForLists();
  Questions questions;
  WorkerLooks lost;
  for (const auto& list : lists) Understand(*list, questions, lost);
  AskForStates(questions);

  // Several fronts have the same workers; one that reaches a worker is right.
  LooksByAddress found;
  for (WorkerLook& look : lost) found.try_emplace(look.address, std::move(look));
  for (const auto& question : questions) {
    WorkerLook& look = question->look;
    if (question->status.ok()) {
      look.status = std::move(question->state);
      if (!look.status->counts().worker().empty()) look.name = look.status->counts().worker();
    } else {
      look.error = Explain(question->status);
    }
    WorkerLook& kept = found.try_emplace(look.address, look).first->second;
    if (!kept.status.has_value()) kept = std::move(look);
  }
  MergeWays(found);
  Remember(found);
  WorkerLooks looks;
  for (auto& [address, look] : found) looks.push_back(std::move(look));
  std::stable_sort(looks.begin(), looks.end(), [](const WorkerLook& left, const WorkerLook& right) {
    return LabelOf(left) < LabelOf(right);
  });
  return looks;
}

bool Watcher::IsNamedByUser(const std::string& address) const {
  return std::any_of(servers_.begin(), servers_.end(),
                     [&](const Server& server) { return server.address == address; });
}

// Where the process that has answered at `address` was shown before, if it may still be there.
std::string Watcher::LastPlaceOf(const std::string& address, std::uint64_t process,
                                 const LooksByAddress& found) const {
  const auto alias = aliases_.find(address);
  if (alias == aliases_.end() || alias->second.process != process) return address;
  const auto place = found.find(alias->second.address);
  if (place == found.end()) return address;
  const bool is_another = place->second.status.has_value() && ProcessOf(place->second) != process;
  return is_another ? address : place->first;
}

// A process is shown where the user named it, or else at the first of its addresses.
void Watcher::FindAliases(const LooksByAddress& found) {
  std::map<std::uint64_t, std::string> places;
  for (const auto& [address, look] : found) {
    const std::uint64_t process = ProcessOf(look);
    if (process == 0) continue;
    const std::string last = LastPlaceOf(address, process, found);
    const auto [place, is_first] = places.try_emplace(process, last);
    if (!is_first && IsNamedByUser(last) && !IsNamedByUser(place->second)) place->second = last;
  }
  for (const auto& [address, look] : found) {
    const auto place = places.find(ProcessOf(look));
    if (place != places.end()) aliases_[address] = {place->second, place->first};
  }
  // Where one is shown none is hidden.
  for (const auto& [process, place] : places) aliases_.erase(place);
}

// Who is lost at one of his addresses, or at both, is the one that he was: others are not.
bool Watcher::IsVoid(const std::string& address, const Alias& alias,
                     const LooksByAddress& found) const {
  const auto look = found.find(address);
  if (look == found.end() || !found.contains(alias.address)) return true;
  // Where it was shown is another address of another one now.
  if (aliases_.contains(alias.address)) return true;
  const std::uint64_t process = ProcessOf(look->second);
  return look->second.status.has_value() && process != alias.process;
}

void Watcher::MergeWays(LooksByAddress& found) {
  FindAliases(found);
  std::erase_if(aliases_,
                [&](const auto& entry) { return IsVoid(entry.first, entry.second, found); });
  for (const auto& [address, alias] : aliases_) {
    const auto merged = found.find(address);
    WorkerLook& kept = found.at(alias.address);
    if (!kept.status.has_value() && merged->second.status.has_value()) {
      merged->second.address = alias.address;
      kept = std::move(merged->second);
    }
    found.erase(merged);
    known_.erase(address);
  }
}

void Watcher::Remember(LooksByAddress& found) {
  const auto now = clock_();
  for (auto& [address, look] : found) {
    const auto known = known_.find(address);
    if (known != known_.end()) {
      if (look.status.has_value()) known->second.name = look.name;
      look.name = known->second.name;
      known->second.named_at = now;
    } else if (look.status.has_value() && known_.size() < kMaxKnown) {
      known_[address] = {look.name, now};
    }
  }
  std::erase_if(known_, [&](const auto& entry) {
    const auto& [address, known] = entry;
    return !found.contains(address) &&
           (now - known.named_at >= kGoneTime || HasLive(found, known.name));
  });
  for (const auto& [address, known] : known_) {
    if (found.contains(address)) continue;
    WorkerLook look;
    look.address = address;
    look.name = known.name;
    look.error = "no front that answers names it any more";
    found.emplace(address, std::move(look));
  }
}

}  // namespace kerf::agent
