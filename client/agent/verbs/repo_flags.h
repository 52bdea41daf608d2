// What the verbs below `kerf repo` share.
#pragma once

#include <functional>
#include <string>

#include "client/cli/context.h"
#include "client/cpp/patient_call.h"
#include "client/cpp/server_repositories.h"
#include "client/store/snapshots/store.h"
#include "grpcpp/channel.h"

namespace kerf::agent {

struct RepoFlags {
  // One of these two says which repository is meant.
  std::string name;
  std::string store;
  // Of one that is named.
  std::string digest = "blake3";
  ServerFlags server;
};

// A subcommand with NAME, --store, --digest and --server. `flags` lives as long as the command
// line.
Verb AddRepoSubverb(const Verb& repo_verb, const std::string& name, const std::string& description,
                    const std::string& examples, RepoFlags& flags);

// What a verb has to work with.
struct RepoTools {
  const client::ServerRepository& repository;
  // Null where the repository was named.
  const Store* store = nullptr;
  client::ServerRepositories& repositories;
  const std::shared_ptr<grpc::Channel>& channel;
  // Of calls beside those of `repositories`.
  const client::CallOptions& calls;
  const client::ServerAddress& server;
};
// Finds out which repository is meant, and calls `run`, or says what is wrong.
using RepoRun = std::function<ExitCode(const RepoTools& tools)>;
ExitCode WithRepository(Context& context, const RepoFlags& flags, const RepoRun& run);

// As FailWithServer; of a server that knows no repositories it says so.
ExitCode FailWithRepositories(Context& context, const absl::Status& status,
                              const client::ServerAddress& server);

}  // namespace kerf::agent
