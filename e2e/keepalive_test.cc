// How often a client may ping: PRO-5 of docs/spec/protocol.md.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/strings.h"
#include "e2e/raw_http2.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

class KeepaliveTest : public testing::Test {
 protected:
  // At a unix socket, where there is gRPC itself.
  KeepaliveTest() {
    world_.StartServer();
    connection_ = std::make_unique<RawConnection>(
        Cat("unix:", world_ / world_.address().substr(std::string("unix:").size())));
    connection_->Send(Cat(http2::kPreface, http2::Frame(http2::kSettings, 0, 0, "")));
  }
  void Ping() { connection_->Send(http2::Frame(http2::kPing, 0, 0, "12345678")); }

  World world_;
  std::unique_ptr<RawConnection> connection_;
};

TEST_F(KeepaliveTest, OnePingIsAnswered) {
  Ping();
  EXPECT_TRUE(connection_->AwaitFrame(http2::kPing));
}

TEST_F(KeepaliveTest, WhoPingsTooOftenLosesTheConnection) {
  for (int count = 0; count < 10; ++count) Ping();
  EXPECT_TRUE(connection_->AwaitFrame(http2::kGoAway));
  connection_->AwaitEnd();
}

}  // namespace
}  // namespace kerf::e2e
