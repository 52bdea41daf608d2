#include "server/edge/repository_service.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/task.h"
#include "server/edge/on_pool.h"
#include "server/index/rules.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

// What was remembered of it is asked for anew.
void ForgetKnown(const AskedIndex& asked, const RepositoryId& repository) {
  if (asked.repositories != nullptr) asked.repositories->Forget(repository);
}

// An operator's steps are few, and worth a line.
void Tell(const RepositoryId& repository, std::string_view what) {
  Log(LogLevel::kInfo, Cat("repository '", repository.name, "' (",
                           DigestAlgorithmName(repository.digest_algorithm), ") ", what));
}

// For steps of an operator that make a repository where there is none.
Task<absl::Status> CheckToBegin(const AskedIndex& asked, const RepositoryId& repository) {
  if (asked.repositories == nullptr) co_return absl::OkStatus();
  co_return co_await OnPool(asked.pool, asked.repositories->CheckAlgorithm(repository));
}

Task<absl::Status> Create(AskedIndex asked, std::unique_ptr<v1::CreateRepositoryRequest> request,
                          v1::CreateRepositoryResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           ReadRepository(asked, request->repository()));
  KERF_CO_RETURN_IF_ERROR(co_await CheckToBegin(asked, repository));
  asked.record->Ask();
  KERF_CO_ASSIGN_OR_RETURN(const bool is_new,
                           co_await OnPool(asked.pool, asked.index->Create(repository)));
  ForgetKnown(asked, repository);
  if (is_new) Tell(repository, "was created");
  response->set_is_new(is_new);
  co_return absl::OkStatus();
}

Task<absl::Status> List(AskedIndex asked, std::unique_ptr<v1::ListRepositoriesRequest> request,
                        v1::ListRepositoriesResponse* response) {
  if (request->limit() == 0 || request->limit() > kMaxListedRepositories) {
    co_return BadField("limit", Cat("is ", request->limit(), "; one answer has 1 to ",
                                    kMaxListedRepositories, " repositories"));
  }
  std::optional<RepositoryId> after;
  if (request->has_after()) {
    KERF_CO_ASSIGN_OR_RETURN(after, ParseRepository(request->after()));
  }
  KERF_CO_ASSIGN_OR_RETURN(const std::vector<ListedRepository> page,
                           co_await OnPool(asked.pool, asked.index->List(after, request->limit())));
  for (const ListedRepository& listed : page) {
    v1::ListedRepository& added = *response->add_repositories();
    added.mutable_repository()->set_repository(listed.id.name);
    added.mutable_repository()->set_digest_algorithm(
        static_cast<v1::DigestAlgorithm>(listed.id.digest_algorithm));
    added.set_is_created(listed.is_created);
  }
  co_return absl::OkStatus();
}

Task<absl::Status> Drop(AskedIndex asked, std::unique_ptr<v1::DropRepositoryRequest> request,
                        v1::DropRepositoryResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           ReadRepository(asked, request->repository()));
  KERF_CO_RETURN_IF_ERROR(CheckLimit(request->limit()));
  KERF_CO_ASSIGN_OR_RETURN(const std::optional<Digest> after,
                           ReadAfter(repository, request->after()));
  ForgetKnown(asked, repository);
  asked.record->AskFor(audit::Count::kForgetsAsked, request->limit());
  KERF_CO_ASSIGN_OR_RETURN(
      const StepResult result,
      co_await OnPool(asked.pool, asked.index->Drop(repository, after, request->limit())));
  // Again: a stream that was opened meanwhile has asked before it was gone.
  ForgetKnown(asked, repository);
  asked.record->Add(audit::Count::kForgotten, result.changed_count);
  response->set_dropped_count(result.changed_count);
  if (result.last.has_value()) {
    response->set_last(WireDigest(repository, *result.last));
  } else {
    asked.pace->Forgive(repository);
    Tell(repository, "was dropped");
  }
  co_return absl::OkStatus();
}

Task<absl::Status> Reset(AskedIndex asked, std::unique_ptr<v1::ResetEpochRequest> request,
                         v1::ResetEpochResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           ReadRepository(asked, request->repository()));
  KERF_CO_RETURN_IF_ERROR(CheckLimit(request->limit()));
  const std::uint64_t epoch = request->epoch();
  if (epoch > index_rules::kMaxEpoch) {
    co_return BadField("epoch",
                       Cat("is ", epoch, "; no store counts beyond ", index_rules::kMaxEpoch));
  }
  KERF_CO_ASSIGN_OR_RETURN(const std::optional<Digest> after,
                           ReadAfter(repository, request->after()));
  KERF_CO_RETURN_IF_ERROR(co_await CheckToBegin(asked, repository));
  asked.record->AskFor(audit::Count::kEpoch, epoch);
  KERF_CO_ASSIGN_OR_RETURN(
      const StepResult result,
      co_await OnPool(asked.pool,
                      asked.index->ResetEpoch(repository, epoch, after, request->limit())));
  response->set_lowered_count(result.changed_count);
  if (result.last.has_value()) {
    response->set_last(WireDigest(repository, *result.last));
  } else {
    asked.pace->Forgive(repository);
    Tell(repository, Cat("has epoch ", epoch, " by an operator"));
  }
  co_return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* RepositoryService::CreateRepository(grpc::CallbackServerContext* context,
                                                              const grpc::ByteBuffer* request,
                                                              grpc::ByteBuffer* response) {
  return RunIndexCall(*calls_, asked_,
                      {context, request, response, "kerf.v1.RepositoryService/CreateRepository",
                       access::Need::kAdmin},
                      &Create);
}

grpc::ServerUnaryReactor* RepositoryService::ListRepositories(grpc::CallbackServerContext* context,
                                                              const grpc::ByteBuffer* request,
                                                              grpc::ByteBuffer* response) {
  return RunIndexCall(*calls_, asked_,
                      {context, request, response, "kerf.v1.RepositoryService/ListRepositories",
                       access::Need::kOperate},
                      &List);
}

grpc::ServerUnaryReactor* RepositoryService::DropRepository(grpc::CallbackServerContext* context,
                                                            const grpc::ByteBuffer* request,
                                                            grpc::ByteBuffer* response) {
  return RunIndexCall(*calls_, asked_,
                      {context, request, response, "kerf.v1.RepositoryService/DropRepository",
                       access::Need::kAdmin},
                      &Drop);
}

grpc::ServerUnaryReactor* RepositoryService::ResetEpoch(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  return RunIndexCall(
      *calls_, asked_,
      {context, request, response, "kerf.v1.RepositoryService/ResetEpoch", access::Need::kAdmin},
      &Reset);
}

}  // namespace kerf
