#include "client/lab/bench/memory_pass.h"

#include <chrono>
#include <memory>
#include <vector>

#include "base/open_files.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/lab/bench/conversations.h"
#include "client/lab/bench/corpus.h"
#include "client/lab/bench/peer.h"
#include "client/lab/bench/process_costs.h"
#include "client/lab/bench/stream_pass.h"

namespace kerf::bench {
namespace {

constexpr std::chrono::seconds kOpenPatience{30};
// Besides the sockets: what gRPC, RocksDB and the standard streams have open.
constexpr std::uint64_t kOtherFiles = 200;
// Plenty for 1,000 connections; more may be costly where programs close all numbers there are.
constexpr std::uint64_t kWantedFiles = 16'384;

std::uint64_t PerStream(std::uint64_t bytes, std::uint64_t empty_bytes, std::uint32_t streams) {
  return streams == 0 || bytes <= empty_bytes ? 0 : (bytes - empty_bytes) / streams;
}

absl::StatusOr<MemoryUse> MemoryAtRest(const Peer& kerfd) {
  CpuSecondsAtRest(*kerfd.process());
  const std::optional<MemoryUse> use = ReadMemory(*kerfd.process());
  if (use.has_value()) return *use;
  return absl::UnavailableError("kerfd is gone, or its memory cannot be read");
}

absl::Status MeasureIdle(const ServiceOptions& options, const std::atomic<bool>& cancelled,
                         MemoryFigures& figures) {
  if (RaiseOpenFileLimit(kWantedFiles) < options.idle_streams + kOtherFiles) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat(options.idle_streams,
                   " idle streams need as many open files: raise the limit "
                   "(ulimit -n), or lower --idle-streams")));
  }
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Peer> kerfd, Peer::StartKerfd(options, cancelled));
  KERF_ASSIGN_OR_RETURN(const MemoryUse empty, MemoryAtRest(*kerfd));
  std::vector<std::unique_ptr<IdleConversation>> conversations;
  std::vector<std::unique_ptr<StreamCall>> calls;
  for (std::uint32_t index = 0; index < options.idle_streams; ++index) {
    if (cancelled) return absl::CancelledError("interrupted");
    KERF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, kerfd->Connect());
    conversations.push_back(std::make_unique<IdleConversation>(options, "idle"));
    calls.push_back(
        std::make_unique<StreamCall>(channel, kUploadMethod, conversations.back().get()));
    if (!conversations.back()->WaitOpened(kOpenPatience)) {
      return absl::UnavailableError(ToAbsl(Cat("stream ", index + 1, " is not opened")));
    }
  }
  KERF_ASSIGN_OR_RETURN(const MemoryUse idle, MemoryAtRest(*kerfd));
  figures.empty_bytes = empty.resident_bytes;
  figures.idle_streams = options.idle_streams;
  figures.idle_bytes = idle.resident_bytes;
  return absl::OkStatus();
}

absl::Status MeasureBusy(const ServiceOptions& options, const std::atomic<bool>& cancelled,
                         MemoryFigures& figures) {
  Corpus corpus(options.seed, options.busy_stream_bytes);
  corpus.Fill(0, 0);
  const std::span<const std::uint8_t> file = corpus.Part(0, 1);
  const FileMessages messages(file, options.message_bytes);
  LocalChunks chunks = CutAndHash(*MakeChunker(options.profile), options.digest, file);
  AddChecks(file, chunks);
  std::vector<StreamInput> inputs;
  inputs.reserve(options.busy_streams);
  for (std::uint32_t index = 0; index < options.busy_streams; ++index) {
    inputs.push_back({&messages, &chunks, Cat("busy-", index)});
  }
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Peer> kerfd, Peer::StartKerfd(options, cancelled));
  KERF_ASSIGN_OR_RETURN(const MemoryUse empty, MemoryAtRest(*kerfd));
  KERF_RETURN_IF_ERROR(MeasureUpload(options, *kerfd, Sends::kBytes, inputs, cancelled).status());
  KERF_ASSIGN_OR_RETURN(const MemoryUse busy, MemoryAtRest(*kerfd));
  figures.empty_bytes = empty.resident_bytes;
  figures.busy_streams = options.busy_streams;
  figures.busy_peak_bytes = busy.peak_resident_bytes;
  return absl::OkStatus();
}

}  // namespace

std::uint64_t MemoryFigures::idle_bytes_per_stream() const {
  return PerStream(idle_bytes, empty_bytes, idle_streams);
}

std::uint64_t MemoryFigures::busy_bytes_per_stream() const {
  return PerStream(busy_peak_bytes, empty_bytes, busy_streams);
}

absl::StatusOr<MemoryFigures> MeasureMemory(const ServiceOptions& options,
                                            const std::atomic<bool>& cancelled) {
  MemoryFigures figures;
  if (options.busy_streams > 0) KERF_RETURN_IF_ERROR(MeasureBusy(options, cancelled, figures));
  if (options.idle_streams > 0) KERF_RETURN_IF_ERROR(MeasureIdle(options, cancelled, figures));
  return figures;
}

}  // namespace kerf::bench
