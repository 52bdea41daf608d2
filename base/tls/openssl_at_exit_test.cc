// OpenSSL outlives main(): threads that end later neither lose what it holds for them (the address
// sanitizer says so) nor find it gone.
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/rand.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "base/check.h"

namespace {

bool UseOpenSsl() {
  unsigned char byte = 0;
  ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
  return RAND_bytes(&byte, 1) == 1;
}

// Made before OpenSSL is first used and so ended after OpenSSL would have tidied up.
class LateThread {
 public:
  LateThread() = default;
  LateThread(const LateThread&) = delete;
  LateThread& operator=(const LateThread&) = delete;
  ~LateThread() {
    if (!thread_.joinable()) return;
    end_.set_value();
    thread_.join();
  }
  // Returns when it has used OpenSSL.
  void Start() {
    std::promise<bool> used;
    thread_ = std::thread([&] {
      used.set_value(UseOpenSsl());
      end_.get_future().wait();
      std::thread([] { KERF_CHECK(UseOpenSsl()); }).join();
      KERF_CHECK(UseOpenSsl());
    });
    EXPECT_TRUE(used.get_future().get());
  }

 private:
  std::promise<void> end_;
  std::thread thread_;
};

LateThread& Late() {
  static LateThread late;
  return late;
}

TEST(OpenSslAtExit, ThreadsThatEndAfterMainLoseNothing) { Late().Start(); }

}  // namespace
