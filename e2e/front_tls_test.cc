// A front and its workers over TLS, each knowing the other by its certificate.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"
#include "e2e/redis_fixture.h"
#include "kerf/v1/routing.grpc.pb.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

// A guard against a hang, not a measure.
constexpr std::chrono::seconds kPatience{30};
// Files are in force once two looks have seen the same; and some time for a busy machine.
constexpr milliseconds kReloaded = 2 * kTlsReloadInterval + milliseconds(1'500);

class FrontTlsTest : public RedisTest {
 protected:
  FrontTlsTest() : RedisTest(/*file_bytes=*/3'000'000) {
    Write("ca.pem", all_.ca.certificate);
    WriteKey("w0", KeyOf("w0"));
    WriteKey("w1", KeyOf("w1"));
    WriteKey("front", KeyOf("front"));
  }

  // By rename, as whoever renews certificates does it.
  void Write(const std::string& name, const std::string& text) {
    const std::string path = world_ / name;
    WriteTlsFile(path + ".new", text);
    ASSERT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
  }
  void WriteKey(const std::string& name, const CertifiedKey& key) {
    Write(name + ".pem", key.certificate);
    Write(name + ".key", key.key);
  }
  CertifiedKey KeyOf(const std::string& name, const std::string& host = "127.0.0.1") {
    return all_.Of(name, {host, Cat("spiffe://kerf.test/", name)}, true, true);
  }
  std::vector<std::string> TlsFlags(const std::string& name) {
    return {"--tls-cert",      Cat(world_ / name, ".pem"), "--tls-key", Cat(world_ / name, ".key"),
            "--tls-client-ca", world_ / "ca.pem"};
  }

  // Where it serves over TCP, and thus TLS.
  std::string StartWorker(const std::string& name) {
    std::vector<std::string> flags = TlsFlags(name);
    for (const std::string& flag : Flags(redis_, "0")) flags.push_back(flag);
    flags.insert(flags.end(),
                 {"--role", "worker", "--worker-name", name, "--listen", "127.0.0.1:0"});
    programs_.push_back(world_.StartKerfd(name, flags));
    return programs_.back() == nullptr ? "" : world_.LastAddressOf(name);
  }
  void StartFront(const std::vector<std::string>& workers,
                  const std::vector<std::string>& more_flags = {}) {
    std::vector<std::string> flags = TlsFlags("front");
    flags.insert(flags.end(), {"--role", "front", "--worker-check-ms", "200", "--worker-tls-ca",
                               world_ / "ca.pem", "--listen", "127.0.0.1:0"});
    for (const std::string& worker : workers) flags.insert(flags.end(), {"--workers", worker});
    flags.insert(flags.end(), more_flags.begin(), more_flags.end());
    front_ = world_.StartKerfd("f0", flags);
    world_.SetEnvironment("KERF_SERVER", World::AddressOf("f0"));
  }
  std::string StopFront() {
    front_->Signal(SIGTERM);
    return front_->Wait().err;
  }
  // A new connection to the front, with a certificate of now.
  std::shared_ptr<grpc::Channel> ConnectOverTls() {
    const std::lock_guard lock(mutex_);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        world_.LastAddressOf("f0"),
        grpc::SslCredentials({.pem_root_certs = all_.ca.certificate,
                              .pem_private_key = all_.client.key,
                              .pem_cert_chain = all_.client.certificate}),
        arguments);
  }
  // Why each has no calls; empty for those that have. Nothing: the front does not say.
  std::vector<std::string> LostWorkers() {
    const auto stub = v1::RoutingService::NewStub(ConnectOverTls());
    grpc::ClientContext context;
    v1::ListWorkersResponse response;
    std::vector<std::string> lost;
    if (!stub->ListWorkers(&context, {}, &response).ok()) return lost;
    for (const v1::WorkerState& worker : response.workers()) lost.push_back(worker.lost());
    return lost;
  }

  TestRedis redis_{TestRedis::Kind::kSingle};
  std::mutex mutex_;
  TestCertificates all_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::unique_ptr<Program> front_;
};

