#include "client/cpp/server_repositories.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/status.h"

namespace kerf::client {
namespace {

// Of one call: it is done long before its deadline, also by a slow disk.
constexpr std::uint32_t kStepEntries = 16'384;
constexpr std::uint32_t kListPage = 1'000;

v1::RepositoryRef RefOf(const ServerRepository& repository) {
  v1::RepositoryRef ref;
  ref.set_repository(repository.name);
  ref.set_digest_algorithm(static_cast<v1::DigestAlgorithm>(repository.digest_algorithm));
  return ref;
}

absl::Status BadAnswer() {
  return absl::DataLossError(
      "the server's answer does not fit the question: is it a kerfd of another version?");
}

// A page that is no later than the one before would never end.
template <typename Request>
absl::Status GoOn(const std::string& last, Request& request) {
  if (last <= request.after()) return BadAnswer();
  request.set_after(last);
  return absl::OkStatus();
}

}  // namespace

ServerRepositories::ServerRepositories(const std::shared_ptr<grpc::Channel>& channel,
                                       CallOptions options)
    : stub_(v1::RepositoryService::NewStub(channel)), calls_(std::move(options)) {}

template <typename Request, typename Response>
absl::Status ServerRepositories::Call(grpc::Status (v1::RepositoryService::Stub::*method)(
                                          grpc::ClientContext*, const Request&, Response*),
                                      const Request& request, Response& response) {
  return calls_.Call([&](grpc::ClientContext& context) {
    return (stub_.get()->*method)(&context, request, &response);
  });
}

absl::StatusOr<std::optional<bool>> ServerRepositories::Create(const ServerRepository& repository) {
  v1::CreateRepositoryRequest request;
  *request.mutable_repository() = RefOf(repository);
  v1::CreateRepositoryResponse response;
  KERF_RETURN_IF_ERROR(Call(&v1::RepositoryService::Stub::CreateRepository, request, response));
  if (!response.is_new() && calls_.was_perhaps_done_before()) return std::nullopt;
  return response.is_new();
}

absl::StatusOr<std::vector<ServerRepository>> ServerRepositories::List() {
  std::vector<ServerRepository> all;
  v1::ListRepositoriesRequest request;
  request.set_limit(kListPage);
  // Length, name, algorithm: the order of the pages.
  const auto place = [](const v1::RepositoryRef& ref) {
    return std::tuple(ref.repository().size(), ref.repository(), ref.digest_algorithm());
  };
  while (true) {
    v1::ListRepositoriesResponse response;
    KERF_RETURN_IF_ERROR(Call(&v1::RepositoryService::Stub::ListRepositories, request, response));
    if (response.repositories().empty()) break;
    for (const v1::ListedRepository& listed : response.repositories()) {
      const v1::RepositoryRef& ref = listed.repository();
      if (ref.digest_algorithm() < v1::DIGEST_ALGORITHM_BLAKE3 ||
          ref.digest_algorithm() > v1::DIGEST_ALGORITHM_XXH3_128 ||
          place(ref) <= place(request.after())) {
        return BadAnswer();
      }
      all.push_back({ref.repository(), static_cast<DigestAlgorithm>(ref.digest_algorithm()),
                     listed.is_created()});
      *request.mutable_after() = ref;
    }
  }
  std::sort(all.begin(), all.end(), [](const ServerRepository& a, const ServerRepository& b) {
    return std::tie(a.name, a.digest_algorithm) < std::tie(b.name, b.digest_algorithm);
  });
  return all;
}

absl::StatusOr<std::uint64_t> ServerRepositories::Drop(const ServerRepository& repository,
                                                       const Progress& progress) {
  v1::DropRepositoryRequest request;
  *request.mutable_repository() = RefOf(repository);
  request.set_limit(kStepEntries);
  std::uint64_t dropped_count = 0;
  while (true) {
    v1::DropRepositoryResponse response;
    KERF_RETURN_IF_ERROR(Call(&v1::RepositoryService::Stub::DropRepository, request, response));
    dropped_count += response.dropped_count();
    if (response.last().empty()) return dropped_count;
    KERF_RETURN_IF_ERROR(GoOn(response.last(), request));
    KERF_RETURN_IF_ERROR(progress(dropped_count));
  }
}

absl::StatusOr<std::uint64_t> ServerRepositories::ResetEpoch(const ServerRepository& repository,
                                                             std::uint64_t epoch,
                                                             const Progress& progress) {
  v1::ResetEpochRequest request;
  *request.mutable_repository() = RefOf(repository);
  request.set_epoch(epoch);
  request.set_limit(kStepEntries);
  std::uint64_t lowered_count = 0;
  while (true) {
    v1::ResetEpochResponse response;
    KERF_RETURN_IF_ERROR(Call(&v1::RepositoryService::Stub::ResetEpoch, request, response));
    lowered_count += response.lowered_count();
    if (response.last().empty()) return lowered_count;
    KERF_RETURN_IF_ERROR(GoOn(response.last(), request));
    KERF_RETURN_IF_ERROR(progress(lowered_count));
  }
}

}  // namespace kerf::client
