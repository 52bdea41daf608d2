#include "kernels/cuda/check/device_vectors.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/cut_and_wait.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/vectors/vectors.h"

namespace kerf::cuda {
namespace {

using Bytes = std::span<const std::uint8_t>;
using Chunks = std::vector<ForeignChunk>;

// nullopt: there are no kernels for it, or none that the device can run.
absl::StatusOr<std::optional<PieceCuts>> Cut(GpuCutter& cutter, const Profile& profile,
                                             DigestAlgorithm algorithm, Bytes bytes) {
  const auto plan = MakeBatchPlan(profile, algorithm);
  if (plan == nullptr || cutter.left_out().Has(*plan)) return std::nullopt;
  PieceCuts cuts = CutAndWait(cutter, plan, bytes, /*is_end=*/true);
  KERF_RETURN_IF_ERROR(cutter.health());
  return cuts;
}

absl::StatusOr<std::optional<Chunks>> CutCase(GpuCutter& cutter, const Profile& profile,
                                              Bytes bytes) {
  if (bytes.size() > cutter.max_piece_bytes()) {
    return absl::FailedPreconditionError(
        ToAbsl(Cat("an input of ", bytes.size(), " bytes does not fit a batch")));
  }
  KERF_ASSIGN_OR_RETURN(const auto blake3, Cut(cutter, profile, DigestAlgorithm::kBlake3, bytes));
  KERF_ASSIGN_OR_RETURN(const auto sha256, Cut(cutter, profile, DigestAlgorithm::kSha256, bytes));
  if (!blake3.has_value() || !sha256.has_value()) return std::nullopt;
  Chunks chunks;
  for (std::size_t index = 0; index < blake3->chunks.size(); ++index) {
    const PieceChunk& chunk = blake3->chunks[index];
    if (index >= sha256->chunks.size() || sha256->chunks[index].size_bytes != chunk.size_bytes) {
      return absl::DataLossError(
          ToAbsl(Cat(FormatProfile(profile), ", an input of ", bytes.size(), " bytes: chunk ",
                     index, " is another one with the other fingerprint")));
    }
    chunks.push_back({chunk.size_bytes, chunk.digest, sha256->chunks[index].digest});
  }
  return chunks;
}

}  // namespace

absl::StatusOr<std::size_t> CheckDeviceVectors(const OpenDevice& open,
                                               const GpuCutterOptions& options,
                                               const std::string& vectors) {
  KERF_ASSIGN_OR_RETURN(auto device, open());
  KERF_ASSIGN_OR_RETURN(const auto cutter, GpuCutter::Start(std::move(device), options));
  return CheckForeignAgainst(vectors, [&](const Profile& profile, Bytes bytes) {
    return CutCase(*cutter, profile, bytes);
  });
}

}  // namespace kerf::cuda
