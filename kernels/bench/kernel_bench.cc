#include "kernels/bench/kernel_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "absl/strings/numbers.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/chunker.h"
#include "kernels/cut_and_fingerprint.h"
#include "kernels/fingerprint/blake3.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/fingerprint/sha256.h"
#include "kernels/profile.h"
#include "kernels/reference/blake3.h"
#include "kernels/reference/reference.h"
#include "kernels/registry.h"
#include "kernels/testing/inputs.h"
#include "kernels/vector/read_ceiling.h"

namespace kerf::bench {
namespace {

using Bytes = std::span<const std::uint8_t>;

// What a pass did, so that the compiler cannot leave it out.
using Pass = std::function<std::uint64_t(Bytes)>;
volatile std::uint64_t sink;

// One thing to measure.
struct Kernel {
  std::string name;
  std::string algorithm;
  std::string backend;
  // Whether its results are the reference's.
  std::function<bool(Bytes)> is_right;
  // Returns the number of chunks.
  Pass pass;
};

std::uint64_t CutAll(const Chunker& chunker, Bytes bytes) {
  std::uint64_t chunk_count = 0;
  for (; !bytes.empty(); ++chunk_count) bytes = bytes.subspan(chunker.NextCut(bytes));
  return chunk_count;
}

bool CutsAreRight(const Chunker& chunker, const Profile& profile, Bytes bytes) {
  while (!bytes.empty()) {
    const std::size_t length = chunker.NextCut(bytes);
    if (length != ReferenceNextCut(profile, bytes)) return false;
    bytes = bytes.subspan(length);
  }
  return true;
}

Kernel CutKernel(const Profile& profile, std::string_view backend,
                 const std::shared_ptr<const Chunker>& chunker) {
  return {.name = "",
          .algorithm = FormatProfile(profile),
          .backend = std::string(backend),
          .is_right = [profile,
                       chunker](Bytes bytes) { return CutsAreRight(*chunker, profile, bytes); },
          .pass = [chunker](Bytes bytes) { return CutAll(*chunker, bytes); }};
}

using HashMany = std::function<void(std::span<const Bytes>, std::span<Digest>)>;

// Some digest algorithm, so many chunks a call.
struct Digests {
  DigestAlgorithm algorithm;
  std::size_t batch_chunks;
};

template <typename Visit>
std::uint64_t HashAll(const HashMany& hash_many, std::size_t batch_chunks, Bytes bytes,
                      const Visit& visit) {
  std::array<Bytes, kHashedBatchChunks> chunks;
  std::array<Digest, kHashedBatchChunks> digests;
  std::uint64_t chunk_count = 0;
  while (!bytes.empty()) {
    std::size_t count = 0;
    for (; count < batch_chunks && !bytes.empty(); ++count) {
      chunks[count] = bytes.first(std::min<std::size_t>(bytes.size(), kHashedChunkBytes));
      bytes = bytes.subspan(chunks[count].size());
    }
    hash_many(std::span(chunks).first(count), std::span(digests).first(count));
    for (std::size_t index = 0; index < count; ++index) visit(chunks[index], digests[index]);
    chunk_count += count;
  }
  return chunk_count;
}

// By code of its own: BLAKE3's reference, OpenSSL's SHA-256. XXH3 has only its library, which its
// own tests cover.
Digest ExpectedDigest(DigestAlgorithm algorithm, Bytes chunk) {
  Digest digest;
  switch (algorithm) {
    case DigestAlgorithm::kBlake3:
      return Digest{Blake3Reference(chunk)};
    case DigestAlgorithm::kSha256:
      Sha256Backends().back().hash_many({&chunk, 1}, {&digest, 1});
      return digest;
    case DigestAlgorithm::kXxh3_128:
      return Fingerprint(algorithm, chunk);
  }
  return digest;
}

Kernel HashKernel(const Digests& what, std::string_view backend, const HashMany& hash_many) {
  const auto is_right = [what, hash_many](Bytes bytes) {
    bool all_equal = true;
    HashAll(hash_many, what.batch_chunks, bytes, [&](Bytes chunk, const Digest& digest) {
      all_equal = all_equal && digest == ExpectedDigest(what.algorithm, chunk);
    });
    return all_equal;
  };
  return {.name = "",
          .algorithm = std::string(DigestAlgorithmName(what.algorithm)),
          .backend = std::string(backend),
          .is_right = is_right,
          .pass = [what, hash_many](Bytes bytes) {
            return HashAll(hash_many, what.batch_chunks, bytes,
                           [](Bytes, const Digest& digest) { sink = digest.bytes[0]; });
          }};
}

bool IsWanted(const KernelOptions& options, std::string_view backend) {
  return options.backend.empty() || options.backend == backend;
}

void AddDigest(const KernelOptions& options, const Digests& what, std::vector<Kernel>& kernels) {
  if (what.algorithm == DigestAlgorithm::kBlake3) {
    for (const Blake3Backend& backend : Blake3Backends()) {
      if (!IsWanted(options, backend.name)) continue;
      kernels.push_back(HashKernel(what, backend.name, [&backend](auto chunks, auto digests) {
        Blake3Many(backend, chunks, digests);
      }));
    }
    return;
  }
  if (what.algorithm == DigestAlgorithm::kSha256) {
    for (const Sha256Backend& backend : Sha256Backends()) {
      if (!IsWanted(options, backend.name)) continue;
      kernels.push_back(HashKernel(what, backend.name, backend.hash_many));
    }
    return;
  }
  // The library chooses for itself.
  if (!IsWanted(options, "xxhash")) return;
  kernels.push_back(HashKernel(what, "xxhash", [](auto chunks, auto digests) {
    FingerprintMany(DigestAlgorithm::kXxh3_128, chunks, digests);
  }));
}

// Cuts and fingerprints: "fused" in one pass over memory, "apart" cuts all before it hashes.
Kernel FusedKernel(const Profile& profile, DigestAlgorithm digest,
                   const std::shared_ptr<const Chunker>& chunker) {
  const auto is_right = [profile, digest, chunker](Bytes bytes) {
    bool all_right = true;
    CutAndFingerprint(*chunker, digest, bytes,
                      [&](std::span<const Bytes> chunks, std::span<const Digest> digests) {
                        for (std::size_t index = 0; index < chunks.size(); ++index) {
                          const std::size_t length = ReferenceNextCut(profile, bytes);
                          all_right = all_right && chunks[index].size() == length &&
                                      digests[index] == ExpectedDigest(digest, chunks[index]);
                          bytes = bytes.subspan(chunks[index].size());
                        }
                      });
    return all_right && bytes.empty();
  };
  const auto pass = [digest, chunker](Bytes bytes) {
    std::uint64_t chunk_count = 0;
    CutAndFingerprint(*chunker, digest, bytes,
                      [&](std::span<const Bytes> chunks, std::span<const Digest> digests) {
                        chunk_count += chunks.size();
                        sink = digests.front().bytes[0];
                      });
    return chunk_count;
  };
  return {.name = "", .algorithm = "", .backend = "fused", .is_right = is_right, .pass = pass};
}

Kernel ApartKernel(const Profile& profile, DigestAlgorithm digest,
                   const std::shared_ptr<const Chunker>& chunker) {
  const auto cut = [chunker](Bytes bytes) {
    std::vector<Bytes> chunks;
    for (; !bytes.empty(); bytes = bytes.subspan(chunks.back().size())) {
      chunks.push_back(bytes.first(chunker->NextCut(bytes)));
    }
    return chunks;
  };
  const auto is_right = [profile, digest, chunker, cut](Bytes bytes) {
    const std::vector<Bytes> chunks = cut(bytes);
    std::vector<Digest> digests(chunks.size());
    FingerprintMany(digest, chunks, digests);
    bool all_right = CutsAreRight(*chunker, profile, bytes);
    for (std::size_t index = 0; index < chunks.size(); ++index) {
      all_right = all_right && digests[index] == ExpectedDigest(digest, chunks[index]);
    }
    return all_right;
  };
  const auto pass = [digest, cut](Bytes bytes) {
    const std::vector<Bytes> chunks = cut(bytes);
    std::vector<Digest> digests(chunks.size());
    FingerprintMany(digest, chunks, digests);
    sink = digests.front().bytes[0];
    return std::uint64_t{chunks.size()};
  };
  return {.name = "", .algorithm = "", .backend = "apart", .is_right = is_right, .pass = pass};
}

// "PROFILE+DIGEST".
void AddCutAndHash(const KernelOptions& options, const Profile& profile, DigestAlgorithm digest,
                   std::vector<Kernel>& kernels) {
  const std::shared_ptr<const Chunker> chunker = MakeChunker(profile);
  for (const auto make : {FusedKernel, ApartKernel}) {
    Kernel kernel = make(profile, digest, chunker);
    if (!IsWanted(options, kernel.backend)) continue;
    kernel.algorithm = Cat(FormatProfile(profile), "+", DigestAlgorithmName(digest));
    kernels.push_back(std::move(kernel));
  }
}

absl::Status AddProfile(const KernelOptions& options, const Profile& profile,
                        std::vector<Kernel>& kernels) {
  for (const std::string_view backend : BackendsFor(profile)) {
    if (!IsWanted(options, backend)) continue;
    KERF_ASSIGN_OR_RETURN(std::unique_ptr<Chunker> chunker, MakeChunkerOf(backend, profile));
    kernels.push_back(CutKernel(profile, backend, std::move(chunker)));
  }
  return absl::OkStatus();
}

// An algorithm's name alone stands for its named profile of 8 KiB.
absl::StatusOr<Profile> ProfileOf(const std::string& text) {
  absl::StatusOr<Profile> profile = ParseProfile(text);
  if (profile.ok()) return profile;
  const absl::StatusOr<Profile> named = ParseProfile(Cat(text, "-8k"));
  return named.ok() ? named : profile;
}

// A digest algorithm, alone or followed by "/" and how many chunks are hashed by one call; nothing
// where `name` is something else.
absl::StatusOr<std::optional<Digests>> ParseDigests(std::string_view name) {
  const std::size_t slash = name.find('/');
  const auto algorithm = ParseDigestAlgorithm(name.substr(0, slash));
  if (!algorithm.has_value()) return std::nullopt;
  std::size_t batch_chunks = kHashedBatchChunks;
  if (slash != std::string_view::npos &&
      (!absl::SimpleAtoi(ToAbsl(name.substr(slash + 1)), &batch_chunks) || batch_chunks == 0 ||
       batch_chunks > kHashedBatchChunks)) {
    return absl::InvalidArgumentError(
        Cat("'", name, "': behind the slash stands how many chunks one call hashes, 1 to ",
            kHashedBatchChunks));
  }
  return Digests{*algorithm, batch_chunks};
}

absl::StatusOr<std::vector<Kernel>> MakeKernels(const KernelOptions& options) {
  std::vector<std::string> names = options.algorithms;
  if (names.empty()) {
    for (const NamedProfile& named : NamedProfiles()) {
      if (named.name.ends_with("-8k")) names.emplace_back(named.name);
    }
    for (const DigestAlgorithm digest :
         {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256, DigestAlgorithm::kXxh3_128}) {
      names.emplace_back(DigestAlgorithmName(digest));
    }
    names.push_back(Cat(kDefaultProfileName, "+", DigestAlgorithmName(DigestAlgorithm::kBlake3)));
  }
  std::vector<Kernel> kernels;
  for (const std::string& name : names) {
    const std::size_t first = kernels.size();
    const std::size_t plus = name.find('+');
    KERF_ASSIGN_OR_RETURN(const std::optional<Digests> digests, ParseDigests(name));
    if (digests.has_value()) {
      AddDigest(options, *digests, kernels);
    } else if (plus != std::string::npos) {
      KERF_ASSIGN_OR_RETURN(const Profile profile, ProfileOf(name.substr(0, plus)));
      const auto with = ParseDigestAlgorithm(name.substr(plus + 1));
      if (!with.has_value()) {
        return absl::InvalidArgumentError(
            Cat("'", name.substr(plus + 1), "' is no digest: blake3, sha256 or xxh3-128"));
      }
      AddCutAndHash(options, profile, *with, kernels);
    } else {
      KERF_ASSIGN_OR_RETURN(const Profile profile, ProfileOf(name));
      KERF_RETURN_IF_ERROR(AddProfile(options, profile, kernels));
    }
    for (Kernel& kernel : std::span(kernels).subspan(first)) kernel.name = name;
  }
  if (kernels.empty()) {
    return absl::InvalidArgumentError(
        Cat("the backend ", options.backend, " implements none of these here"));
  }
  return kernels;
}

absl::StatusOr<std::vector<std::uint8_t>> MakeData(const std::string& kind, std::uint64_t size) {
  if (kind == "zeros") return MakeInput("constant", 0, size);
  if (kind == "random" || kind == "text") return MakeInput(kind, 1, size);
  return absl::InvalidArgumentError(Cat("'", kind, "' is no kind of data: random, text or zeros"));
}

// Bytes a second of one measurement, over at least `least_bytes`.
double Speed(const Pass& pass, Bytes bytes, std::uint64_t least_bytes) {
  const std::uint64_t pass_count = std::max<std::uint64_t>(1, least_bytes / bytes.size());
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t count = 0; count < pass_count; ++count) sink = pass(bytes);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return static_cast<double>(bytes.size() * pass_count) / time.count();
}

KernelFigure Measure(const Kernel& kernel, Bytes bytes, std::uint64_t least_bytes,
                     std::uint32_t rounds) {
  KernelFigure figure;
  figure.name = kernel.name;
  figure.algorithm = kernel.algorithm;
  figure.backend = kernel.backend;
  figure.average_chunk_bytes =
      static_cast<double>(bytes.size()) / static_cast<double>(kernel.pass(bytes));
  // By turns, so that what else the machine does meets both.
  for (std::uint32_t round = 0; round < rounds; ++round) {
    figure.bytes_per_second =
        std::max(figure.bytes_per_second, Speed(kernel.pass, bytes, least_bytes));
    for (const ReadBytes read : Readers()) {
      figure.ceiling_bytes_per_second =
          std::max(figure.ceiling_bytes_per_second, Speed(read, bytes, least_bytes));
    }
  }
  return figure;
}

}  // namespace

