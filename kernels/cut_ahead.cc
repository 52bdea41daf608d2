#include "kernels/cut_ahead.h"

#include <utility>
#include <variant>

#include "kernels/extreme_ahead.h"
#include "kernels/local_ahead.h"
#include "kernels/tttd_ahead.h"
#include "kernels/twostage/mark.h"
#include "kernels/vector/vector_backends.h"

namespace kerf {
namespace {

class ExtremeChunker final : public Chunker {
 public:
  ExtremeChunker(std::unique_ptr<Chunker> chunker, const Profile& profile)
      : chunker_(std::move(chunker)), profile_(profile) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    return chunker_->NextCut(bytes);
  }
  std::size_t max_chunk_bytes() const override { return profile_.max_bytes; }
  std::unique_ptr<CutAhead> MakeAhead() const override {
    return std::make_unique<ExtremeAhead>(*chunker_, profile_);
  }

 private:
  const std::unique_ptr<Chunker> chunker_;
  const Profile profile_;
};

class TttdChunker final : public Chunker {
 public:
  TttdChunker(std::unique_ptr<Chunker> chunker, std::unique_ptr<Chunker> small_divisor,
              const Backend& backend, const Profile& profile)
      : chunker_(std::move(chunker)),
        small_divisor_(std::move(small_divisor)),
        backend_(backend),
        profile_(profile) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    return chunker_->NextCut(bytes);
  }
  std::size_t max_chunk_bytes() const override { return profile_.max_bytes; }
  std::unique_ptr<CutAhead> MakeAhead() const override {
    return std::make_unique<TttdAhead>(
        *chunker_, *small_divisor_,
        MakeVectorMarker(backend_.name, TttdAhead::RuleOf(profile_.avg_bytes)),
        MakeVectorMarker(backend_.name, TttdAhead::RuleOf(profile_.avg_bytes / 2)), profile_);
  }

 private:
  const std::unique_ptr<Chunker> chunker_;
  const std::unique_ptr<Chunker> small_divisor_;
  const Backend& backend_;
  const Profile profile_;
};

// crc and rabin.
class LocalChunker final : public Chunker {
 public:
  LocalChunker(std::unique_ptr<Chunker> chunker, const Backend& backend, const Profile& profile)
      : chunker_(std::move(chunker)), backend_(backend), profile_(profile) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    return chunker_->NextCut(bytes);
  }
  std::size_t max_chunk_bytes() const override { return profile_.max_bytes; }
  std::unique_ptr<CutAhead> MakeAhead() const override {
    return std::make_unique<LocalAhead>(*chunker_, std::get<LocalRule>(*TwoStageRuleOf(profile_)),
                                        MakeVectorMarker(backend_.name, profile_));
  }

 private:
  const std::unique_ptr<Chunker> chunker_;
  const Backend& backend_;
  const Profile profile_;
};

}  // namespace

std::unique_ptr<Chunker> MakeWithAhead(const Backend& backend, const Profile& profile) {
  std::unique_ptr<Chunker> chunker = backend.make(profile);
  if (chunker == nullptr) return nullptr;
  switch (profile.algorithm) {
    case Algorithm::kMinCdc:
    case Algorithm::kMaxCdc:
      if (!ExtremeAhead::IsWorthIt(profile)) return chunker;
      return std::make_unique<ExtremeChunker>(std::move(chunker), profile);
    case Algorithm::kTttd: {
      auto small_divisor = backend.make(TttdAhead::RuleOf(profile.avg_bytes / 2));
      if (small_divisor == nullptr) return chunker;
      return std::make_unique<TttdChunker>(std::move(chunker), std::move(small_divisor), backend,
                                           profile);
    }
    case Algorithm::kCrc:
    case Algorithm::kRabin:
      // Who hashes byte by byte hashes none in vain.
      if (!NearMarks::MayBeWorthIt(profile.min_bytes) ||
          MakeVectorMarker(backend.name, profile) == nullptr) {
        return chunker;
      }
      return std::make_unique<LocalChunker>(std::move(chunker), backend, profile);
    default:
      return chunker;
  }
}

}  // namespace kerf
