// Messages that unpack to 158 times their size, at kerfd, at a front and at `kerf`: nobody unpacks
// them.
#include "e2e/bomb.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "e2e/world.h"
#include "kerf/v1/chunking.pb.h"
#include "kerf/v1/index.pb.h"
#include "kerf/v1/routing.pb.h"
#include "kerf/v1/status.pb.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {
namespace {

using testing::HasSubstr;

// The largest that kerfd reads; 630 MiB for whoever unpacks it.
constexpr std::size_t kBombBytes = 4 << 20;
// Small enough to be there before a front gives up on an answer.
constexpr std::size_t kQuickBombBytes = 1 << 20;
constexpr std::size_t kBombs = 64;
constexpr std::uint64_t kMaxGrowthMiB = 64;
// A guard against a hang; all of it takes a second or two.
constexpr std::chrono::seconds kPatience{60};

constexpr grpc_compression_algorithm kAlgorithms[] = {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE};

// All that a kerfd serves, whatever its role, and one that nobody does.
std::vector<std::string> AllMethods() {
  std::vector<std::string> methods = {
      "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/nobody/serves.this"};
  for (const google::protobuf::FileDescriptor* file :
       {v1::UploadRequest::descriptor()->file(), v1::LookupChunksRequest::descriptor()->file(),
        v1::LocateRequest::descriptor()->file(), v1::GetStatusRequest::descriptor()->file()}) {
    EXPECT_GT(file->service_count(), 0);
    for (int index = 0; index < file->service_count(); ++index) {
      const google::protobuf::ServiceDescriptor& service = *file->service(index);
      for (int method = 0; method < service.method_count(); ++method) {
        methods.push_back(Cat("/", service.full_name(), "/", service.method(method)->name()));
      }
    }
  }
  return methods;
}

// Calls that each send a bomb, all at once. How each ended, by method and code.
class Bombardment {
 public:
  Bombardment(const std::string& address, grpc_compression_algorithm algorithm)
      : bomb_(MakeBomb(algorithm, kBombBytes)), algorithm_(algorithm), stub_(ConnectTo(address)) {}

  void Send(const std::string& method) {
    auto call = std::make_unique<Call>();
    call->context.set_compression_algorithm(algorithm_);
    call->context.set_deadline(std::chrono::system_clock::now() + kPatience);
    Call& added = *call;
    calls_.push_back(std::move(call));
    stub_.UnaryCall(&added.context, method, {}, &bomb_, &added.response,
                    [this, method](const grpc::Status& status) {
                      const std::lock_guard lock(mutex_);
                      ++ends_[Cat(method, " ", static_cast<int>(status.error_code()))];
                      ++end_count_;
                      ended_.notify_all();
                    });
  }
  std::map<std::string, std::size_t> AwaitEnds() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return end_count_ == calls_.size(); });
    return ends_;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
  };

  const grpc::ByteBuffer bomb_;
  const grpc_compression_algorithm algorithm_;
  grpc::GenericStub stub_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, std::size_t> ends_;
  std::size_t end_count_ = 0;
};

// Answers every call with a bomb, once it is armed.
class BombingServer {
 public:
  explicit BombingServer(std::size_t packed_bytes)
      : bomb_(MakeBomb(GRPC_COMPRESS_GZIP, packed_bytes)), service_(*this) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~BombingServer() { server_->Shutdown(std::chrono::system_clock::now()); }
  BombingServer(const BombingServer&) = delete;
  BombingServer& operator=(const BombingServer&) = delete;

