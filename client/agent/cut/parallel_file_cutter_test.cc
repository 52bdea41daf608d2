#include "client/agent/cut/parallel_file_cutter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/chunker.h"
#include "kernels/testing/inputs.h"

namespace kerf::agent {
namespace {

using Bytes = std::span<const std::uint8_t>;

class MemoryFile {
 public:
  explicit MemoryFile(Bytes bytes) : fd_(memfd_create("kerf_test", MFD_CLOEXEC)) {
    EXPECT_EQ(pwrite(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

class ParallelFileCutterTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ParallelFileCutterTest, ChunksAreThoseOfOneThread) {
  Random random(TestSeed());
  ParallelFileOptions options;
  options.profile = *ParseProfile(GetParam());
  const std::unique_ptr<Chunker> chunker = MakeChunker(options.profile);
  const std::size_t max_bytes = options.profile.max_bytes;
  for (int round = 0; round < 12; ++round) {
    options.thread_count = random.Between(1, 5);
    options.window_bytes = random.OneIn(3) ? max_bytes : random.Between(max_bytes, 5 * max_bytes);
    options.digest = random.OneIn(2) ? DigestAlgorithm::kBlake3 : DigestAlgorithm::kXxh3_128;
    // Often ends where a window does.
    const std::size_t size = round == 0        ? 0
                             : random.OneIn(3) ? options.window_bytes * random.Between(1, 4)
                                               : random.Between(1, 400'000);
    const std::vector<std::uint8_t> bytes =
        MakeInput(random.OneIn(4) ? "constant" : "random", random.Below(256), size);
    const MemoryFile file(bytes);
    lseek(file.fd(), 0, SEEK_SET);
    Bytes rest = bytes;
    std::uint64_t offset_bytes = 0;
    const std::atomic<bool> cancelled = false;
    ASSERT_TRUE(CutFileInParallel(file.fd(), options, cancelled, [&](auto chunks) {
                  for (const FileChunk& chunk : chunks) {
                    ASSERT_FALSE(rest.empty());
                    const Bytes wanted = rest.first(chunker->NextCut(rest));
                    ASSERT_EQ(chunk.offset_bytes, offset_bytes);
                    ASSERT_EQ(chunk.length_bytes, wanted.size());
                    ASSERT_EQ(chunk.digest, Fingerprint(options.digest, wanted));
                    rest = rest.subspan(wanted.size());
                    offset_bytes += wanted.size();
                  }
                }).ok());
    EXPECT_TRUE(rest.empty()) << rest.size() << " of " << size << " bytes are in no chunk";
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, ParallelFileCutterTest,
                         ::testing::Values("fastcdc:min=64,avg=256,max=9000,level=1", "gear-8k",
                                           "crc:min=256,bits=9,max=5000",
                                           "rabin:min=64,avg=1024,max=8000",
                                           "maxp-local:window=100,max=3000", "fastcdc2020-8k",
                                           "mincdc:min=100,max=3000"));

TEST(ParallelFileCutterErrors, AFileThatCannotBeRead) {
  ParallelFileOptions options;
  options.profile = *ParseProfile("gear-8k");
  const int fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const std::atomic<bool> cancelled = false;
  EXPECT_FALSE(CutFileInParallel(fd, options, cancelled, [](auto) { FAIL(); }).ok());
  close(fd);
}

TEST(ParallelFileCutterErrors, StopsWhenCancelled) {
  ParallelFileOptions options;
  options.profile = *ParseProfile("gear-8k");
  options.window_bytes = options.profile.max_bytes;
  const MemoryFile file(MakeInput("random", TestSeed(), 4 * options.window_bytes));
  lseek(file.fd(), 0, SEEK_SET);
  std::atomic<bool> cancelled = false;
  int calls = 0;
  const absl::Status status = CutFileInParallel(file.fd(), options, cancelled, [&](auto) {
    ++calls;
    cancelled = true;
  });
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace kerf::agent
