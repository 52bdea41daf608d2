// What tests of a relay begin with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "server/door/testing/raw_frames.h"
#include "server/door/testing/relay_world.h"

namespace kerf::door {

using Pairs = std::vector<std::pair<std::string, std::string>>;

inline std::string RandomBytes(Random& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t drawn = random.Next();
    std::memcpy(&bytes[at], &drawn, std::min(size - at, sizeof drawn));
  }
  return bytes;
}

// With a client that keeps the rules: in the clear, or over TLS.
class RelayTest : public testing::TestWithParam<bool> {
 public:
  static std::string NameOf(const testing::TestParamInfo<bool>& info) {
    return info.param ? "Tls" : "Clear";
  }

 protected:
  RelayTest() { world_.AddClient(); }

  // Whatever has happened: nothing is held once the connection is gone.
  ~RelayTest() override {
    world_.CloseRelay();
    EXPECT_EQ(world_.memory().used_bytes(), 0u);
    EXPECT_EQ(world_.windows().total().used_bytes(), 0u);
    EXPECT_EQ(world_.pool().used_bytes(), 0u);
  }

  std::uint64_t Refused(RefusedCallReason reason) {
    return world_.metrics().Refused(reason).value();
  }

  static bool has_tls() { return GetParam(); }

  RelayWorld world_{RelayWorldOptions{.has_tls = has_tls()}};
};

}  // namespace kerf::door
