#include "base/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/page_bytes.h"
#include "base/unique_fd.h"

namespace kerf {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

UniqueFd Memory(std::uint64_t size_bytes, int seals, unsigned flags = MFD_ALLOW_SEALING) {
  UniqueFd fd(memfd_create("test", flags | MFD_CLOEXEC));
  EXPECT_TRUE(fd.valid());
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size_bytes)), 0);
  if (seals != 0) {
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  }
  return fd;
}

UniqueFd Copy(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

bool IsTaken(UniqueFd fd) {
  const int number = fd.get();
  const absl::Status status = ForeignMemory::Take(std::move(fd)).status();
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
  // It is the memory's, or closed: in no case it stays open.
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
  return status.ok();
}

TEST(SharedMemoryTest, TheOtherSideReadsWhatIsWritten) {
  auto memory = SharedMemory::Make(kMinSharedBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  ASSERT_EQ(memory->bytes().size(), kMinSharedBytes);
  auto foreign = ForeignMemory::Take(Copy(memory->fd()));
  ASSERT_TRUE(foreign.ok()) << foreign.status();
  EXPECT_EQ(foreign->size_bytes(), kMinSharedBytes);
  std::vector<std::uint8_t> read(3, 9);
  EXPECT_TRUE(foreign->Read(5000, read).ok());
  EXPECT_EQ(read, std::vector<std::uint8_t>(3, 0));
  memory->bytes()[5001] = 7;
  EXPECT_TRUE(foreign->Read(5000, read).ok());
  EXPECT_EQ(read, (std::vector<std::uint8_t>{0, 7, 0}));
}

// A stream that goes on when its client is gone reads what was there.
TEST(SharedMemoryTest, OutlivesWhoHasMadeIt) {
  auto memory = SharedMemory::Make(kMinSharedBytes);
  ASSERT_TRUE(memory.ok());
  auto foreign = ForeignMemory::Take(Copy(memory->fd()));
  ASSERT_TRUE(foreign.ok());
  memory->bytes().back() = 3;
  {
    const SharedMemory gone = *std::move(memory);
    EXPECT_EQ(gone.bytes().back(), 3);
  }
  std::vector<std::uint8_t> read(1);
  EXPECT_TRUE(foreign->Read(kMinSharedBytes - 1, read).ok());
  EXPECT_EQ(read[0], 3);
}

// Else a server that has gone bad could change what its client compares, and is about to store.
TEST(SharedMemoryTest, NobodyElseWritesIt) {
  auto memory = SharedMemory::Make(kMinSharedBytes);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const UniqueFd given = Copy(memory->fd());
  const std::string path = "/proc/self/fd/" + std::to_string(given.get());
  const UniqueFd opened(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(opened.valid());
  const auto map = [](int fd, int access) {
    return mmap(nullptr, kMinSharedBytes, access, MAP_SHARED, fd, 0);
  };
  for (const int fd : {given.get(), opened.get()}) {
    EXPECT_EQ(pwrite(fd, "x", 1, 0), -1);
    EXPECT_NE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                        static_cast<off_t>(kMinSharedBytes)),
              0);
    EXPECT_EQ(map(fd, PROT_READ | PROT_WRITE), MAP_FAILED);
    void* const read_only = map(fd, PROT_READ);
    ASSERT_NE(read_only, MAP_FAILED);
    EXPECT_NE(mprotect(read_only, kMinSharedBytes, PROT_READ | PROT_WRITE), 0);
    munmap(read_only, kMinSharedBytes);
  }
  memory->bytes()[0] = 7;
  EXPECT_EQ(memory->bytes()[0], 7);
}

TEST(SharedMemoryTest, HasASizeWithinItsBounds) {
  for (const std::size_t size_bytes :
       {std::size_t{0}, kMinSharedBytes - kPageBytes, kMinSharedBytes + 1,
        kMaxSharedBytes + kPageBytes, std::numeric_limits<std::size_t>::max()}) {
    EXPECT_EQ(SharedMemory::Make(size_bytes).status().code(), absl::StatusCode::kInvalidArgument)
        << size_bytes;
  }
  EXPECT_TRUE(SharedMemory::Make(kMaxSharedBytes).ok());
}

TEST(ForeignMemoryTest, TakesAllSealedSizesWithinTheBoundsAndNoOthers) {
  EXPECT_TRUE(IsTaken(Memory(kMinSharedBytes, kSeals)));
  EXPECT_TRUE(IsTaken(Memory(kMaxSharedBytes, kSeals)));
  EXPECT_FALSE(IsTaken(Memory(0, kSeals)));
  EXPECT_FALSE(IsTaken(Memory(kMinSharedBytes - kPageBytes, kSeals)));
  EXPECT_FALSE(IsTaken(Memory(kMinSharedBytes + 1, kSeals)));
  EXPECT_FALSE(IsTaken(Memory(kMaxSharedBytes + kPageBytes, kSeals)));
  EXPECT_FALSE(IsTaken(Memory(std::uint64_t{1} << 60, kSeals)));
}

TEST(ForeignMemoryTest, TakesNothingThatMayChangeItsSize) {
  EXPECT_FALSE(IsTaken(Memory(kMinSharedBytes, 0)));
  EXPECT_FALSE(IsTaken(Memory(kMinSharedBytes, 0, 0)));
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL}) {
    EXPECT_FALSE(IsTaken(Memory(kMinSharedBytes, kSeals & ~missing))) << missing;
  }
  // More seals are the other side's own affair.
  EXPECT_TRUE(IsTaken(Memory(kMinSharedBytes, kSeals | F_SEAL_WRITE)));
}

