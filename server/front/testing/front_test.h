// A front in the process of a test, and workers that say what the test tells them to.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "server/edge/testing/test_upload.h"
#include "server/edge/testing/test_worker.h"
#include "server/front/front_server.h"

namespace kerf {

// A guard against a hang, not a measure.
inline constexpr std::chrono::seconds kPatience{30};

inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

inline std::string RandomContent(std::size_t size_bytes) {
  static Random random(TestSeed());
  std::string content(size_bytes, '\0');
  random.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
  return content;
}

// A worker that is healthy, and says otherwise what the test says.
class ScriptedWorker final : public v1::ChunkingService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::UploadResponse, v1::UploadRequest>;
  using Script = std::function<grpc::Status(grpc::ServerContext&, Stream&)>;

  // `socket` is "unix:PATH"; empty: a port of this machine.
  explicit ScriptedWorker(Script script, std::string socket = "")
      : script_(std::move(script)), socket_(std::move(socket)) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    // Windows as kerfd's: they do not grow, or a worker that reads nothing would take megabytes.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.AddListeningPort(socket_.empty() ? "127.0.0.1:0" : socket_,
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    KERF_CHECK(server_ != nullptr);
  }
  ~ScriptedWorker() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return socket_.empty() ? Cat("127.0.0.1:", port_) : socket_; }

  // As every kerfd does, by which it is known for one.
  grpc::Status GetCapabilities(grpc::ServerContext* /*context*/,
                               const v1::GetCapabilitiesRequest* /*request*/,
                               v1::GetCapabilitiesResponse* response) override {
    response->set_worker("scripted");
    return grpc::Status::OK;
  }
  grpc::Status Upload(grpc::ServerContext* context, Stream* stream) override {
    return script_(*context, *stream);
  }

 private:
  const Script script_;
  const std::string socket_;
  int port_ = 0;
  // Last: its calls use all of the above.
  std::unique_ptr<grpc::Server> server_;
};

class FrontTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const auto& front : fronts_) front->Stop();
  }

  static FrontOptions Options(const std::vector<std::string>& addresses) {
    FrontOptions options;
    options.listen = {FreshSocketAddress()};
    for (const std::string& address : addresses) {
      options.workers.workers.push_back(*routing::ParseWorkerAddress(address));
    }
    options.workers.check_times = {.interval = std::chrono::milliseconds(20),
                                   .max_interval = std::chrono::milliseconds(50)};
    return options;
  }
  FrontServer& Start(const FrontOptions& options) {
    auto front = FrontServer::Start(options);
    KERF_CHECK(front.ok());
    fronts_.push_back(*std::move(front));
    return *fronts_.back();
  }
  std::shared_ptr<grpc::Channel> StartAndConnect(const FrontOptions& options) {
    return ConnectTo(Start(options).addresses()[0]);
  }
  FrontServer& front() { return *fronts_.back(); }

  // The worker that a stream with this key meets.
  static std::string WorkerOf(const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& key) {
    TestUpload upload(channel, /*read=*/true, key);
    upload.SendOpen(OpenFor("home"));
    const auto opened = upload.WaitForAnswer(&v1::UploadAnswer::has_opened);
    return opened.has_value() ? opened->opened().worker() : "";
  }
  static int HealthOf(const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& service = "") {
    grpc::TemplatedGenericStub<google::protobuf::MessageLite, google::protobuf::MessageLite> stub(
        channel);
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    std::promise<grpc::Status> ended;
    stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                   [&](const grpc::Status& status) { ended.set_value(status); });
    return ended.get_future().get().ok() ? response.status() : -1;
  }

  // With an empty message, and whatever it is answered.
  static grpc::Status CallUnary(const std::shared_ptr<grpc::Channel>& channel,
                                const std::string& method) {
    grpc::ClientContext context;
    const grpc::Slice nothing("");
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> ended;
    grpc::GenericStub(channel).UnaryCall(
        &context, method, {}, &request, &response,
        [&](const grpc::Status& status) { ended.set_value(status); });
    return ended.get_future().get();
  }

  std::vector<std::unique_ptr<FrontServer>> fronts_;
};

}  // namespace kerf
