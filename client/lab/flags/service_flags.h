// The flags of `kerf bench service`.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/context.h"
#include "client/lab/bench/service_options.h"
#include "kernels/profile.h"

namespace kerf::agent {

struct ServiceFlags {
  std::string profile = std::string(kDefaultProfileName);
  std::string digest = "blake3";
  std::string size = "256M";
  std::string message = "512K";
  std::string busy_size = "16M";
  std::uint64_t seed = 0;
  ServerFlags server;
  bench::ServiceOptions options;
};

void AddBenchService(Context& context, const Verb& bench_verb,
                     ExitCode (*run)(Context&, const ServiceFlags&));

struct RawPeerFlags {
  std::string listen;
  std::string ready_file;
};

// The other end of the raw stream, started by `kerf bench service` itself.
void AddRawPeer(Context& context, const Verb& bench_verb,
                ExitCode (*run)(Context&, const RawPeerFlags&));

}  // namespace kerf::agent
