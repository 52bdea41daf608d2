#include "client/lab/bench/raw_peer.h"

#include <grpc/grpc.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/strings.h"

namespace kerf::bench {
namespace {

// kerfd's own, for 1,024 streams and 1 GiB (server/edge/server.cc).
constexpr int kWindowBytes = 512 * 1024;
constexpr std::size_t kQuotaBytes = std::size_t{1} << 30;
constexpr int kMaxMessageBytes = (4 << 20) + (64 << 10);

class SinkStream final : public grpc::ServerGenericBidiReactor {
 public:
  SinkStream() { StartRead(&message_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::OK);
      return;
    }
    received_bytes_ += message_.Length();
    // As kerfd does, to reach the bytes.
    std::vector<grpc::Slice> slices;
    if (!message_.Dump(&slices).ok()) {
      Finish({grpc::StatusCode::INTERNAL, "a message whose bytes cannot be read"});
      return;
    }
    std::string answer(std::max(message_.Length() / kRawAnswerShare, sizeof received_bytes_), 0);
    std::memcpy(answer.data(), &received_bytes_, sizeof received_bytes_);
    message_.Clear();
    const grpc::Slice slice(answer);
    answer_ = grpc::ByteBuffer(&slice, 1);
    StartWrite(&answer_);
  }

  void OnWriteDone(bool ok) override {
    answer_.Clear();
    if (ok) {
      StartRead(&message_);
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }

  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer message_;
  grpc::ByteBuffer answer_;
  std::uint64_t received_bytes_ = 0;
};

class SinkService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* /*context*/) override {
    return new SinkStream;
  }
};

absl::Status WriteReadyFile(const std::string& path, const std::string& address) {
  const std::string temporary = path + ".new";
  std::ofstream file(temporary);
  file << address << "\n";
  file.close();
  if (file.good() && std::rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::InternalError(ToAbsl(Cat("cannot write ", path)));
}

}  // namespace

absl::Status ServeRaw(const std::string& address, const std::string& ready_file) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  SinkService service;
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("kerf-raw");
  quota.Resize(kQuotaBytes);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError(ToAbsl(Cat("the raw peer cannot listen on ", address)));
  }
  const bool is_unix = address.starts_with("unix:");
  const absl::Status written = WriteReadyFile(
      ready_file, is_unix ? address : Cat(address.substr(0, address.rfind(':') + 1), port));
  if (written.ok()) {
    int signal_number = 0;
    sigwait(&signals, &signal_number);
  }
  server->Shutdown(std::chrono::system_clock::now());
  return written;
}

}  // namespace kerf::bench
