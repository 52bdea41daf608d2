// The other end of the raw stream: a gRPC server that looks at nothing. It shows what moving the
// bytes alone costs.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace kerf::bench {

inline constexpr char kRawMethod[] = "/kerf.bench.Raw/Upload";

// The sink answers every message with one of this share of its size, about the size of kerfd's
// answers about 8 KiB chunks; its first 8 bytes are the number of bytes received so far
// (little-endian).
inline constexpr std::size_t kRawAnswerShare = 176;

// Serves on `address` (unix:PATH, or HOST:0 for any port) with the transport settings of kerfd,
// writes the bound address to `ready_file`, and returns when the process gets SIGTERM or SIGINT.
// Takes any method. Call it before the process has other threads: it blocks these signals.
absl::Status ServeRaw(const std::string& address, const std::string& ready_file);

}  // namespace kerf::bench
