// Which implementation of an algorithm cuts. All give the same cuts; one is the fastest on a
// machine, and which one is measured, not guessed from a name: wider registers are not always
// faster.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"

namespace kerf {

// The environment variable that forces a backend where no flag does.
inline constexpr char kBackendVariable[] = "KERF_BACKEND";
// Measure, and take the fastest.
inline constexpr std::string_view kAutomaticBackend = "auto";

// All that were compiled in, the specification ("plain") first. "plain" implements everything and
// runs everywhere.
std::span<const Backend> Backends();

// Names of those that run here and implement the algorithm of that profile, in the order of
// Backends().
std::vector<std::string_view> BackendsFor(const Profile& profile);

// A chunker of that backend; `name` may be "auto". InvalidArgument if there is no such backend or
// it does not implement the algorithm, FailedPrecondition if this machine cannot run it; both name
// those that would do.
absl::StatusOr<std::unique_ptr<Chunker>> MakeChunkerOf(std::string_view name,
                                                       const Profile& profile);

// The backend that MakeChunker takes for that profile: the fastest one of BackendsFor, measured
// once for each algorithm and size of chunks in a few milliseconds on the first call, or the one
// that SetDefaultBackend named. Thread-safe.
std::string_view ChosenBackend(const Profile& profile);

// Makes MakeChunker take that backend for every algorithm that it implements, for the rest of the
// process; "auto" measures again. Errors as MakeChunkerOf. Algorithms that the backend does not
// implement go on being measured. Call it before threads are started.
absl::Status SetDefaultBackend(std::string_view name);

}  // namespace kerf
