// kerfd whose Redis has lost a part: who does not need that part gets on.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/cpp/channel.h"
#include "e2e/redis_fixture.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/redis/testing/test_redis.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// Nobody takes over from whoever is silent.
constexpr int kNodeTimeoutMs = 300'000;
constexpr int kIndexTimeoutMs = 16'000;
// Less than that, and more than a busy machine needs for a large call, with a sanitizer, too.
constexpr milliseconds kSoon{12'000};
// Of a repository that is looked for: a slow answer only means the next one.
constexpr milliseconds kPatience{4'000};
// 2.1 MiB, as encoded.
constexpr int kManyDigests = 65'000;

class CutOffTest : public RedisTest {
 protected:
  CutOffTest() : RedisTest(1) {
    std::vector<std::string> flags = Flags(redis_, "1");
    flags.insert(flags.end(), {"--index-timeout-ms", Cat(kIndexTimeoutMs)});
    world_.StartServer(flags);
    // The socket's path is relative to the folder of the world, and the tool of Redis' to this one.
    const std::filesystem::path here = std::filesystem::current_path();
    std::filesystem::current_path(world_.path());
    const std::shared_ptr<grpc::Channel> channel = *client::OpenChannel({world_.address()});
    EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + seconds(20)));
    std::filesystem::current_path(here);
    stub_ = v1::IndexService::NewStub(channel);
  }
  ~CutOffTest() override {
    for (std::thread& thread : threads_) thread.join();
  }

  static v1::RepositoryRef Repository(const std::string& name) {
    v1::RepositoryRef repository;
    repository.set_repository(name);
    repository.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    return repository;
  }
  std::string RandomDigest() {
    std::string digest(32, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(digest.data()), digest.size()});
    return digest;
  }
  // A repository with one entry.
  void Make(const std::string& name, const std::string& digest) {
    v1::CommitChunksRequest request;
    *request.mutable_repository() = Repository(name);
    request.set_store_epoch(1);
    v1::IndexEntry& entry = *request.add_entries();
    entry.set_digest(digest);
    entry.set_length_bytes(5);
    entry.set_locator("somewhere");
    v1::CommitChunksResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub_->CommitChunks(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  grpc::Status LookUp(const std::string& name, const std::vector<std::string>& digests,
                      milliseconds patience) {
    v1::LookupChunksRequest request;
    *request.mutable_repository() = Repository(name);
    request.set_store_epoch(1);
    for (const std::string& digest : digests) request.add_digests(digest);
    v1::LookupChunksResponse response;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    return stub_->LookupChunks(&context, request, &response);
  }
  // Begins a lookup that needs every master.
  void BeginLookUp(const std::string& name) {
    std::vector<std::string> digests(kManyDigests);
    for (std::string& digest : digests) digest = RandomDigest();
    threads_.emplace_back([this, name, digests = std::move(digests)] {
      const auto began = steady_clock::now();
      EXPECT_FALSE(LookUp(name, digests, seconds(60)).ok());
      EXPECT_GE(steady_clock::now() - began, milliseconds(kIndexTimeoutMs) / 2)
          << "it did not wait";
    });
  }

  TestRedis redis_{TestRedis::Kind::kCluster, "", kNodeTimeoutMs};
  std::unique_ptr<v1::IndexService::Stub> stub_;
  std::vector<std::thread> threads_;
};

TEST_F(CutOffTest, WhoNeedsOnlyWhatIsThereGetsOn) {
  ASSERT_FALSE(HasFatalFailure());
  std::vector<std::string> well_digests;
  for (int number = 0; number < 20; ++number) {
    well_digests.push_back(RandomDigest());
    Make(Cat("well-", number), well_digests.back());
  }
  for (int number = 0; number < 4; ++number) Make(Cat("cut-off-", number), RandomDigest());
  redis_.Do({"pause", "1"});
  // One all of which lies with masters that are there.
  int well = 0;
  while (
      well < 20 &&
      !LookUp(Cat("well-", well), {well_digests[static_cast<std::size_t>(well)]}, kPatience).ok()) {
    ++well;
  }
  ASSERT_LT(well, 20);
  const std::string name = Cat("well-", well);
  const std::string& digest = well_digests[static_cast<std::size_t>(well)];
  // Of one store, then of several: more than there is room for.
  for (int number = 0; number < 12; ++number) {
    BeginLookUp(Cat("cut-off-", number < 6 ? 0 : number % 4));
  }
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_TRUE(LookUp(name, {digest}, kSoon).ok());
  const grpc::Status large = LookUp(name, std::vector<std::string>(kManyDigests, digest), kSoon);
  EXPECT_TRUE(large.ok()) << large.error_message();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  redis_.Do({"resume", "1"});
}

}  // namespace
}  // namespace kerf::e2e
