#include "server/hints/hint_view.h"

#include <utility>

namespace kerf {
namespace {

// On their way for one stream: what the last chunks do not lead to, those in front of them hardly
// will, and a store that is slow is not asked faster than it answers.
constexpr std::size_t kMaxWanted = 2;

}  // namespace

HintView::HintView(std::shared_ptr<HintCache> cache, std::shared_ptr<const HintScope> scope)
    : cache_(std::move(cache)), scope_(std::move(scope)) {}

Hint HintView::Find(const Digest& digest) {
  Hint hint = FindRun(digest);
  if (!scope_->upload_profile().criterion) return hint;
  hint.next_sizes = cache_->NextSizes(*scope_, digest);
  // Until a segment has come they are all that is known.
  if (!hint.next_sizes.empty()) hint.state = Hint::State::kReady;
  return hint;
}

Hint HintView::FindRun(const Digest& digest) {
  Hint hint;
  if (std::optional<HintCache::Place> place = cache_->Find(*scope_, digest)) {
    // Here and not as the run goes on: a cutter asks again only where it has ended.
    cache_->WantFollowing(scope_, place->id);
    hint.state = Hint::State::kReady;
    hint.next_index = place->index + 1;
    awaited_ = hint.next_index == place->run->chunks().size() ? place->next : std::nullopt;
    hint.run = std::move(place->run);
    if (!awaited_.has_value()) return hint;
  } else if (cache_->IsOnItsWay(*scope_, digest)) {
    hint.state = Hint::State::kLate;
  }
  if (awaited_.has_value()) {
    if (cache_->IsOnItsWay(*scope_, *awaited_)) {
      hint.state = Hint::State::kLate;
    } else {
      awaited_.reset();
    }
  }
  if (hint.state == Hint::State::kLate) cache_->CountLate();
  return hint;
}

void HintView::Duplicates(std::span<const Digest> digests, bool begins_file) {
  std::erase_if(wanted_,
                [&](const Digest& digest) { return !cache_->IsOnItsWay(*scope_, digest); });
  // From behind: where the stream is now.
  for (std::size_t index = digests.size(); index-- > 0 && wanted_.size() < kMaxWanted;) {
    const Digest& digest = digests[index];
    if (!IsAnchor(digest) && !(begins_file && index == 0)) continue;
    const HintCache::Wanting wanting = cache_->Want(scope_, digest);
    // The stream is where it is known how it goes on.
    if (wanting == HintCache::Wanting::kHeld) return;
    if (wanting == HintCache::Wanting::kAsked) wanted_.push_back(digest);
  }
}

}  // namespace kerf
