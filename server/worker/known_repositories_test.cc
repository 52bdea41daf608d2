#include "server/worker/known_repositories.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/strings.h"
#include "base/wait_for.h"
#include "server/errors/errors.h"
#include "server/index/forwarding_index.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

const RepositoryId kHome{"home", DigestAlgorithm::kBlake3};

class CountingIndex final : public ForwardingIndex {
 public:
  CountingIndex() : ForwardingIndex(CreateMemoryIndex()) {}
  Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& repository) override {
    ++asked_count;
    if (!failure.ok()) return failure;
    return ForwardingIndex::IsCreated(repository);
  }
  Task<absl::StatusOr<bool>> IsThere(const RepositoryId& repository) override {
    ++looked_count;
    if (!failure.ok()) return failure;
    return ForwardingIndex::IsThere(repository);
  }
  int asked_count = 0;
  int looked_count = 0;
  absl::Status failure;
};

class KnownRepositoriesTest : public testing::Test {
 protected:
  std::string Check(const RepositoryId& repository = kHome) {
    const absl::Status status = WaitFor(known_.Check(repository));
    return status.ok() ? "OK" : ReasonNameOf(status);
  }

  CountingIndex index_;
  TimePoint now_{std::chrono::hours(1)};
  const Clock clock_ = [this] { return now_; };
  KnownRepositories known_{&index_, &clock_, {.life = std::chrono::seconds(10), .capacity = 3}};
  KnownRepositories any_{
      &index_, &clock_, {.only_created = false, .life = std::chrono::seconds(10), .capacity = 3}};
};

TEST_F(KnownRepositoriesTest, OnlyThoseThatWereCreated) {
  EXPECT_EQ(Check(), "NOT_YOURS");
  // Met is not created.
  ASSERT_TRUE(WaitFor(index_.AdvanceEpoch(kHome, 1, 0)).ok());
  const absl::Status met = WaitFor(known_.Check(kHome));
  EXPECT_EQ(ReasonNameOf(met), "NOT_YOURS");
  EXPECT_EQ(met.code(), absl::StatusCode::kPermissionDenied);
  // The same words for one that is there and one that is not.
  EXPECT_EQ(met, WaitFor(known_.Check({"nowhere", DigestAlgorithm::kBlake3})));
  EXPECT_EQ(MessageOf(met).find("home"), std::string_view::npos);
  ASSERT_TRUE(WaitFor(index_.Create(kHome)).ok());
  EXPECT_EQ(Check(), "OK");
  EXPECT_EQ(Check({"home", DigestAlgorithm::kSha256}), "NOT_YOURS");
}

TEST_F(KnownRepositoriesTest, WhatIsCreatedIsAskedForOnceInAWhile) {
  ASSERT_TRUE(WaitFor(index_.Create(kHome)).ok());
  for (int count = 0; count < 5; ++count) EXPECT_EQ(Check(), "OK");
  EXPECT_EQ(index_.asked_count, 1);
  // It was dropped elsewhere: for so long that is not seen.
  ASSERT_TRUE(WaitFor(index_.Drop(kHome, std::nullopt, 10)).ok());
  now_ += std::chrono::seconds(10) - std::chrono::nanoseconds(1);
  EXPECT_EQ(Check(), "OK");
  now_ += std::chrono::nanoseconds(1);
  EXPECT_EQ(Check(), "NOT_YOURS");
  // What is not there is asked for each time.
  EXPECT_EQ(Check(), "NOT_YOURS");
  EXPECT_EQ(index_.asked_count, 3);
}

TEST_F(KnownRepositoriesTest, WhatIsDroppedHereIsSeenAtOnce) {
  ASSERT_TRUE(WaitFor(index_.Create(kHome)).ok());
  EXPECT_EQ(Check(), "OK");
  ASSERT_TRUE(WaitFor(index_.Drop(kHome, std::nullopt, 10)).ok());
  known_.Forget(kHome);
  EXPECT_EQ(Check(), "NOT_YOURS");
}

TEST_F(KnownRepositoriesTest, RemembersSoManyAndNoMore) {
  const auto numbered = [](int number) {
    return RepositoryId{"r" + std::to_string(number), DigestAlgorithm::kBlake3};
  };
  for (int number = 0; number < 4; ++number) {
    ASSERT_TRUE(WaitFor(index_.Create(numbered(number))).ok());
    EXPECT_EQ(Check(numbered(number)), "OK");
  }
  EXPECT_EQ(index_.asked_count, 4);
  // The fourth has put the others out.
  EXPECT_EQ(Check(numbered(3)), "OK");
  EXPECT_EQ(index_.asked_count, 4);
  EXPECT_EQ(Check(numbered(0)), "OK");
  EXPECT_EQ(index_.asked_count, 5);
}