// What is asked of them, or read of them, may never be answered, or change.
TEST(ForeignMemoryTest, TakesNothingElse) {
  EXPECT_FALSE(IsTaken(UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC))));
  EXPECT_FALSE(IsTaken(UniqueFd(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC))));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  EXPECT_FALSE(IsTaken(UniqueFd(ends[0])));
  EXPECT_FALSE(IsTaken(UniqueFd(ends[1])));
  for (const std::string folder : {"/dev/shm", "/tmp"}) {
    std::string pattern = folder + "/kerf-shared-XXXXXX";
    UniqueFd file(mkostemp(pattern.data(), O_CLOEXEC));
    if (!file.valid()) continue;
    unlink(pattern.c_str());
    ASSERT_EQ(ftruncate(file.get(), static_cast<off_t>(kMinSharedBytes)), 0);
    EXPECT_FALSE(IsTaken(std::move(file))) << folder;
  }
}

TEST(ForeignMemoryTest, TakesNoHugePages) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!fd.valid()) GTEST_SKIP() << "this kernel has no huge pages";
  ASSERT_EQ(ftruncate(fd.get(), std::int64_t{4} << 20), 0);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, kSeals), 0);
  EXPECT_FALSE(IsTaken(std::move(fd)));
}

TEST(ForeignMemoryTest, TakesNothingThatItCannotRead) {
  const UniqueFd memory = Memory(kMinSharedBytes, kSeals);
  const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
  EXPECT_TRUE(IsTaken(UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC))));
  EXPECT_FALSE(IsTaken(UniqueFd(open(path.c_str(), O_WRONLY | O_CLOEXEC))));
  EXPECT_FALSE(IsTaken(UniqueFd(open(path.c_str(), O_PATH | O_CLOEXEC))));
}

TEST(ForeignMemoryTest, ReadsNothingOutsideOfIt) {
  auto foreign = ForeignMemory::Take(Memory(kMinSharedBytes, kSeals));
  ASSERT_TRUE(foreign.ok());
  std::vector<std::uint8_t> out(100, 9);
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t offset :
       {std::uint64_t{kMinSharedBytes} - 99, std::uint64_t{kMinSharedBytes}, kMost, kMost - 98,
        kMost - 99, std::uint64_t{1} << 63}) {
    EXPECT_EQ(foreign->Read(offset, out).code(), absl::StatusCode::kOutOfRange) << offset;
  }
  EXPECT_EQ(std::count(out.begin(), out.end(), 9), 100);
  EXPECT_TRUE(foreign->Read(kMinSharedBytes - 100, out).ok());
  EXPECT_EQ(std::count(out.begin(), out.end(), 0), 100);
  EXPECT_TRUE(foreign->Read(kMinSharedBytes, {}).ok());
  EXPECT_FALSE(foreign->Read(kMinSharedBytes + 1, {}).ok());
}

// Each page that is read of a mapping would be made, on the reader's account.
TEST(ForeignMemoryTest, ReadingHolesMakesNoMemory) {
  const UniqueFd memory = Memory(kMaxSharedBytes, kSeals);
  auto foreign = ForeignMemory::Take(Copy(memory.get()));
  ASSERT_TRUE(foreign.ok());
  std::vector<std::uint8_t> out(1 << 20, 9);
  for (std::uint64_t offset = 0; offset < kMaxSharedBytes; offset += out.size()) {
    ASSERT_TRUE(foreign->Read(offset, out).ok());
  }
  EXPECT_EQ(std::count(out.begin(), out.end(), 0), std::int64_t{1} << 20);
  // Of no other use is the place of its first data: there is none.
  EXPECT_EQ(lseek(memory.get(), 0, SEEK_DATA), -1);
}

TEST(ForeignMemoryTest, WhatChangesMeanwhileHarmsNobody) {
  // Of somebody who has not sealed it against himself.
  const UniqueFd memory = Memory(kMinSharedBytes, kSeals);
  void* const bytes =
      mmap(nullptr, kMinSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  ASSERT_NE(bytes, MAP_FAILED);
  auto foreign = ForeignMemory::Take(Copy(memory.get()));
  ASSERT_TRUE(foreign.ok());
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    for (int value = 0; !ends.load(); value = (value + 1) % 256) {
      std::memset(bytes, value, kMinSharedBytes);
      EXPECT_EQ(fallocate(memory.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                          static_cast<off_t>(kMinSharedBytes)),
                0);
      // All that would end somebody who has it mapped.
      EXPECT_NE(ftruncate(memory.get(), 0), 0);
      EXPECT_NE(ftruncate(memory.get(), 1 << 20), 0);
    }
  });
  std::vector<std::uint8_t> out(kMinSharedBytes);
  for (int turn = 0; turn < 200; ++turn) EXPECT_TRUE(foreign->Read(0, out).ok());
  ends.store(true);
  writer.join();
  munmap(bytes, kMinSharedBytes);
}

}  // namespace
}  // namespace kerf