  std::string address() const { return Cat("127.0.0.1:", port_); }
  void Arm() { is_armed_ = true; }
  std::size_t bomb_count() const { return bomb_count_; }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor(grpc::GenericCallbackServerContext& context, BombingServer& server) {
      if (!server.is_armed_) {
        Finish({grpc::StatusCode::UNAVAILABLE, "not yet"});
        return;
      }
      ++server.bomb_count_;
      context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
      StartWriteAndFinish(&server.bomb_, {}, grpc::Status::OK);
    }
    void OnDone() override { delete this; }
  };
  class Service final : public grpc::CallbackGenericService {
   public:
    explicit Service(BombingServer& server) : server_(server) {}
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* context) override {
      return new Reactor(*context, server_);
    }

   private:
    BombingServer& server_;
  };

  const grpc::ByteBuffer bomb_;
  std::atomic<bool> is_armed_{false};
  std::atomic<std::size_t> bomb_count_{0};
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class BombTest : public testing::Test {
 protected:
  static constexpr const char* kWorker = "w";
  static constexpr const char* kFront = "f";

  std::unique_ptr<Program> StartFront(const std::string& worker) {
    return world_.StartKerfd(kFront, {"--role", "front", "--workers", worker, "--worker-check-ms",
                                      "100", "--listen", "127.0.0.1:0"});
  }
  // Whoever asks is served.
  void ExpectServed(const std::string& address) {
    const Completed ping = world_.Kerf({"ping", "--server", address});
    EXPECT_EQ(ping.exit_code, 0) << ping.err;
  }
  void ExpectRefused(const Program& kerfd, const std::string& address) {
    ExpectServed(address);
    const std::uint64_t before_mib = kerfd.PeakResidentMiB();
    const std::vector<std::string> methods = AllMethods();
    for (const grpc_compression_algorithm algorithm : kAlgorithms) {
      SCOPED_TRACE(algorithm);
      Bombardment bombardment(address, algorithm);
      std::map<std::string, std::size_t> wanted;
      for (std::size_t number = 0; number < kBombs; ++number) {
        const std::string& method = methods[number % methods.size()];
        bombardment.Send(method);
        ++wanted[Cat(method, " ", static_cast<int>(grpc::StatusCode::UNIMPLEMENTED))];
      }
      EXPECT_EQ(bombardment.AwaitEnds(), wanted);
      EXPECT_LT(kerfd.PeakResidentMiB(), before_mib + kMaxGrowthMiB);
      if (HasFailure()) return;
    }
    ExpectServed(address);
  }

  World world_;
};

TEST_F(BombTest, AtKerfdAreRefusedByEachMethodAndNotUnpacked) {
  const auto kerfd = world_.StartKerfd(
      kWorker, {"--listen", "127.0.0.1:0", "--data-dir", world_ / "server/worker"});
  ASSERT_NE(kerfd, nullptr);
  ExpectRefused(*kerfd, world_.LastAddressOf(kWorker));
}

TEST_F(BombTest, AtAFrontAreRefusedByEachMethodAndNotUnpacked) {
  const auto worker = world_.StartKerfd(kWorker, {"--data-dir", world_ / "server/worker"});
  ASSERT_NE(worker, nullptr);
  const auto front = StartFront(World::AddressOf(kWorker));
  ASSERT_NE(front, nullptr);
  ExpectRefused(*front, world_.LastAddressOf(kFront));
}

TEST_F(BombTest, FromAWorkerAreNotUnpackedByItsFront) {
  BombingServer worker(kQuickBombBytes);
  const auto front = StartFront(worker.address());
  ASSERT_NE(front, nullptr);
  const std::uint64_t before_mib = front->PeakResidentMiB();
  worker.Arm();
  // Questions about its health.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (worker.bomb_count() < 4 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(worker.bomb_count(), 4u);
  EXPECT_LT(front->PeakResidentMiB(), before_mib + kMaxGrowthMiB);
}

TEST_F(BombTest, FromAServerAreNotUnpackedByKerf) {
  const Completed help = world_.Kerf({"--help"});
  BombingServer server(kBombBytes);
  server.Arm();
  const Completed ping = world_.Kerf({"ping", "--server", server.address()});
  EXPECT_NE(ping.exit_code, 0);
  EXPECT_THAT(ping.err, HasSubstr("gzip"));
  EXPECT_LT(ping.peak_resident_mib, help.peak_resident_mib + kMaxGrowthMiB);
}

}  // namespace
}  // namespace kerf::e2e
