#include "server/listener/grpc_listener.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/strings.h"
#include "server/listener/client_peer.h"

namespace kerf {
namespace {

using testing::StartsWith;

// Takes any call, notes whose it is, and ends it.
class Noting : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const std::lock_guard lock(mutex_);
    peer_ = PeerOf(*context);
    return new Reactor;
  }
  std::string peer() {
    const std::lock_guard lock(mutex_);
    return peer_;
  }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor() { Finish(grpc::Status::OK); }
    void OnDone() override { delete this; }
  };

  std::mutex mutex_;
  std::string peer_;
};

class GrpcListenerTest : public testing::Test {
 protected:
  GrpcListenerTest() {
    std::string pattern = "/tmp/kerf-listener-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    const TransportLimits limits{.max_message_bytes = 1 << 20,
                                 .memory_bytes = 64 << 20,
                                 .window_bytes = 8 << 20,
                                 .max_streams = 4};
    auto listener = GrpcListener::Start(
        {"127.0.0.1:0", Cat("unix:", folder_, "/s")}, limits,
        [this](grpc::ServerBuilder& builder) { builder.RegisterCallbackGenericService(&noting_); });
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  ~GrpcListenerTest() override {
    listener_->Stop();
    std::filesystem::remove_all(folder_);
  }

  // Whose the call is for the server that it is made to.
  std::string PeerOfCall(const std::string& address, const std::string& said) {
    grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!said.empty()) context.AddMetadata(kPeerMetadata, said);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, "/any/thing", {}, &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return noting_.peer();
  }

  std::string folder_;
  Noting noting_;
  std::unique_ptr<GrpcListener> listener_;
};

TEST_F(GrpcListenerTest, WhoCallsOverTcpIsKnownByAddress) {
  const std::string peer = PeerOfCall(listener_->addresses()[0], "");
  EXPECT_THAT(peer, StartsWith("ipv4:127.0.0.1:"));
  EXPECT_NE(peer, Cat("ipv4:", listener_->addresses()[0]));
}

// What a client says of itself is not believed, wherever it comes from.
TEST_F(GrpcListenerTest, NobodySaysHimselfWhoHeIs) {
  for (const std::string said : {"ipv4:192.0.2.1:7", "0123456789abcdef0123456789abcdef x", "x"}) {
    EXPECT_THAT(PeerOfCall(listener_->addresses()[0], said), StartsWith("ipv4:127.0.0.1:")) << said;
    EXPECT_THAT(PeerOfCall(listener_->addresses()[1], said), StartsWith("unix:")) << said;
  }
}

}  // namespace
}  // namespace kerf
