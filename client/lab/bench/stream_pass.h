// One measured pass: some streams at once, to kerfd or to the raw peer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lab/bench/figures.h"
#include "client/lab/bench/local_cut.h"
#include "client/lab/bench/messages.h"
#include "client/lab/bench/peer.h"
#include "client/lab/bench/service_options.h"

namespace kerf::bench {

// What one stream sends, and what must come back.
struct StreamInput {
  const FileMessages* messages = nullptr;
  const LocalChunks* expected = nullptr;
  std::string repository;
};

// What a stream says of its file: the bytes, where they lie, or what the chunks are called.
enum class Sends : std::uint8_t { kBytes, kPlaces, kNames };

struct StreamPass {
  PassCost cost;
  std::uint64_t chunk_count = 0;
  std::uint64_t duplicate_chunk_count = 0;
  std::uint64_t answer_message_count = 0;
  std::uint64_t answer_bytes = 0;
};

// Each stream has a connection of its own, made before the clock starts; the clock stops when all
// streams have ended. DataLoss: a wrong answer. Cancelled: `cancelled` became true.
absl::StatusOr<StreamPass> MeasureUpload(const ServiceOptions& options, const Peer& kerfd,
                                         Sends sends, std::span<const StreamInput> inputs,
                                         const std::atomic<bool>& cancelled);
absl::StatusOr<StreamPass> MeasureRaw(const Peer& raw, std::span<const StreamInput> inputs,
                                      const std::atomic<bool>& cancelled);

}  // namespace kerf::bench
