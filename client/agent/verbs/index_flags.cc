#include "client/agent/verbs/index_flags.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/strings.h"
#include "client/agent/verbs/interrupted_calls.h"
#include "client/agent/verbs/open_store.h"
#include "client/cpp/channel.h"
#include "client/store/format/pack_format.h"

namespace kerf::agent {
namespace {

// As one word of a shell's command line.
std::string ShellWord(const std::string& text) {
  static constexpr std::string_view kPlain = "%+,-./:=@_";
  const bool is_plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kPlain.find(c) != std::string_view::npos;
  });
  if (is_plain) return text;
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

}  // namespace

Verb AddIndexSubverb(const Verb& index_verb, const std::string& name,
                     const std::string& description, const std::string& examples,
                     IndexFlags& flags) {
  const Verb verb = index_verb.AddVerb(name, description, examples);
  AddStoreOption(verb, flags.store);
  AddServerOption(verb, flags.server);
  return verb;
}

ExitCode WithIndex(Context& context, const IndexFlags& flags,
                   const std::function<ExitCode(const Store&, client::ServerIndex&)>& run) {
  const auto channel = client::OpenChannel(flags.server);
  if (!channel.ok()) return FailUsage(context, channel.status());
  const auto store = OpenStore(context, flags.store);
  if (!store.ok()) return FailWith(context, store.status());
  InterruptedCalls calls(context);
  client::ServerIndex index(*channel, (*store)->config().id(), (*store)->digest_algorithm(),
                            &calls.cancellation());
  return run(**store, index);
}

std::string RebuildCommand(const IndexFlags& flags) {
  return Cat("kerf index rebuild --store ", ShellWord(flags.store), " --server ",
             ShellWord(flags.server));
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
