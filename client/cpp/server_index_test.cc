// What is made of the answers of a server that is broken, or of another version.
#include "client/cpp/server_index.h"

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
#include "base/strings.h"
#include "client/cpp/channel.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace kerf::client {
namespace {

constexpr char kRepository[] = "a-store";

// Says what a test tells it to say.
class LyingIndex final : public v1::IndexService::Service {
 public:
  LyingIndex() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    KERF_CHECK(server_ != nullptr);
  }
  ~LyingIndex() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return Cat("127.0.0.1:", port_); }

  grpc::Status LookupChunks(grpc::ServerContext*, const v1::LookupChunksRequest* request,
                            v1::LookupChunksResponse* response) override {
    on_lookup(*request, *response);
    return grpc::Status::OK;
  }
  grpc::Status ScanChunks(grpc::ServerContext*, const v1::ScanChunksRequest* request,
                          v1::ScanChunksResponse* response) override {
    on_scan(*request, *response);
    return grpc::Status::OK;
  }
  grpc::Status ForgetOlderChunks(grpc::ServerContext*, const v1::ForgetOlderChunksRequest* request,
                                 v1::ForgetOlderChunksResponse* response) override {
    on_forget_older(*request, *response);
    return grpc::Status::OK;
  }

  grpc::Status AdvanceEpoch(grpc::ServerContext*, const v1::AdvanceEpochRequest* request,
                            v1::AdvanceEpochResponse* response) override {
    return on_advance(*request, *response);
  }

  std::function<grpc::Status(const v1::AdvanceEpochRequest&, v1::AdvanceEpochResponse&)> on_advance;
  std::function<void(const v1::LookupChunksRequest&, v1::LookupChunksResponse&)> on_lookup;
  std::function<void(const v1::ScanChunksRequest&, v1::ScanChunksResponse&)> on_scan;
  std::function<void(const v1::ForgetOlderChunksRequest&, v1::ForgetOlderChunksResponse&)>
      on_forget_older;

 private:
  int port_ = 0;
  // Last: its calls use all of the above.
  std::unique_ptr<grpc::Server> server_;
};

class ServerIndexTest : public testing::Test {
 protected:
  static Digest DigestOf(char letter) {
    Digest digest;
    digest.bytes.fill(static_cast<std::uint8_t>(letter));
    return digest;
  }

  LyingIndex server_;
  ServerIndex index_{*OpenChannel({server_.address()}), kRepository, DigestAlgorithm::kBlake3};
};

TEST_F(ServerIndexTest, PagesOfAScanAreReadAsTheyAreMeant) {
  server_.on_scan = [&](const v1::ScanChunksRequest& request, v1::ScanChunksResponse& response) {
    EXPECT_EQ(request.repository().repository(), kRepository);
    EXPECT_EQ(request.after(), std::string(32, 'a'));
    EXPECT_EQ(request.limit(), agent::kMaxIndexBatch);
    for (const char letter : {'b', 'c'}) {
      v1::IndexEntry& entry = *response.add_entries();
      entry.set_digest(std::string(32, letter));
      entry.set_length_bytes(7);
      entry.set_locator("at");
    }
  };
  const auto page = index_.ScanPage(DigestOf('a'));
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->size(), 2u);
  EXPECT_EQ((*page)[1].digest, DigestOf('c'));
  EXPECT_EQ((*page)[1].length_bytes, 7u);
  EXPECT_EQ((*page)[1].locator, "at");
}

grpc::Status IndexUnavailable() {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  info.set_reason("INDEX_UNAVAILABLE");
  info.set_domain("kerf");
  details.add_details()->PackFrom(info);
  return {grpc::StatusCode::UNAVAILABLE, "no answer", details.SerializeAsString()};
}

TEST_F(ServerIndexTest, AnEpochThatTakesLongIsToldAgain) {
  index_.SetWorkTime(std::chrono::milliseconds(20));
  int count = 0;
  server_.on_advance = [&](const v1::AdvanceEpochRequest& request,
                           v1::AdvanceEpochResponse& response) -> grpc::Status {
    EXPECT_EQ(request.store_epoch(), 7u);
    EXPECT_EQ(request.min_previous_epoch(), 5u);
    if (++count < 4) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      return IndexUnavailable();
    }
    response.set_previous_epoch(6);
    return grpc::Status::OK;
  };
  const auto before = index_.AdvanceEpoch(7, 5);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(*before, 6u);
  EXPECT_EQ(count, 4);
}

