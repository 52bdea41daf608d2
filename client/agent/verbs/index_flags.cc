#include "client/agent/verbs/index_flags.h"

#include "absl/strings/escaping.h"
#include "base/strings.h"
#include "client/agent/store/pack_format.h"
#include "client/cpp/channel.h"

namespace kerf::agent {

CLI::App& AddIndexSubverb(CLI::App& index_verb, const std::string& name,
                          const std::string& description, const std::string& examples,
                          IndexFlags& flags) {
  CLI::App& verb = *index_verb.add_subcommand(name, description);
  verb.fallthrough();
  verb.footer(Cat("Examples:\n", examples));
  AddStoreOption(verb, flags.store);
  AddServerOption(verb, flags.server);
  return verb;
}

ExitCode WithIndex(Context& context, const IndexFlags& flags,
                   const std::function<ExitCode(const Store&, ServerIndex&)>& run) {
  const auto channel = client::OpenChannel(flags.server);
  if (!channel.ok()) return FailUsage(context, channel.status());
  const auto store = Store::Open(flags.store);
  if (!store.ok()) return FailWith(context, store.status());
  ServerIndex index(*channel, **store);
  return run(**store, index);
}

std::string RebuildCommand(const IndexFlags& flags) {
  return Cat("kerf index rebuild --store ", flags.store, " --server ", flags.server);
}

std::string FormatLocator(std::string_view locator) {
  if (const std::optional<Locator> place = DecodeLocator(locator)) {
    return Cat(PackIdToHex(place->pack), ":", place->chunk_index);
  }
  return absl::BytesToHexString(ToAbsl(locator));
}

}  // namespace kerf::agent
