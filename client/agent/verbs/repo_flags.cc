#include "client/agent/verbs/repo_flags.h"

#include <memory>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/agent/verbs/interrupted_calls.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/retry_notice.h"
#include "client/cli/cut_flags.h"
#include "client/cpp/channel.h"
#include "client/cpp/retry.h"

namespace kerf::agent {

Verb AddRepoSubverb(const Verb& repo_verb, const std::string& name, const std::string& description,
                    const std::string& examples, RepoFlags& flags) {
  const Verb verb = repo_verb.AddVerb(name, description, examples);
  verb.AddOption("name", flags.name, "The repository, by its name").Check(RefuseEmpty).Type("NAME");
  verb.AddOption("--store", flags.store, "The repository of this store, in the place of NAME")
      .Check(RefuseEmpty)
      .Type("DIR");
  verb.AddOption("--digest", flags.digest,
                 "Of a NAME: how its chunks are named, blake3, sha256 or xxh3-128")
      .ShowDefault();
  AddServerOption(verb, flags.server);
  return verb;
}

ExitCode WithRepository(Context& context, const RepoFlags& flags, const RepoRun& run) {
  if (flags.name.empty() == flags.store.empty()) {
    return FailUsage(context, absl::InvalidArgumentError(
                                  "say which repository: its name, or --store, and not both"));
  }
  const auto digest = ParseDigestFlag(flags.digest);
  if (!digest.ok()) return FailUsage(context, digest.status());
  const auto server = ServerOf(context, flags.server);
  if (!server.ok()) return FailUsage(context, server.status());
  const auto channel = client::OpenChannel(*server);
  if (!channel.ok()) return FailUsage(context, channel.status());
  client::ServerRepository repository{flags.name, *digest};
  std::unique_ptr<Store> store;
  if (!flags.store.empty()) {
    auto opened = OpenStore(context, flags.store);
    if (!opened.ok()) return FailWith(context, opened.status());
    store = *std::move(opened);
    repository = {store->config().id(), store->digest_algorithm()};
  }
  if (const absl::Status started = StartOwnKerfd(context); !started.ok()) {
    return FailWith(context, started);
  }
  InterruptedCalls calls(context);
  const client::CallOptions options = CallOptionsOf(context, calls, *server);
  client::ServerRepositories repositories(*channel, options);
  return run({repository, store.get(), repositories, *channel, options, *server});
}

ExitCode FailWithRepositories(Context& context, const absl::Status& status,
                              const client::ServerAddress& server) {
  if (!absl::IsUnimplemented(status)) return FailWithServer(context, status, server);
  const absl::Status annotated = Annotate(
      status, "this server has no calls about repositories; a kerfd of a later version has");
  return FailWith(context, client::OfCall(annotated, status));
}

}  // namespace kerf::agent
