#include "client/lab/bench/stream_pass.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/page_bytes.h"
#include "base/shared_memory.h"
#include "base/status.h"
#include "client/cpp/memory_offer.h"
#include "client/lab/bench/conversations.h"
#include "client/lab/bench/process_costs.h"
#include "client/lab/bench/raw_peer.h"
#include "client/lab/bench/stream_call.h"

namespace kerf::bench {
namespace {

// How often a waiting pass looks whether it is cancelled.
constexpr std::chrono::milliseconds kPollInterval{50};

absl::Status WaitForAll(std::span<const std::unique_ptr<StreamCall>> calls,
                        const std::atomic<bool>& cancelled) {
  for (const std::unique_ptr<StreamCall>& call : calls) {
    std::optional<absl::Status> end;
    while (!(end = call->WaitFor(kPollInterval)).has_value()) {
      if (cancelled) return absl::CancelledError("interrupted");
    }
    KERF_RETURN_IF_ERROR(*end);
  }
  return absl::OkStatus();
}

// Of the peer and of whom it passes everything on to; nothing if one is not known.
std::optional<double> ServerCpuAtRest(const Peer& peer) {
  double seconds = 0;
  for (const Peer* part = &peer; part != nullptr; part = part->behind()) {
    const std::optional<double> used =
        part->process().has_value() ? CpuSecondsAtRest(*part->process()) : std::nullopt;
    if (!used.has_value()) return std::nullopt;
    seconds += *used;
  }
  return seconds;
}

// Of messages that have not been answered, as many as those of an agent.
constexpr std::size_t kSharedMessages = 32;

absl::StatusOr<std::unique_ptr<UploadSource>> SourceOf(const ServiceOptions& options,
                                                       const Peer& kerfd, Sends sends,
                                                       const StreamInput& input) {
  switch (sends) {
    case Sends::kBytes:
      return std::make_unique<SentFile>(input.messages);
    case Sends::kNames:
      return std::make_unique<NamedFile>(options.profile, options.digest, input.messages->file());
    case Sends::kPlaces:
      break;
  }
  const std::size_t wanted_bytes = RoundUpToPages(kSharedMessages * options.message_bytes);
  const std::size_t size_bytes = std::clamp(wanted_bytes, kMinSharedBytes, kMaxSharedBytes);
  KERF_ASSIGN_OR_RETURN(auto offer, client::MemoryOffer::Make(kerfd.address(), size_bytes));
  return std::make_unique<SharedFile>(input.messages, std::move(offer));
}

template <typename Talk>
absl::StatusOr<PassCost> Measure(const Peer& peer, std::span<const StreamInput> inputs,
                                 std::span<const std::unique_ptr<Talk>> conversations,
                                 const char* method, const std::atomic<bool>& cancelled) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    KERF_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, peer.Connect());
    channels.push_back(std::move(channel));
  }
  PassCost cost;
  cost.has_server = true;
  for (const StreamInput& input : inputs) cost.bytes += input.messages->file().size();
  const std::optional<double> server_before = ServerCpuAtRest(peer);
  const double client_before = OwnCpuSeconds();
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<StreamCall>> calls;
  calls.reserve(inputs.size());
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    calls.push_back(
        std::make_unique<StreamCall>(channels[index], method, conversations[index].get()));
  }
  KERF_RETURN_IF_ERROR(WaitForAll(calls, cancelled));
  cost.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  cost.client_cpu_seconds = OwnCpuSeconds() - client_before;
  const std::optional<double> server_after = ServerCpuAtRest(peer);
  if (server_before.has_value() && server_after.has_value()) {
    cost.server_cpu_seconds = *server_after - *server_before;
  }
  return cost;
}

}  // namespace

absl::StatusOr<StreamPass> MeasureUpload(const ServiceOptions& options, const Peer& kerfd,
                                         Sends sends, std::span<const StreamInput> inputs,
                                         const std::atomic<bool>& cancelled) {
  std::vector<std::unique_ptr<UploadConversation>> conversations;
  for (const StreamInput& input : inputs) {
    KERF_ASSIGN_OR_RETURN(std::unique_ptr<UploadSource> source,
                          SourceOf(options, kerfd, sends, input));
    conversations.push_back(std::make_unique<UploadConversation>(
        options, input.repository, std::move(source), *input.expected));
  }
  StreamPass pass;
  KERF_ASSIGN_OR_RETURN(pass.cost, Measure<UploadConversation>(kerfd, inputs, conversations,
                                                               kUploadMethod, cancelled));
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    pass.chunk_count += inputs[index].expected->size();
    pass.duplicate_chunk_count += conversations[index]->duplicate_count();
    pass.answer_message_count += conversations[index]->answer_message_count();
    pass.answer_bytes += conversations[index]->answer_bytes();
  }
  return pass;
}

absl::StatusOr<StreamPass> MeasureRaw(const Peer& raw, std::span<const StreamInput> inputs,
                                      const std::atomic<bool>& cancelled) {
  std::vector<std::unique_ptr<RawConversation>> conversations;
  for (const StreamInput& input : inputs) {
    conversations.push_back(std::make_unique<RawConversation>(input.messages));
  }
  StreamPass pass;
  KERF_ASSIGN_OR_RETURN(
      pass.cost, Measure<RawConversation>(raw, inputs, conversations, kRawMethod, cancelled));
  return pass;
}

}  // namespace kerf::bench
