// Repositories of a kerfd's index as a whole, over the Repository service: for operators.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/patient_call.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/repository.grpc.pb.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::client {

struct ServerRepository {
  std::string name;
  DigestAlgorithm digest_algorithm = DigestAlgorithm::kBlake3;
  // By Create; else it was met when somebody named it.
  bool is_created = false;
};

// Each call has a deadline of a minute, and ends with the server's error; Unimplemented of a kerfd
// that has no such service. DataLoss for what cannot be an answer.
class ServerRepositories {
 public:
  // Told how many entries are done; what it returns that is not OK ends the run.
  using Progress = std::function<absl::Status(std::uint64_t done_count)>;

  // Each call is made as PatientCalls makes it.
  explicit ServerRepositories(const std::shared_ptr<grpc::Channel>& channel,
                              CallOptions options = {});

  // Whether it is new. Nothing: it is there, and was made by a try whose answer was lost, or by
  // somebody else.
  absl::StatusOr<std::optional<bool>> Create(const ServerRepository& repository);
  // All, by name.
  absl::StatusOr<std::vector<ServerRepository>> List();
  // How many entries went, at least: a try whose answer was lost is not counted. One that is broken
  // off can be begun again, and so for ResetEpoch.
  absl::StatusOr<std::uint64_t> Drop(const ServerRepository& repository, const Progress& progress);
  // How many entries were of later epochs.
  absl::StatusOr<std::uint64_t> ResetEpoch(const ServerRepository& repository, std::uint64_t epoch,
                                           const Progress& progress);

 private:
  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (v1::RepositoryService::Stub::*method)(grpc::ClientContext*,
                                                                        const Request&, Response*),
                    const Request& request, Response& response);

  const std::unique_ptr<v1::RepositoryService::Stub> stub_;
  PatientCalls calls_;
};

}  // namespace kerf::client
