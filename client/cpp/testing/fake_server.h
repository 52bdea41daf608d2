// A server of the Chunking service that says what a test tells it to say, lies included.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "kerf/v1/chunking.grpc.pb.h"

namespace kerf::client {

// Listens on a free port of this machine until it is destroyed.
class FakeServer final : public v1::ChunkingService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::UploadResponse, v1::UploadRequest>;
  // Has one Upload call; on the call's own thread, of several calls at once.
  using Script = std::function<grpc::Status(grpc::ServerContext&, Stream&)>;

  // `more` is another service of the same server, which must outlive it; null: there is none.
  explicit FakeServer(Script script, grpc::Service* more = nullptr,
                      const std::shared_ptr<grpc::ServerCredentials>& credentials =
                          grpc::InsecureServerCredentials())
      : script_(std::move(script)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    builder.RegisterService(this);
    if (more != nullptr) builder.RegisterService(more);
    server_ = builder.BuildAndStart();
    KERF_CHECK(server_ != nullptr);
  }
  ~FakeServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return Cat("127.0.0.1:", port_); }

  grpc::Status Upload(grpc::ServerContext* context, Stream* stream) override {
    return script_(*context, *stream);
  }

  // As kerfd ends a call, with a reason of docs/spec/protocol.md; a front names a worker with it.
  static grpc::Status Refusal(grpc::StatusCode code, const std::string& reason,
                              const std::string& worker = "") {
    google::rpc::Status details;
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    if (!worker.empty()) (*info.mutable_metadata())["worker"] = worker;
    info.set_domain("kerf");
    details.add_details()->PackFrom(info);
    return {code, Cat("no: ", reason), details.SerializeAsString()};
  }

  // Says nothing until the client gives up.
  static grpc::Status StaySilent(const grpc::ServerContext& context) {
    while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grpc::Status::CANCELLED;
  }

 private:
  const Script script_;
  int port_ = 0;
  // Last: its calls use all of the above.
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace kerf::client
