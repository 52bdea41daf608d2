#include "server/edge/stream_registry.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/errors/errors.h"

namespace kerf {
namespace {

// When memory is short, idle streams are ended until they have given back this part of it.
constexpr std::size_t kFreedPart = 16;

}  // namespace

absl::Status StreamRegistry::Enter(TimePoint now) {
  const absl::Status status = TryEnter(now);
  if (status.ok()) {
    started_.Add();
  } else {
    refused_.Count(status);
  }
  return status;
}

absl::Status StreamRegistry::TryEnter(TimePoint now) {
  switch (streams_.Enter(Streams::kStreams, now)) {
    case Streams::Entry::kEntered:
      return absl::OkStatus();
    case Streams::Entry::kDraining:
      return MakeError(Reason::kDraining, "the server is stopping");
    case Streams::Entry::kFull:
      break;
  }
  return MakeError(Reason::kTooManyStreams,
                   Cat("the server serves at most ", max_streams(), " streams"),
                   {{"limit", Cat(max_streams())}});
}

std::size_t StreamRegistry::FreeMemory(TimePoint now, std::size_t limit_bytes) {
  // If idle streams have all the memory, one of them has at least its share.
  const std::size_t share_bytes = limit_bytes / max_streams();
  const std::chrono::milliseconds idle_evict = streams_.limits().idle_evict;
  std::vector<std::shared_ptr<UploadReactor>> streams = streams_.Snapshot();
  std::erase_if(streams, [&](const auto& stream) {
    return stream->session_bytes() < share_bytes || stream->IdleTime(now) < idle_evict;
  });
  std::sort(streams.begin(), streams.end(), [](const auto& left, const auto& right) {
    return left->session_bytes() > right->session_bytes();
  });
  std::size_t freed_bytes = 0;
  std::size_t evicted_count = 0;
  for (const auto& stream : streams) {
    if (freed_bytes >= limit_bytes / kFreedPart) break;
    const std::size_t session_bytes = stream->session_bytes();
    if (!stream->EvictIfIdle(now, idle_evict)) continue;
    freed_bytes += session_bytes;
    ++evicted_count;
  }
  return evicted_count;
}

void StreamRegistry::ResumePaced() {
  std::vector<std::pair<TimePoint, std::shared_ptr<UploadReactor>>> paced;
  for (auto& stream : streams_.Snapshot()) {
    if (const auto since = stream->paced_since()) paced.emplace_back(*since, std::move(stream));
  }
  std::sort(paced.begin(), paced.end());
  for (const auto& [since, stream] : paced) stream->ResumePaced();
}

}  // namespace kerf