absl::Status RunKernelBench(const KernelOptions& options, const std::atomic<bool>& cancelled,
                            const std::function<void(const KernelFigure&)>& visit) {
  KERF_ASSIGN_OR_RETURN(const std::vector<Kernel> kernels, MakeKernels(options));
  constexpr std::uint64_t kCachedLeastBytes = 64 * kCachedBytes;
  for (const std::string& kind : options.data) {
    KERF_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> data,
                          MakeData(kind, std::max(options.size_bytes, kCachedBytes)));
    const Bytes all(data);
    const Bytes checked = all.first(std::min<std::size_t>(all.size(), kCheckedBytes));
    for (const Kernel& kernel : kernels) {
      if (!kernel.is_right(checked)) {
        return absl::DataLossError(Cat(kernel.algorithm, " on ", kernel.backend, ", ", kind,
                                       " data: not what the reference says"));
      }
      const std::array<std::pair<std::string, Bytes>, 2> sources = {
          {{"dram", all}, {"l2", all.first(kCachedBytes)}}};
      for (const auto& [source, bytes] : sources) {
        if (cancelled) return absl::CancelledError("interrupted");
        KernelFigure figure = Measure(kernel, bytes, kCachedLeastBytes, options.rounds);
        figure.source = source;
        figure.data = kind;
        visit(figure);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace kerf::bench
