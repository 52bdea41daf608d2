#include "client/lab/bench/service_bench.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/random.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/lab/bench/corpus.h"
#include "client/lab/bench/local_cut.h"
#include "client/lab/bench/messages.h"
#include "client/lab/bench/peer.h"

namespace kerf::bench {
namespace {

constexpr std::uint32_t kAllDuplicate = 100;

class ServiceBench {
 public:
  ServiceBench(const ServiceOptions& options, const std::atomic<bool>& cancelled)
      : options_(options),
        cancelled_(cancelled),
        chunker_(MakeChunker(options.profile)),
        // Of its own, so that a running server's repositories are left alone.
        repository_(absl::StrFormat("kerf-bench-%016x", options.seed)),
        corpus_(options.seed, options.pass_bytes) {}

  absl::Status StartPeers() {
    if (options_.server.empty()) {
      KERF_ASSIGN_OR_RETURN(kerfd_, Peer::StartKerfd(options_, cancelled_));
    } else {
      kerfd_ = Peer::Attach({options_.server, options_.tls});
    }
    if (options_.front) {
      KERF_ASSIGN_OR_RETURN(front_, Peer::StartFront(options_, *kerfd_, cancelled_));
    }
    KERF_ASSIGN_OR_RETURN(raw_, Peer::StartRaw(options_, cancelled_));
    return absl::OkStatus();
  }

  // Not measured: connections, caches and the data that later passes repeat.
  absl::Status WarmUp(StreamGroup& group) {
    corpus_.Fill(++filling_, kAllDuplicate);
    StreamGroup ignored = group;
    return RunPasses(/*turned_round=*/false, ignored);
  }

  absl::Status RunRound(std::uint32_t round, StreamGroup& group) {
    corpus_.Fill(++filling_, options_.duplicate_percent);
    return RunPasses(round % 2 == 0, group);
  }

  std::uint64_t checked_chunk_count() const { return checked_chunk_count_; }

 private:
  // All passes over what the corpus holds now.
  absl::Status RunPasses(bool turned_round, StreamGroup& group) {
    if (cancelled_) return absl::CancelledError("interrupted");
    std::vector<std::span<const std::uint8_t>> files;
    std::vector<std::unique_ptr<FileMessages>> messages;
    for (std::size_t index = 0; index < group.stream_count; ++index) {
      files.push_back(corpus_.Part(index, group.stream_count));
      messages.push_back(std::make_unique<FileMessages>(files.back(), options_.message_bytes));
    }
    LocalPass local = MeasureLocal(*chunker_, options_.digest, files, group.thread_count);
    std::vector<StreamInput> inputs;
    for (std::size_t index = 0; index < files.size(); ++index) {
      AddChecks(files[index], local.chunks[index]);
      inputs.push_back({messages[index].get(), &local.chunks[index], repository_});
    }
    group.costs.kernels.push_back(local.cost);
    using Pass = absl::Status (ServiceBench::*)(std::span<const StreamInput>, StreamGroup&);
    std::vector<Pass> passes = {&ServiceBench::RunStraight, &ServiceBench::RunFront,
                                &ServiceBench::RunShared, &ServiceBench::RunLocalCut,
                                &ServiceBench::RunRaw};
    if (turned_round) std::reverse(passes.begin(), passes.end());
    for (const Pass pass : passes) KERF_RETURN_IF_ERROR((this->*pass)(inputs, group));
    return absl::OkStatus();
  }

  absl::Status RunStraight(std::span<const StreamInput> inputs, StreamGroup& group) {
    KERF_ASSIGN_OR_RETURN(group.last_upload,
                          MeasureUpload(options_, *kerfd_, Sends::kBytes, inputs, cancelled_));
    group.costs.kerfd.push_back(group.last_upload.cost);
    checked_chunk_count_ += group.last_upload.chunk_count;
    return absl::OkStatus();
  }

  absl::Status RunFront(std::span<const StreamInput> straight, StreamGroup& group) {
    if (front_ == nullptr) return absl::OkStatus();
    return RunBeside("-front", *front_, Sends::kBytes, straight, group.costs.front);
  }

  absl::Status RunShared(std::span<const StreamInput> straight, StreamGroup& group) {
    if (!options_.shared_memory) return absl::OkStatus();
    return RunBeside("-shared", *kerfd_, Sends::kPlaces, straight, group.costs.shared);
  }

  absl::Status RunLocalCut(std::span<const StreamInput> straight, StreamGroup& group) {
    if (!options_.local_cut) return absl::OkStatus();
    return RunBeside("-cut", *kerfd_, Sends::kNames, straight, group.costs.local_cut);
  }

  // In repositories of its own: what another pass has committed must be as new to this one.
  absl::Status RunBeside(std::string_view suffix, const Peer& peer, Sends sends,
                         std::span<const StreamInput> straight, std::vector<PassCost>& costs) {
    std::vector<StreamInput> inputs(straight.begin(), straight.end());
    for (StreamInput& input : inputs) input.repository += suffix;
    KERF_ASSIGN_OR_RETURN(const StreamPass pass,
                          MeasureUpload(options_, peer, sends, inputs, cancelled_));
    costs.push_back(pass.cost);
    checked_chunk_count_ += pass.chunk_count;
    return absl::OkStatus();
  }

  absl::Status RunRaw(std::span<const StreamInput> inputs, StreamGroup& group) {
    KERF_ASSIGN_OR_RETURN(const StreamPass pass, MeasureRaw(*raw_, inputs, cancelled_));
    group.costs.raw.push_back(pass.cost);
    return absl::OkStatus();
  }

  const ServiceOptions& options_;
  const std::atomic<bool>& cancelled_;
  const std::unique_ptr<Chunker> chunker_;
  const std::string repository_;
  Corpus corpus_;
  std::uint64_t filling_ = 0;
  std::unique_ptr<Peer> kerfd_;
  std::unique_ptr<Peer> front_;
  std::unique_ptr<Peer> raw_;
  std::uint64_t checked_chunk_count_ = 0;
};

}  // namespace

absl::StatusOr<ServiceResult> RunServiceBench(const ServiceOptions& options,
                                              const std::atomic<bool>& cancelled,
                                              const std::function<void(std::string_view)>& say) {
  ServiceResult result;
  result.machine = DescribeMachine();
  {
    ServiceBench bench(options, cancelled);
    say("starting kerfd and the raw peer");
    KERF_RETURN_IF_ERROR(bench.StartPeers());
    for (const std::uint32_t stream_count : options.stream_counts) {
      StreamGroup group;
      group.stream_count = stream_count;
      group.thread_count = std::min<std::size_t>(stream_count, result.machine.core_count);
      KERF_RETURN_IF_ERROR(bench.WarmUp(group));
      result.groups.push_back(std::move(group));
    }
    for (std::uint32_t round = 0; round < options.rounds; ++round) {
      for (StreamGroup& group : result.groups) {
        say(Cat("round ", round + 1, " of ", options.rounds, ", ", group.stream_count, " streams"));
        KERF_RETURN_IF_ERROR(bench.RunRound(round, group));
      }
    }
    result.checked_chunk_count = bench.checked_chunk_count();
  }
  const bool wants_memory = options.idle_streams + options.busy_streams > 0;
  if (!wants_memory || !options.server.empty()) return result;
  say("memory");
  KERF_ASSIGN_OR_RETURN(result.memory, MeasureMemory(options, cancelled));
  return result;
}

}  // namespace kerf::bench
