// What the verbs below `kerf index` share.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "client/agent/verbs/retry_flag.h"
#include "client/cli/context.h"
#include "client/cpp/server_index.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

struct IndexFlags {
  std::string store;
  ServerFlags server;
  RetryFlag retry_for;
};

// A subcommand with --store, --server and --retry-for. `flags` lives as long as the command line.
Verb AddIndexSubverb(const Verb& index_verb, const std::string& name,
                     const std::string& description, const std::string& examples,
                     IndexFlags& flags);

// Opens both and calls `run`, or says what is wrong.
using IndexRun = std::function<ExitCode(const Store& store, client::ServerIndex& index,
                                        const client::ServerAddress& server)>;
ExitCode WithIndex(Context& context, const IndexFlags& flags, const IndexRun& run);

// What to type to mend the index.
std::string RebuildCommand(const IndexFlags& flags);
// And to see whether the snapshots have all their chunks.
std::string VerifyCommand(const IndexFlags& flags);

// A kerf's locator as PACK:POSITION, any other one as hexadecimal digits.
std::string FormatLocator(std::string_view locator);

}  // namespace kerf::agent
