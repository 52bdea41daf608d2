// A kerfd of which a test watches whether it says that it is ready.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "e2e/http.h"
#include "e2e/world.h"

namespace kerf::e2e {

class WatchedTest : public testing::Test {
 protected:
  static constexpr std::chrono::seconds kPatience{30};

  void Start(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> all = {"--metrics-listen", "127.0.0.1:0", "--metrics-ready-file",
                                    world_ / "server/metrics.ready"};
    all.insert(all.end(), flags.begin(), flags.end());
    world_.StartServer(all);
  }

  HttpAnswer Ask(const std::string& page, std::chrono::milliseconds patience = kPatience) {
    return GetHttp(ReadText(world_ / "server/metrics.ready"), page, patience);
  }
  // What /readyz says: "ready", or "not ready: ..."
  std::string Readiness() {
    const HttpAnswer answer = Ask("/readyz");
    if (answer.code == 0) return "no answer";
    EXPECT_EQ(answer.code == 200, answer.body == "ready\n") << answer.code << answer.body;
    return answer.body;
  }
  bool WaitUntilReadinessIs(const std::string& beginning,
                            std::chrono::seconds patience = kPatience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!Readiness().starts_with(beginning)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  void WriteRandom(const std::string& name, std::size_t bytes, std::uint64_t seed) {
    std::string content(bytes, '\0');
    Random(seed).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    WriteText(world_ / name, content);
  }

  World world_;
};

}  // namespace kerf::e2e