TEST_F(FrontTlsTest, WhatIsBackedUpThroughItComesBackByteForByte) {
  const std::vector<std::string> workers = {StartWorker("w0"), StartWorker("w1")};
  StartFront(workers);
  ASSERT_NE(front_, nullptr);
  EXPECT_GT(BackupAll()["new_bytes"], 9'000'000);
  ExpectNothingNew();
  ExpectAllThere();
  // Straight to the worker, where it speaks with TLS, too; else through the front.
  world_.Backup({tree_, "--force", "--direct"});
  ExpectAllThere();
  // Who goes straight is told where the worker is to be found with its certificate.
  const auto stub = v1::RoutingService::NewStub(ConnectOverTls());
  for (int number = 0; number < 8; ++number) {
    grpc::ClientContext context;
    v1::LocateRequest request;
    request.set_shard_key(Cat("key-", number));
    v1::LocateResponse response;
    const grpc::Status status = stub->Locate(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_THAT(workers, testing::Contains(response.address()));
  }
  const std::string log = StopFront();
  EXPECT_THAT(log, HasSubstr("as a front of 2 workers"));
}

// Addresses change and names do not: nobody needs a certificate of an address.
TEST_F(FrontTlsTest, WhoGoesStraightKnowsAWorkerByTheNameByWhichItsFrontDoes) {
  WriteKey("w0", KeyOf("w0", "workers.example"));
  StartFront({StartWorker("w0")}, {"--worker-tls-name", "workers.example"});
  ASSERT_NE(front_, nullptr);
  world_.SetEnvironment("KERF_SERVER", world_.LastAddressOf("f0"));
  world_.SetEnvironment("KERF_TLS_CA", world_ / "ca.pem");
  WriteKey("agent", all_.client);
  world_.SetEnvironment("KERF_TLS_CERT", world_ / "agent.pem");
  world_.SetEnvironment("KERF_TLS_KEY", world_ / "agent.key");
  const nlohmann::json backup = world_.Backup({tree_, "--direct"});
  EXPECT_EQ(backup["detour"], "");
  EXPECT_EQ(backup["direct_streams"], backup["streams"]);
  EXPECT_GT(backup["streams"], 0);
  ExpectAllThere();
}

TEST_F(FrontTlsTest, AWorkerOfAnotherCaOrNameIsNotUsed) {
  const TestCertificates others;
  WriteKey("w1", others.Of("w1", {"127.0.0.1"}, true, true));
  WriteKey("w2", KeyOf("w2", "127.0.0.2"));
  StartFront({StartWorker("w0"), StartWorker("w1"), StartWorker("w2")});
  ASSERT_NE(front_, nullptr);
  EXPECT_THAT(LostWorkers(),
              testing::ElementsAre("", HasSubstr("certificate"), HasSubstr("certificate")));
  BackupAll();
  ExpectAllThere();
  const std::string log = StopFront();
  EXPECT_THAT(log, HasSubstr("is not used: TLS: its certificate is of no CA in --worker-tls-ca"));
  EXPECT_THAT(log, HasSubstr("is not used: TLS: its certificate is not of 127.0.0.1"));
}

TEST_F(FrontTlsTest, FilesThatAreOfNoUseKeepItFromStarting) {
  Write("half.pem", all_.ca.certificate.substr(0, 200));
  for (const char* name : {"none.pem", "half.pem"}) {
    const Completed end = world_.Run({BuiltProgram("server/kerfd"), "--role", "front", "--listen",
                                      World::AddressOf("f1"), "--workers", "127.0.0.1:1",
                                      "--worker-tls-ca", world_ / name});
    EXPECT_NE(end.exit_code, 0);
    EXPECT_THAT(end.err, HasSubstr(world_ / name));
  }
}

// Old ones and new ones are valid at once, as with whoever renews before it is too late; the CA is
// renewed in the same way: first both are known, then all certificates are of the new one.
TEST_F(FrontTlsTest, AllCertificatesAreRenewedUnderLoadAndNoStreamFails) {
  StartFront({StartWorker("w0"), StartWorker("w1")});
  ASSERT_NE(front_, nullptr);
  std::atomic<bool> is_stopping{false};
  std::atomic<int> stream_count{0};
  std::vector<std::string> failures;
  const std::string content = [this] {
    std::string bytes(500'000, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    return bytes;
  }();
  const v1::Open open = OpenFor("rotation");
  const std::vector<RecipeChunk> recipe = PlainRecipe(content, open);
  std::vector<std::thread> clients;
  clients.reserve(3);
  for (int client = 0; client < 3; ++client) {
    clients.emplace_back([&, client] {
      for (int number = 0; !is_stopping; ++number) {
        TestUpload upload(ConnectOverTls(), /*read=*/true, Cat("key-", client, "-", number));
        upload.SendOpen(open);
        upload.SendFile(content, 50'000);
        const bool is_answered = upload.WaitForChunks(1, content.size());
        upload.CommitAnswered();
        const bool is_done = is_answered && upload.WaitForDone(1);
        upload.WritesDone();
        const grpc::Status end = upload.WaitForEnd();
        ++stream_count;
        if (is_done && end.ok() && upload.RecipeOf(1) == recipe) continue;
        const std::lock_guard lock(mutex_);
        failures.push_back(
            Cat(number, ": ", static_cast<int>(end.error_code()), " ", end.error_message()));
      }
    });
  }
  const auto renew_all = [&] {
    for (const char* name : {"w0", "w1", "front"}) WriteKey(name, KeyOf(name));
    std::this_thread::sleep_for(kReloaded);
  };
  renew_all();
  const TestCertificates next;
  const std::string old_ca = all_.ca.certificate;
  Write("ca.pem", old_ca + next.ca.certificate);
  std::this_thread::sleep_for(kReloaded);
  {
    const std::lock_guard lock(mutex_);
    all_.client = next.client;
    all_.ca.certificate = old_ca + next.ca.certificate;
  }
  for (const char* name : {"w0", "w1", "front"}) {
    WriteKey(name, next.Of(name, {"127.0.0.1"}, true, true));
  }
  std::this_thread::sleep_for(kReloaded);
  Write("ca.pem", next.ca.certificate);
  std::this_thread::sleep_for(kReloaded);
  is_stopping = true;
  for (std::thread& client : clients) client.join();
  EXPECT_THAT(failures, testing::IsEmpty());
  EXPECT_GT(stream_count.load(), 10);
  EXPECT_THAT(LostWorkers(), testing::ElementsAre("", ""));
  EXPECT_THAT(StopFront(), HasSubstr("TLS to workers has changed with its files"));
}

// Whoever comes back, comes back to the certificates of then.
TEST_F(FrontTlsTest, AWorkerThatHasStartedAgainIsFoundWithNewCertificates) {
  const std::string address = StartWorker("w0");
  StartFront({address});
  ASSERT_NE(front_, nullptr);
  const TestCertificates next;
  Write("ca.pem", next.ca.certificate);
  WriteKey("w0", next.Of("w0", {"127.0.0.1"}, true, true));
  WriteKey("front", next.Of("front", {"127.0.0.1"}, true, true));
  programs_[0]->Signal(SIGTERM);
  EXPECT_EQ(programs_[0]->Wait().exit_code, 0);
  std::vector<std::string> flags = TlsFlags("w0");
  for (const std::string& flag : Flags(redis_, "0")) flags.push_back(flag);
  flags.insert(flags.end(), {"--role", "worker", "--worker-name", "w0", "--listen", address});
  programs_[0] = world_.StartKerfd("w0", flags);
  ASSERT_NE(programs_[0], nullptr);
  all_ = next;
  const auto deadline = steady_clock::now() + kPatience;
  std::vector<std::string> lost = LostWorkers();
  while ((lost.empty() || !lost[0].empty()) && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(100));
    lost = LostWorkers();
  }
  EXPECT_THAT(lost, testing::ElementsAre(""));
  BackupAll();
  ExpectAllThere();
}

}  // namespace
}  // namespace kerf::e2e