TEST_F(KnownRepositoriesTest, WhatIsOverMakesRoomBeforeWhatIsNot) {
  const auto numbered = [](int number) {
    return RepositoryId{"r" + std::to_string(number), DigestAlgorithm::kBlake3};
  };
  for (int number = 0; number < 4; ++number) {
    ASSERT_TRUE(WaitFor(index_.Create(numbered(number))).ok());
    if (number == 2) now_ += std::chrono::seconds(10);
    EXPECT_EQ(Check(numbered(number)), "OK");
  }
  EXPECT_EQ(index_.asked_count, 4);
  // The first two were over when the fourth came.
  EXPECT_EQ(Check(numbered(2)), "OK");
  EXPECT_EQ(Check(numbered(3)), "OK");
  EXPECT_EQ(index_.asked_count, 4);
}

TEST_F(KnownRepositoriesTest, AnIndexThatDoesNotAnswerIsNoAnswer) {
  ASSERT_TRUE(WaitFor(index_.Create(kHome)).ok());
  index_.failure = absl::UnavailableError("away");
  EXPECT_EQ(WaitFor(known_.Check(kHome)), index_.failure);
  index_.failure = absl::OkStatus();
  EXPECT_EQ(Check(), "OK");
}

TEST_F(KnownRepositoriesTest, AnyButWithOneAlgorithm) {
  const RepositoryId sha256{"home", DigestAlgorithm::kSha256};
  const RepositoryId xxh3{"home", DigestAlgorithm::kXxh3_128};
  for (const RepositoryId& repository : {kHome, sha256, xxh3}) {
    EXPECT_TRUE(WaitFor(any_.Check(repository)).ok());
  }
  ASSERT_TRUE(WaitFor(index_.AdvanceEpoch(sha256, 1, 0)).ok());
  EXPECT_TRUE(WaitFor(any_.Check(sha256)).ok());
  for (const RepositoryId& repository : {kHome, xxh3}) {
    const absl::Status refused = WaitFor(any_.Check(repository));
    EXPECT_EQ(ReasonNameOf(refused), "DIGEST_ALGORITHM_MISMATCH");
    EXPECT_NE(MessageOf(refused).find("kerf repo drop home --digest sha256"),
              std::string_view::npos);
    // Whoever only looks is asked nothing.
    EXPECT_TRUE(WaitFor(any_.CheckToLook(repository)).ok());
  }
  // A name that begins like it is another one.
  EXPECT_TRUE(WaitFor(any_.Check({"home2", DigestAlgorithm::kBlake3})).ok());
  EXPECT_EQ(index_.asked_count, 0) << "created or not is all the same";
}

TEST_F(KnownRepositoriesTest, WhatIsThereIsLookedForOnceInAWhile) {
  ASSERT_TRUE(WaitFor(index_.Create(kHome)).ok());
  for (int count = 0; count < 5; ++count) EXPECT_TRUE(WaitFor(any_.Check(kHome)).ok());
  EXPECT_EQ(index_.looked_count, 1);
  now_ += std::chrono::seconds(10);
  EXPECT_TRUE(WaitFor(any_.Check(kHome)).ok());
  EXPECT_EQ(index_.looked_count, 2);
  ASSERT_TRUE(WaitFor(index_.Drop(kHome, std::nullopt, 10)).ok());
  any_.Forget(kHome);
  const RepositoryId sha256{"home", DigestAlgorithm::kSha256};
  ASSERT_TRUE(WaitFor(index_.Create(sha256)).ok());
  EXPECT_EQ(ReasonNameOf(WaitFor(any_.Check(kHome))), "DIGEST_ALGORITHM_MISMATCH");
  index_.failure = absl::UnavailableError("away");
  EXPECT_EQ(WaitFor(any_.Check(kHome)), index_.failure);
}

TEST_F(KnownRepositoriesTest, WhatIsToBeCreatedHasOneAlgorithm) {
  ASSERT_TRUE(WaitFor(index_.Create({"home", DigestAlgorithm::kSha256})).ok());
  EXPECT_EQ(ReasonNameOf(WaitFor(known_.CheckAlgorithm(kHome))), "DIGEST_ALGORITHM_MISMATCH");
  // Where it is there but not created, that it may be created says nothing of its use.
  const RepositoryId met{"met", DigestAlgorithm::kBlake3};
  ASSERT_TRUE(WaitFor(index_.AdvanceEpoch(met, 1, 0)).ok());
  EXPECT_TRUE(WaitFor(known_.CheckAlgorithm(met)).ok());
  EXPECT_EQ(Check(met), "NOT_YOURS");
  EXPECT_EQ(ReasonNameOf(WaitFor(known_.CheckToLook(met))), "NOT_YOURS");
}

}  // namespace
}  // namespace kerf
