#include "client/lab/bench/local_cut.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "client/lab/bench/process_costs.h"
#include "kernels/cut_and_fingerprint.h"
#include "kernels/fingerprint/xxh3.h"

namespace kerf::bench {
namespace {

using Bytes = std::span<const std::uint8_t>;

}  // namespace

LocalChunks CutAndHash(const Chunker& chunker, DigestAlgorithm digest, Bytes file) {
  LocalChunks result;
  std::uint64_t end_offset = 0;
  CutAndFingerprint(chunker, digest, file,
                    [&](std::span<const Bytes> chunks, std::span<const Digest> digests) {
                      for (std::size_t index = 0; index < chunks.size(); ++index) {
                        end_offset += chunks[index].size();
                        result.push_back({end_offset, digests[index]});
                      }
                    });
  return result;
}

LocalPass MeasureLocal(const Chunker& chunker, DigestAlgorithm digest, std::span<const Bytes> files,
                       std::size_t thread_count) {
  LocalPass pass;
  pass.chunks.resize(files.size());
  for (const Bytes file : files) pass.cost.bytes += file.size();
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t index = next++; index < files.size(); index = next++) {
      pass.chunks[index] = CutAndHash(chunker, digest, files[index]);
    }
  };
  const auto start = std::chrono::steady_clock::now();
  const double start_cpu = OwnCpuSeconds();
  std::vector<std::thread> threads;
  for (std::size_t index = 1; index < thread_count; ++index) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  pass.cost.client_cpu_seconds = OwnCpuSeconds() - start_cpu;
  pass.cost.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return pass;
}

void AddChecks(Bytes file, LocalChunks& chunks) {
  std::uint64_t begin = 0;
  for (LocalChunk& chunk : chunks) {
    chunk.check = Xxh3Of64(file.subspan(begin, chunk.end_offset - begin));
    begin = chunk.end_offset;
  }
}

}  // namespace kerf::bench
