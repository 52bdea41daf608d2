#include "kernels/vector/linear_maps.h"

#include "kernels/profile.h"
#include "kernels/reference/crc.h"
#include "kernels/reference/rabin.h"

namespace kerf {
namespace {

// Of a linear function from bytes to bytes.
template <typename Function>
ByteMap MapOf(const Function& image) {
  ByteMap map{};
  for (std::size_t nibble = 0; nibble < 16; ++nibble) {
    map.low[nibble] = image(static_cast<std::uint8_t>(nibble));
    map.high[nibble] = image(static_cast<std::uint8_t>(nibble << 4));
  }
  for (int to = 0; to < 8; ++to) {
    for (int from = 0; from < 8; ++from) {
      const std::uint64_t bit = image(static_cast<std::uint8_t>(1 << from)) >> to & 1;
      map.matrix |= bit << (8 * (7 - to) + from);
    }
  }
  return map;
}

// Of a linear function from bytes to states.
template <std::size_t kPlanes, typename Function>
PlaneMaps<kPlanes> PlanesOf(const Function& image) {
  PlaneMaps<kPlanes> maps{};
  for (std::size_t plane = 0; plane < kPlanes; ++plane) {
    maps[plane] = MapOf(
        [&](std::uint8_t byte) { return static_cast<std::uint8_t>(image(byte) >> (8 * plane)); });
  }
  return maps;
}

std::uint32_t PastZeros(std::uint32_t crc, std::size_t count) {
  for (; count > 0; --count) crc = CrcTable()[crc & 0xFF] ^ crc >> 8;
  return crc;
}

std::array<PlaneMaps<4>, 4> CrcPastStrips(std::size_t strip_count) {
  std::array<PlaneMaps<4>, 4> maps{};
  for (std::size_t from = 0; from < maps.size(); ++from) {
    maps[from] = PlanesOf<4>([&](std::uint8_t byte) {
      return PastZeros(std::uint32_t{byte} << (8 * from), strip_count * kLinearStripBytes);
    });
  }
  return maps;
}

template <std::size_t kPlanes>
PlaneMaps<kPlanes> RabinPlanes(int bits) {
  return PlanesOf<kPlanes>(
      [bits](std::uint8_t byte) { return RabinResidue(byte, bits) << kRabinPlaneShift; });
}

}  // namespace

const CrcMaps& CrcByteMaps() {
  static const CrcMaps maps = {
      .feed = PlanesOf<4>([](std::uint8_t byte) { return CrcTable()[byte]; }),
      .out = PlanesOf<4>([](std::uint8_t byte) { return CrcOutTable()[byte]; }),
      .past_1_strip = CrcPastStrips(1),
      .past_2_strips = CrcPastStrips(2)};
  return maps;
}

const RabinMaps& RabinByteMaps() {
  static_assert(kRabinDegree + kRabinPlaneShift == 7 * 8);
  static const RabinMaps maps = {.feed = RabinPlanes<7>(kRabinDegree),
                                 .in = RabinPlanes<2>(0),
                                 .out = RabinPlanes<7>(8 * kRabinWindowBytes)};
  return maps;
}

}  // namespace kerf
