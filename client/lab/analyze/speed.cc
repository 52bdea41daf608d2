#include "client/lab/analyze/speed.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/check.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/lab/bench/local_cut.h"
#include "kernels/chunker.h"
#include "kernels/registry.h"
#include "kernels/vector/read_ceiling.h"

namespace kerf::agent::analyze {
namespace {

constexpr std::uint64_t kTimedBytes = 64 * kMiB;
constexpr std::uint64_t kPieceBytes = 8 * kMiB;
constexpr std::uint64_t kMostPasses = 4096;
constexpr std::size_t kRounds = 2;
// What takes longer is not repeated: its figure is exact enough.
constexpr double kLongSeconds = 0.1;

volatile std::uint64_t sink;

class Stopwatch {
 public:
  Stopwatch(std::span<const Bytes> pieces, std::uint64_t round_bytes) : pieces_(pieces) {
    for (const Bytes piece : pieces) size_bytes_ += piece.size();
    KERF_CHECK(size_bytes_ > 0);
    pass_count_ = std::clamp<std::uint64_t>(round_bytes / size_bytes_, 1, kMostPasses);
  }

  // Raises `best` to the speed of `work` over all pieces; the sum of what it returned for each.
  template <typename Work>
  std::uint64_t Time(const Work& work, double& best) {
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t result = 0;
    for (std::uint64_t pass = 0; pass < pass_count_; ++pass) {
      for (const Bytes piece : pieces_) result += work(piece);
    }
    sink = result;
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    last_seconds_ = time.count();
    best = std::max(best, static_cast<double>(size_bytes_ * pass_count_) / time.count());
    return result / std::max<std::uint64_t>(pass_count_, 1);
  }

  std::uint64_t size_bytes() const { return size_bytes_; }

  double last_seconds() const { return last_seconds_; }

 private:
  std::span<const Bytes> pieces_;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t pass_count_ = 1;
  double last_seconds_ = 0;
};

// Looks at no byte to find its ends.
std::unique_ptr<Chunker> FixedChunker(std::uint64_t chunk_bytes) {
  const std::uint64_t size_bytes =
      std::clamp<std::uint64_t>(chunk_bytes, kHashWindowBytes, kMaxMaxBytes);
  const absl::StatusOr<Profile> profile = ParseProfile(Cat("fixed:size=", size_bytes));
  KERF_CHECK(profile.ok());
  return MakeChunker(*profile);
}

std::uint64_t CutAll(const Chunker& chunker, Bytes bytes) {
  std::uint64_t count = 0;
  for (; !bytes.empty(); ++count) bytes = bytes.subspan(chunker.NextCut(bytes));
  return count;
}

}  // namespace

void MeasureSpeed(const Profile& profile, DigestAlgorithm digest, std::span<const Bytes> pieces,
                  std::uint64_t round_bytes, const std::atomic<bool>& cancelled,
                  SpeedFigures& figures) {
  const std::unique_ptr<Chunker> chunker = MakeChunker(profile);
  const std::vector<ReadBytes> readers = Readers();
  figures.backend = ChosenBackend(profile);
  Stopwatch watch(pieces, round_bytes);
  for (std::size_t round = 0; round < kRounds && !cancelled; ++round) {
    // The kernel gets as many chances of an undisturbed turn as the readers have together.
    for (const ReadBytes read : readers) watch.Time(read, figures.ceiling_bytes_per_second);
    std::uint64_t chunk_count = 1;
    for (std::size_t turn = 0; turn < std::max<std::size_t>(1, readers.size()); ++turn) {
      chunk_count = watch.Time([&](Bytes piece) { return CutAll(*chunker, piece); },
                               figures.cut_bytes_per_second);
      if (watch.last_seconds() > kLongSeconds) break;
    }
    const double cut_seconds = watch.last_seconds();
    watch.Time([&](Bytes piece) { return bench::CutAndHash(*chunker, digest, piece).size(); },
               figures.hashed_bytes_per_second);
    const std::unique_ptr<Chunker> fixed = FixedChunker(watch.size_bytes() / chunk_count);
    watch.Time([&](Bytes piece) { return bench::CutAndHash(*fixed, digest, piece).size(); },
               figures.fingerprint_bytes_per_second);
    if (cut_seconds > kLongSeconds) break;
  }
}

std::vector<Bytes> SpeedPieces(Bytes all) { return EvenPieces(all, kTimedBytes, kPieceBytes); }

}  // namespace kerf::agent::analyze