// Nor what is refused, whatever time that takes.
TEST_F(ServerIndexTest, AnEpochIsNotToldAgainWhereNothingWasDone) {
  for (const bool is_late : {false, true}) {
    index_.SetWorkTime(std::chrono::milliseconds(is_late ? 20 : 60'000));
    int count = 0;
    server_.on_advance = [&](const v1::AdvanceEpochRequest&,
                             v1::AdvanceEpochResponse&) -> grpc::Status {
      ++count;
      std::this_thread::sleep_for(std::chrono::milliseconds(is_late ? 30 : 0));
      return is_late ? grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "behind")
                     : IndexUnavailable();
    };
    EXPECT_FALSE(index_.AdvanceEpoch(7, 5).ok());
    EXPECT_EQ(count, 1);
  }
}

TEST_F(ServerIndexTest, WhereOneServerHasNoIndexTheNextOneIsAsked) {
  LyingIndex other;
  ServerIndex index(*OpenChannels({Cat(server_.address(), ",", other.address())}), kRepository,
                    DigestAlgorithm::kBlake3);
  int asked_count = 0;
  server_.on_advance = [&](const v1::AdvanceEpochRequest&, v1::AdvanceEpochResponse&) {
    ++asked_count;
    return IndexUnavailable();
  };
  other.on_advance = [](const v1::AdvanceEpochRequest&, v1::AdvanceEpochResponse& response) {
    response.set_previous_epoch(6);
    return grpc::Status::OK;
  };
  for (int round = 0; round < 2; ++round) {
    const auto previous = index.AdvanceEpoch(7, 5);
    ASSERT_TRUE(previous.ok()) << previous.status();
    EXPECT_EQ(*previous, 6u);
  }
  EXPECT_EQ(asked_count, 1) << "who has none is not asked again";
}

TEST_F(ServerIndexTest, ACallCanBeEndedByAnotherThread) {
  const auto cancellation = std::make_shared<CallCancellation>();
  ServerIndex index(*OpenChannel({server_.address()}), kRepository, DigestAlgorithm::kBlake3,
                    {cancellation.get()});
  std::promise<void> over;
  server_.on_lookup = [cancellation, is_over = over.get_future().share()](
                          const v1::LookupChunksRequest&, v1::LookupChunksResponse&) {
    cancellation->Cancel();
    is_over.wait();
  };
  const std::vector<Digest> digests = {DigestOf('a')};
  const absl::Status running = index.Lookup(5, digests).status();
  over.set_value();
  EXPECT_TRUE(absl::IsCancelled(running)) << running;
  const absl::Status later = index.Lookup(5, digests).status();
  EXPECT_TRUE(absl::IsCancelled(later)) << later;
}

TEST_F(ServerIndexTest, AScanThatWouldNotEndIsAnError) {
  using Digests = std::vector<std::string>;
  for (const Digests& digests :
       {Digests{std::string(32, 'a')}, Digests{std::string(32, 'A')},
        Digests{std::string(32, 'c'), std::string(32, 'b')},
        Digests{std::string(32, 'c'), std::string(32, 'c')}, Digests{"short"}, Digests{""},
        Digests{std::string(33, 'c')}, Digests(agent::kMaxIndexBatch + 1, std::string(32, 'c'))}) {
    server_.on_scan = [&](const v1::ScanChunksRequest&, v1::ScanChunksResponse& response) {
      for (const std::string& digest : digests) response.add_entries()->set_digest(digest);
    };
    const auto page = index_.ScanPage(DigestOf('a'));
    EXPECT_TRUE(absl::IsDataLoss(page.status())) << page.status();
  }
}

TEST_F(ServerIndexTest, ALookupTellsTheIndexsEpoch) {
  const std::vector<Digest> digests(2);
  std::uint64_t epoch = 7;
  server_.on_lookup = [&](const v1::LookupChunksRequest& request,
                          v1::LookupChunksResponse& response) {
    for (const std::string& digest : request.digests()) {
      static_cast<void>(digest);
      response.add_answers()->set_verdict(v1::VERDICT_NEW);
    }
    response.set_index_epoch(epoch);
  };
  EXPECT_EQ(index_.looked_up_epoch(), 0u);
  ASSERT_TRUE(index_.Lookup(5, digests).ok());
  EXPECT_EQ(index_.looked_up_epoch(), 7u);
  epoch = 0;
  ASSERT_TRUE(index_.Lookup(5, digests).ok());
  EXPECT_EQ(index_.looked_up_epoch(), 0u);
}

TEST_F(ServerIndexTest, ALookupWithOtherAnswersThanQuestionsIsAnError) {
  const std::vector<Digest> digests = {DigestOf('a'), DigestOf('b')};
  for (const int count : {0, 1, 2, 3}) {
    for (const int verdict : {0, 1, 2, 3, 4, 77}) {
      server_.on_lookup = [&](const v1::LookupChunksRequest& request,
                              v1::LookupChunksResponse& response) {
        EXPECT_EQ(request.store_epoch(), 5u);
        for (int index = 0; index < count; ++index) {
          response.add_answers()->set_verdict(static_cast<v1::Verdict>(verdict));
        }
      };
      const auto answers = index_.Lookup(5, digests);
      if (count == 2 && verdict >= 1 && verdict <= 3) {
        ASSERT_TRUE(answers.ok()) << answers.status();
        EXPECT_EQ(static_cast<int>((*answers)[1].verdict), verdict);
      } else {
        EXPECT_TRUE(absl::IsDataLoss(answers.status())) << count << " " << verdict;
      }
    }
  }
}

TEST_F(ServerIndexTest, OlderEntriesAreForgottenPageAfterPage) {
  std::vector<std::string> afters;
  server_.on_forget_older = [&](const v1::ForgetOlderChunksRequest& request,
                                v1::ForgetOlderChunksResponse& response) {
    afters.push_back(request.after());
    EXPECT_EQ(request.before_epoch(), 4u);
    response.set_forgotten_count(10);
    response.set_removed_count(1);
    response.set_epoch(afters.size() == 2 ? 6 : 7);
    if (afters.size() < 3)
      response.set_last(std::string(32, static_cast<char>('a' + afters.size())));
  };
  const auto forgotten = index_.ForgetOlder(4);
  ASSERT_TRUE(forgotten.ok()) << forgotten.status();
  EXPECT_EQ(afters, (std::vector<std::string>{"", std::string(32, 'b'), std::string(32, 'c')}));
  EXPECT_EQ(forgotten->count, 30u);
  EXPECT_EQ(forgotten->removed_count, 3u);
  EXPECT_EQ(forgotten->epoch, 6u);
  server_.on_forget_older = [](const v1::ForgetOlderChunksRequest&,
                               v1::ForgetOlderChunksResponse& response) {
    response.set_last(std::string(32, 'b'));
  };
  EXPECT_TRUE(absl::IsDataLoss(index_.ForgetOlder(4).status()));
}

}  // namespace
}  // namespace kerf::client
