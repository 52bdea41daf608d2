#include "client/cpp/front_question.h"

#include "absl/status/statusor.h"
#include "client/cpp/channel.h"
#include "client/cpp/locate.h"
#include "client/cpp/out_of_memory.h"

namespace kerf::client {
namespace {

// A front that is away knows nothing, and one that has no worker no better one.
bool HasAnother(const ServerAddress& front, const std::string& worker, const std::string& shard_key,
                const std::vector<std::string>& avoided, CallCancellation& cancellation) {
  const auto channel = OpenChannel(front);
  if (!channel.ok()) return false;
  const absl::StatusOr<LocatedWorker> place =
      LocateWorker(*channel, shard_key, avoided, cancellation);
  return place.ok() && !place->address.empty() && place->address != worker;
}

}  // namespace

FrontQuestion::~FrontQuestion() {
  Cancel();
  if (thread_.joinable()) thread_.join();
}

void FrontQuestion::Ask(const ServerAddress& front, const std::string& worker,
                        std::vector<std::string> avoided, std::function<void()> on_other) {
  const auto now = std::chrono::steady_clock::now();
  if (is_under_way_.load() || now < next_) return;
  // It has ended, but for its return.
  if (thread_.joinable()) thread_.join();
  is_under_way_.store(true);
  next_ = now + pause_;
  thread_ = std::thread(
      [this, front, worker, avoided = std::move(avoided), on_other = std::move(on_other)] {
        // Without memory for it it is as if the front had not answered.
        OrOutOfMemory([&] {
          if (HasAnother(front, worker, shard_key_, avoided, cancellation_)) on_other();
          return absl::OkStatus();
        }).IgnoreError();
        is_under_way_.store(false);
      });
}

}  // namespace kerf::client
