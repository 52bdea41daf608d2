#include "kernels/cuda/kernel/fingerprint_emulation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "kernels/cuda/kernel/blake3_batch.h"
#include "kernels/cuda/kernel/digest_words.h"
#include "kernels/cuda/kernel/sha256_batch.h"
#include "kernels/testing/guarded_bytes.h"

namespace kerf::cuda {
namespace {

// An array of a kernel's, with something behind it that must stay.
template <class Value>
class Array {
 public:
  Array(std::size_t count, std::uint8_t garbage)
      : size_bytes_(count * sizeof(Value)),
        garbage_(garbage),
        vectors_((size_bytes_ + sizeof(Vector16) - 1) / sizeof(Vector16) + kVectorsBehind) {
    std::memset(vectors_.data(), garbage, vectors_.size() * sizeof(Vector16));
  }

  Value* data() { return reinterpret_cast<Value*>(vectors_.data()); }

  void CheckWhatIsBehind() const {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(vectors_.data());
    const std::size_t all_bytes = vectors_.size() * sizeof(Vector16);
    KERF_CHECK(std::all_of(bytes + size_bytes_, bytes + all_bytes,
                           [&](std::uint8_t byte) { return byte == garbage_; }));
  }

 private:
  static constexpr std::size_t kVectorsBehind = 16;

  std::size_t size_bytes_;
  std::uint8_t garbage_;
  std::vector<Vector16> vectors_;
};

// Arrays one behind the other, with nothing between them.
class InOnePiece {
 public:
  explicit InOnePiece(std::uint8_t* memory) : memory_(memory) {}

  template <class T>
  T* operator()(std::size_t count) {
    T* const place = reinterpret_cast<T*>(memory_);
    memory_ += count * sizeof(T);
    return place;
  }

 private:
  std::uint8_t* memory_;
};

class Run {
 public:
  Run(std::span<const std::uint8_t> bytes, const std::vector<Chunk>& chunks, std::uint8_t garbage,
      const EmulatorOptions& options)
      : bytes_(bytes),
        // Not a byte more than there are.
        chunks_(chunks.begin(), chunks.end()),
        chunk_count_(static_cast<std::uint32_t>(chunks.size())),
        garbage_(garbage),
        launcher_{options},
        digests_(chunks.size(), garbage) {}

  // Each array of the workspace alone, or as they are placed in one piece of memory.
  std::vector<Digest> Blake3(bool is_in_one) {
    std::size_t total_bytes = 0;
    std::uint32_t max_chunk_bytes = 0;
    for (const Chunk& chunk : chunks_) {
      total_bytes += chunk.size_bytes;
      max_chunk_bytes = std::max(max_chunk_bytes, chunk.size_bytes);
    }
    const Blake3WorkspaceSize size(total_bytes, chunk_count_);
    Array<std::uint8_t> memory(size.Bytes(), garbage_);
    Array<DigestWords> even_nodes(size.even_node_count, garbage_);
    Array<DigestWords> odd_nodes(size.odd_node_count, garbage_);
    Array<std::uint32_t> leaf_items(size.leaf_item_count, garbage_);
    Array<std::uint32_t> leaf_totals(size.leaf_total_count, garbage_);
    InOnePiece places(memory.data());
    const Blake3Workspace workspace =
        is_in_one
            ? TakeBlake3Workspace(size, places)
            : Blake3Workspace{
                  even_nodes.data(), odd_nodes.data(), {leaf_items.data(), leaf_totals.data()}};
    LaunchBlake3(
        {bytes_.data(), chunks_.data(), &chunk_count_, max_chunk_bytes, workspace, digests_.data()},
        launcher_);
    memory.CheckWhatIsBehind();
    even_nodes.CheckWhatIsBehind();
    odd_nodes.CheckWhatIsBehind();
    leaf_items.CheckWhatIsBehind();
    leaf_totals.CheckWhatIsBehind();
    return Digests();
  }

  std::vector<Digest> Sha256(bool is_in_one) {
    const Sha256WorkspaceSize size(chunk_count_);
    Array<std::uint8_t> memory(size.Bytes(), garbage_);
    Array<std::uint32_t> counts(size.count_count, garbage_);
    Array<std::uint32_t> order(size.order_count, garbage_);
    Array<std::uint32_t> next_group(Sha256WorkspaceSize::kNextGroupCount, garbage_);
    InOnePiece places(memory.data());
    const Sha256Workspace workspace =
        is_in_one ? TakeSha256Workspace(size, places)
                  : Sha256Workspace{counts.data(), order.data(), next_group.data()};
    LaunchSha256({bytes_.data(), chunks_.data(), &chunk_count_, workspace, digests_.data()},
                 launcher_);
    memory.CheckWhatIsBehind();
    counts.CheckWhatIsBehind();
    order.CheckWhatIsBehind();
    next_group.CheckWhatIsBehind();
    return Digests();
  }

 private:
  std::vector<Digest> Digests() {
    digests_.CheckWhatIsBehind();
    std::vector<Digest> digests(chunk_count_);
    for (std::size_t index = 0; index < digests.size(); ++index) {
      const DigestWords& words = digests_.data()[index];
      static_assert(sizeof(Digest) == sizeof words);
      std::memcpy(digests[index].bytes.data(), &words, sizeof words);
    }
    return digests;
  }

  std::span<const std::uint8_t> bytes_;
  std::vector<Chunk> chunks_;
  std::uint32_t chunk_count_;
  std::uint8_t garbage_;
  EmulatorLauncher launcher_;
  Array<DigestWords> digests_;
};

std::vector<Digest> RunOnce(DigestAlgorithm algorithm, Run run, bool is_in_one) {
  return algorithm == DigestAlgorithm::kBlake3 ? run.Blake3(is_in_one) : run.Sha256(is_in_one);
}

}  // namespace

std::vector<Digest> EmulateFingerprints(DigestAlgorithm algorithm,
                                        std::span<const std::uint8_t> bytes,
                                        const std::vector<Chunk>& chunks, std::uint8_t garbage,
                                        const EmulatorOptions& options) {
  KERF_CHECK(algorithm == DigestAlgorithm::kBlake3 || algorithm == DigestAlgorithm::kSha256);
  KERF_CHECK(bytes.size() % 16 == 0);
  GuardedBytes guarded(bytes.size());
  const std::vector<Digest> digests =
      RunOnce(algorithm, {guarded.CopyToEnd(bytes), chunks, garbage, options}, /*is_in_one=*/false);
  // Threads of the system are slow, and tell nothing new the second time.
  if (options.has_real_threads) return digests;
  KERF_CHECK(digests == RunOnce(algorithm, {guarded.CopyToStart(bytes), chunks, garbage, options},
                                /*is_in_one=*/true));
  return digests;
}

}  // namespace kerf::cuda
