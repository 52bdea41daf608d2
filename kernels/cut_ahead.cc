#include "kernels/cut_ahead.h"

#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include "kernels/extreme_ahead.h"
#include "kernels/local_ahead.h"
#include "kernels/tttd_ahead.h"
#include "kernels/twostage/mark.h"
#include "kernels/vector/vector_backends.h"

namespace kerf {
namespace {

// Cuts as the chunker does that it is made of, and knows how to do so ahead.
class AheadChunker final : public Chunker {
 public:
  // Given that chunker, which outlives what is made.
  using Factory = std::function<std::unique_ptr<CutAhead>(const Chunker& chunker)>;

  AheadChunker(std::unique_ptr<Chunker> chunker, std::size_t max_chunk_bytes, Factory make_ahead)
      : chunker_(std::move(chunker)),
        max_chunk_bytes_(max_chunk_bytes),
        make_ahead_(std::move(make_ahead)) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    return chunker_->NextCut(bytes);
  }
  std::size_t max_chunk_bytes() const override { return max_chunk_bytes_; }
  std::unique_ptr<CutAhead> MakeAhead() const override { return make_ahead_(*chunker_); }

 private:
  const std::unique_ptr<Chunker> chunker_;
  const std::size_t max_chunk_bytes_;
  const Factory make_ahead_;
};

AheadChunker::Factory ExtremeFactory(const Profile& profile) {
  return [profile](const Chunker& chunker) {
    return std::make_unique<ExtremeAhead>(chunker, profile);
  };
}

AheadChunker::Factory TttdFactory(const Backend& backend, const Profile& profile,
                                  std::shared_ptr<const Chunker> small_divisor) {
  return [&backend, profile, small_divisor = std::move(small_divisor)](const Chunker& chunker) {
    return std::make_unique<TttdAhead>(
        chunker, *small_divisor,
        MakeVectorMarker(backend.name, TttdAhead::RuleOf(profile.avg_bytes)),
        MakeVectorMarker(backend.name, TttdAhead::RuleOf(profile.avg_bytes / 2)), profile);
  };
}

// Of crc and rabin.
AheadChunker::Factory LocalFactory(const Backend& backend, const Profile& profile) {
  return [&backend, profile](const Chunker& chunker) {
    return std::make_unique<LocalAhead>(chunker, std::get<LocalRule>(*TwoStageRuleOf(profile)),
                                        MakeVectorMarker(backend.name, profile));
  };
}

}  // namespace

std::unique_ptr<Chunker> MakeWithAhead(const Backend& backend, const Profile& profile) {
  std::unique_ptr<Chunker> chunker = backend.make(profile);
  if (chunker == nullptr) return nullptr;
  AheadChunker::Factory make_ahead;
  switch (profile.algorithm) {
    case Algorithm::kMinCdc:
    case Algorithm::kMaxCdc:
      if (!ExtremeAhead::IsWorthIt(profile)) return chunker;
      make_ahead = ExtremeFactory(profile);
      break;
    case Algorithm::kTttd: {
      std::shared_ptr<const Chunker> small_divisor =
          backend.make(TttdAhead::RuleOf(profile.avg_bytes / 2));
      if (small_divisor == nullptr) return chunker;
      make_ahead = TttdFactory(backend, profile, std::move(small_divisor));
      break;
    }
    case Algorithm::kCrc:
    case Algorithm::kRabin:
      // Who hashes byte by byte hashes none in vain.
      if (!NearMarks::MayBeWorthIt(profile.min_bytes) ||
          MakeVectorMarker(backend.name, profile) == nullptr) {
        return chunker;
      }
      make_ahead = LocalFactory(backend, profile);
      break;
    default:
      return chunker;
  }
  return std::make_unique<AheadChunker>(std::move(chunker), profile.max_bytes,
                                        std::move(make_ahead));
}

}  // namespace kerf
