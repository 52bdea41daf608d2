// Any bytes, any small rule of a gear table, any threads and segments: two-stage chunking gives the
// cuts of the sequential rule. The first bytes choose all that but the data.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/parallel_cut.h"
#include "kernels/profile.h"
#include "kernels/reference/reference.h"
#include "kernels/twostage/mark.h"

namespace {

using Bytes = std::span<const std::uint8_t>;
using Ends = std::vector<std::uint64_t>;

constexpr std::size_t kHeaderBytes = 8;

// The sequential rule, for any table and masks.
Ends CutByRule(const kerf::GearRule& rule, Bytes bytes) {
  Ends ends;
  for (std::size_t start = 0; start < bytes.size();) {
    const std::size_t size = std::min(bytes.size() - start, rule.max_bytes);
    std::size_t index = std::min(size, rule.min_bytes);
    std::uint32_t hash = 0;
    for (; index < size; ++index) {
      hash = (hash << 1) + rule.table[bytes[start + index]];
      if ((hash & (index < rule.avg_bytes ? rule.strict_mask : rule.loose_mask)) == 0) break;
    }
    start += index;
    ends.push_back(start);
  }
  return ends;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHeaderBytes) return 0;
  kerf::Random random(data[0]);
  kerf::GearRule rule;
  for (std::uint32_t& value : rule.table) value = static_cast<std::uint32_t>(random.Next());
  rule.strict_mask = 1u << data[1] % 32 | 1u << data[2] % 32 | 1u << data[3] % 32;
  rule.loose_mask = rule.strict_mask & static_cast<std::uint32_t>(random.Next());
  rule.window_bytes = static_cast<std::size_t>(std::bit_width(rule.strict_mask));
  rule.min_bytes = 1 + data[4] % 100;
  rule.avg_bytes = rule.min_bytes + data[5];
  rule.max_bytes = rule.avg_bytes + data[6];
  const kerf::ParallelCutOptions options{1 + data[7] % 3u, 1 + data[7] * 5u};
  const Bytes bytes(data + kHeaderBytes, size - kHeaderBytes);
  KERF_CHECK(kerf::CutInParallel(rule, *kerf::MakeScalarMarker(rule), bytes, options) ==
             CutByRule(rule, bytes));

  static const auto profiles = {
      *kerf::ParseProfile("gear:min=64,avg=256,max=400"),
      *kerf::ParseProfile("fastcdc:min=64,avg=256,max=1000,level=3"),
      *kerf::ParseProfile("crc:min=256,bits=6,max=600"),
      *kerf::ParseProfile("rabin:min=64,avg=256,max=500"),
      *kerf::ParseProfile("maxp-local:window=64,max=300"),
  };
  for (const kerf::Profile& profile : profiles) {
    const Ends ends = kerf::CutInParallel(profile, bytes, options);
    std::size_t start = 0;
    for (const std::uint64_t end : ends) {
      KERF_CHECK(end - start == kerf::ReferenceNextCut(profile, bytes.subspan(start)));
      start = end;
    }
    KERF_CHECK(start == bytes.size());
  }
  return 0;
}
