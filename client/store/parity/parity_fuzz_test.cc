// Any bytes as the parity of a pack that has lost something. Where the heads are changed their
// checksums are made right, so that what lies behind them is reached.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "client/store/format/pack_files.h"
#include "client/store/parity/mender.h"
#include "client/store/parity/parity_file.h"
#include "client/store/parity/parity_layout.h"
#include "client/store/parity/parity_maker.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/testing/edits.h"
#include "client/store/testing/test_store.h"
#include "kernels/fingerprint/digest.h"

namespace {

using kerf::agent::kParityHeadBytes;

class Sample {
 public:
  Sample() {
    std::filesystem::create_directories(folder_.path() + "/packs/00");
    std::filesystem::create_directories(folder_.path() + "/tmp");
    KERF_CHECK(kerf::agent::WriteParityPercent(folder_.path(), 5).ok());
    kerf::agent::WriteTestFile(pack_path_, std::string(20'000, 'p'));
    const kerf::agent::PackSums sums = kerf::agent::SumsOfTestFile(pack_path_);
    KERF_CHECK(kerf::agent::MakeParity(pack_path_, id_, sums, 5).ok());
    const std::string text = kerf::agent::ReadTestFile(kerf::agent::ParityPathOf(pack_path_));
    parity_.assign(text.begin(), text.end());
    kerf::agent::WriteTestFile(pack_path_, std::string(12'500, 'p'));
  }

  bool Try(std::span<const std::uint8_t> bytes) const {
    const std::string path = kerf::agent::ParityPathOf(pack_path_);
    kerf::agent::WriteTestFile(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const auto parity = kerf::agent::ParityFile::Open(path, id_);
    if (!parity.ok()) return false;
    (void)parity->Check();
    const auto mender = kerf::agent::Mender::Open(pack_path_, id_);
    KERF_CHECK(mender.ok());
    const std::uint64_t size_bytes =
        std::min<std::uint64_t>(parity->shape().pack_bytes, std::uint64_t{1} << 20);
    const auto read = mender->Read(0, size_bytes);
    if (read.ok()) KERF_CHECK(read->size() == size_bytes);
    return read.ok();
  }

  const std::vector<std::uint8_t>& parity() const { return parity_; }

 private:
  const kerf::agent::TemporaryFolder folder_{kerf::agent::TemporaryFolder::Place::kMemory};
  const kerf::agent::PackId id_ = *kerf::agent::ParsePackId("00112233445566778899aabbccddeeff");
  const std::string pack_path_ = kerf::agent::PackFilePath(folder_.path() + "/packs", id_, ".pack");
  std::vector<std::uint8_t> parity_;
};

void MakeChecksumRight(std::span<std::uint8_t> head) {
  constexpr std::size_t kChecksumBytes = 32;
  const kerf::Digest checksum = kerf::Fingerprint(kerf::DigestAlgorithm::kBlake3,
                                                  head.first(kParityHeadBytes - kChecksumBytes));
  std::copy(checksum.bytes.begin(), checksum.bytes.end(), head.end() - kChecksumBytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Sample sample;
  static const bool sample_is_valid = sample.Try(sample.parity());
  KERF_CHECK(sample_is_valid);
  (void)sample.Try({data, size});
  std::vector<std::uint8_t> edited = kerf::agent::ApplyEdits(sample.parity(), {data, size});
  (void)sample.Try(edited);
  if (edited.size() < kParityHeadBytes) return 0;
  MakeChecksumRight(std::span(edited).first(kParityHeadBytes));
  MakeChecksumRight(std::span(edited).last(kParityHeadBytes));
  (void)sample.Try(edited);
  return 0;
}
