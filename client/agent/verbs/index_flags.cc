#include "client/agent/verbs/index_flags.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/strings.h"
#include "client/agent/verbs/interrupted_calls.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/retry_notice.h"
#include "client/agent/verbs/shell_word.h"
#include "client/cpp/channel.h"
#include "client/store/format/pack_format.h"

namespace kerf::agent {
Verb AddIndexSubverb(const Verb& index_verb, const std::string& name,
                     const std::string& description, const std::string& examples,
                     IndexFlags& flags) {
  const Verb verb = index_verb.AddVerb(name, description, examples);
  AddStoreOption(verb, flags.store);
  AddServerOption(verb, flags.server);
  AddIndexRetryOption(verb, flags.retry_for);
  return verb;
}

ExitCode WithIndex(Context& context, const IndexFlags& flags, const IndexRun& run) {
  const auto server = ServerOf(context, flags.server);
  if (!server.ok()) return FailUsage(context, server.status());
  const auto channels = client::OpenChannels(*server);
  if (!channels.ok()) return FailUsage(context, channels.status());
  const auto patience = flags.retry_for.Parse();
  if (!patience.ok()) return FailUsage(context, patience.status());
  const auto store = OpenStore(context, flags.store);
  if (!store.ok()) return FailWith(context, store.status());
  if (const absl::Status started = StartOwnKerfd(context); !started.ok()) {
    return FailWith(context, started);
  }
  InterruptedCalls calls(context);
  client::ServerIndex index(*channels, (*store)->config().id(), (*store)->digest_algorithm(),
                            CallOptionsOf(context, calls, *server, *patience));
  return run(**store, index, *server);
}

std::string RebuildCommand(const IndexFlags& flags) {
  std::string command = Cat("kerf index rebuild --store ", ShellWord(flags.store));
  const ServerFlags& server = flags.server;
  for (const auto& [flag, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {" --server ", server.address},
           {" --tls-ca ", server.tls.ca},
           {" --tls-cert ", server.tls.certificate},
           {" --tls-key ", server.tls.key},
           {" --tls-name ", server.tls_name},
           {" --token-file ", server.token_file},
           {" --server-user ", server.server_user}}) {
    if (!value.empty()) command += Cat(flag, ShellWord(value));
  }
  return command;
}

std::string VerifyCommand(const IndexFlags& flags) {
  return Cat("kerf verify --store ", ShellWord(flags.store));
}

std::string FormatLocator(std::string_view locator) {
  if (const std::optional<Locator> place = DecodeLocator(locator)) {
    return Cat(PackIdToHex(place->pack), ":", place->chunk_index);
  }
  return absl::BytesToHexString(ToAbsl(locator));
}

}  // namespace kerf::agent
