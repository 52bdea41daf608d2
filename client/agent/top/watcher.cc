#include "client/agent/top/watcher.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/request_id.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/agent/cli/context.h"
#include "client/cpp/channel.h"
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

const std::string& LabelOf(const WorkerLook& look) {
  return look.name.empty() ? look.address : look.name;
}

}  // namespace

struct Watcher::Question {
  const Server* server = nullptr;
  // Of an answer's worker; by name if it is behind a front.
  WorkerLook look;
  bool is_behind_front = false;

  grpc::ClientContext context;
  v1::ListWorkersRequest list_request;
  v1::ListWorkersResponse listed;
  v1::GetStatusRequest status_request;
  v1::GetStatusResponse state;
  grpc::Status status;
};

absl::StatusOr<std::unique_ptr<Watcher>> Watcher::Create(const std::vector<std::string>& servers,
                                                         const std::atomic<bool>& cancelled) {
  std::unique_ptr<Watcher> watcher(new Watcher(cancelled));
  for (const std::string& server : servers) {
    KERF_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, client::OpenChannel(server));
    watcher->servers_.push_back({server, std::move(channel)});
  }
  return watcher;
}

void Watcher::Ask(std::vector<std::unique_ptr<Question>>& questions,
                  const std::function<void(Question&)>& start) {
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
    if (!cancelled_) continue;
    // An answer may come at once, in this thread.
    lock.unlock();
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

void Watcher::Understand(const Question& list, std::vector<std::unique_ptr<Question>>& questions,
                         WorkerLooks& lost) {
  const auto ask = [&](WorkerLook look, bool is_behind_front) {
    questions.push_back(std::make_unique<Question>());
    questions.back()->server = list.server;
    questions.back()->look = std::move(look);
    questions.back()->is_behind_front = is_behind_front;
  };
  WorkerLook self;
  self.address = list.server->address;
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
    look.error = Explain(absl::UnavailableError(worker.lost()));
    if (worker.lost().empty()) {
      ask(std::move(look), /*is_behind_front=*/true);
    } else {
      lost.push_back(std::move(look));
    }
  }
}

WorkerLooks Watcher::Look() {
  std::vector<std::unique_ptr<Question>> lists;
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

  std::vector<std::unique_ptr<Question>> questions;
  WorkerLooks lost;
  for (const auto& list : lists) Understand(*list, questions, lost);
  Ask(questions, [this](Question& question) {
    if (question.is_behind_front) {
      question.context.AddMetadata(kWorkerMetadata, question.look.name);
    }
    const auto stub = v1::StatusService::NewStub(question.server->channel);
    stub->async()->GetStatus(
        &question.context, &question.status_request, &question.state,
        [this, &question](grpc::Status status) { TakeAnswer(question, std::move(status)); });
  });

  // Several fronts have the same workers; one that reaches a worker is right.
  std::map<std::string, WorkerLook> found;
  for (WorkerLook& look : lost) found.try_emplace(look.address, std::move(look));
  for (const auto& question : questions) {
    WorkerLook& look = question->look;
    if (question->status.ok()) {
      look.status = std::move(question->state);
      if (!look.status->counts().worker().empty()) look.name = look.status->counts().worker();
      names_[look.address] = look.name;
    } else {
      look.error = Explain(question->status);
    }
    WorkerLook& kept = found.try_emplace(look.address, look).first->second;
    if (!kept.status.has_value()) kept = std::move(look);
  }
  std::erase_if(names_, [&](const auto& named) { return !found.contains(named.first); });
  WorkerLooks looks;
  for (auto& [address, look] : found) {
    const auto name = names_.find(address);
    if (name != names_.end()) look.name = name->second;
    looks.push_back(std::move(look));
  }
  std::stable_sort(looks.begin(), looks.end(), [](const WorkerLook& left, const WorkerLook& right) {
    return LabelOf(left) < LabelOf(right);
  });
  return looks;
}

}  // namespace kerf::agent
