// What `kerf bench service` measures, as the command line says it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cpp/server_address.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf::bench {

struct ServiceOptions {
  Profile profile;
  DigestAlgorithm digest = DigestAlgorithm::kBlake3;
  // Bytes that one pass sends, over all its streams.
  std::uint64_t pass_bytes = 0;
  // Each of them is a group of rows.
  std::vector<std::uint32_t> stream_counts;
  std::uint32_t rounds = 0;
  // Of file data in one message.
  std::uint32_t message_bytes = 0;
  // Share of the data that the server has been told as durable before.
  std::uint32_t duplicate_percent = 0;
  std::uint64_t seed = 0;
  // Of the memory figures; both 0: none.
  std::uint32_t idle_streams = 0;
  std::uint32_t busy_streams = 0;
  // Of each busy stream.
  std::uint64_t busy_stream_bytes = 0;
  // The program to start, unless `server` names one that runs.
  std::string kerfd_path;
  std::string server;
  client::TlsChoice tls = {};
  // Also through a front, beside straight to kerfd.
  bool front = false;
  // Also with a client that shares its memory, straight to kerfd.
  bool shared_memory = false;
  // Also with a client that cuts, straight to kerfd.
  bool local_cut = false;
  // Loopback TCP instead of a unix socket, for the peers that are started.
  bool tcp = false;
};

// A message holds its data, the frames' headers, and must stay below the server's 4 MiB.
inline constexpr std::uint32_t kMinMessageBytes = 1024;
inline constexpr std::uint32_t kMaxMessageBytes = 4'000'000;

}  // namespace kerf::bench
