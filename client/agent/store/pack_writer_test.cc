#include "client/agent/store/pack_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {
namespace {

std::vector<std::uint8_t> RandomBytes(Random& random, std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.Next());
  return bytes;
}

class PackWriterTest : public ::testing::Test {
 protected:
  PackWriterTest()
      : directory_(Cat(::testing::TempDir(), "/pack_writer_",
                       ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(Cat(directory_, "/packs"));
    std::filesystem::create_directories(Cat(directory_, "/tmp"));
  }
  ~PackWriterTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<PackWriter> MakeWriter() {
    PackWriterOptions options;
    options.packs_directory = Cat(directory_, "/packs");
    options.temporary_directory = Cat(directory_, "/tmp");
    options.on_sealed = [this](const SealedPack&) { ++sealed_count_; };
    return std::make_unique<PackWriter>(std::move(options));
  }

  std::size_t CountFiles() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
      if (entry.is_regular_file()) ++count;
    }
    return count;
  }

  Random random_{TestSeed()};
  std::string directory_;
  std::atomic<int> sealed_count_ = 0;
};

TEST_F(PackWriterTest, AChunkUnderAWrongFingerprintIsNeverStored) {
  const std::vector<std::uint8_t> first = RandomBytes(random_, 5000);
  const std::vector<std::uint8_t> second = RandomBytes(random_, 5000);
  std::unique_ptr<PackWriter> writer = MakeWriter();
  ASSERT_TRUE(writer->Add(Fingerprint(DigestAlgorithm::kBlake3, first), first).ok());
  Digest flipped = Fingerprint(DigestAlgorithm::kBlake3, second);
  flipped.bytes[31] ^= 1;
  ASSERT_TRUE(writer->Add(flipped, second).ok());
  EXPECT_EQ(writer->Flush().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(writer->Add(Fingerprint(DigestAlgorithm::kBlake3, first), first).code(),
            absl::StatusCode::kDataLoss);
  writer.reset();
  EXPECT_EQ(sealed_count_, 0);
  EXPECT_EQ(CountFiles(), 0u);
}

}  // namespace
}  // namespace kerf::agent
