#include "client/agent/backup/parent_tree.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "base/strings.h"
#include "client/fs/tree_walk.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/store.h"
#include "client/store/testing/test_store.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {
namespace {

// Of a snapshot of many files, before one of the scan that is behind them all.
class ParentTreeTest : public ::testing::Test {
 protected:
  ParentTreeTest() {
    FileChunks files;
    for (int number = 0; number < kFileCount; ++number) files[Cat("file-", 1000 + number)] = {"x"};
    snapshot_ = test_.WriteSnapshot(files);
    EXPECT_TRUE(packs_.Refresh().ok());
    behind_.node.path = "zzz";
  }

  std::unique_ptr<ParentTree> Open(ParentTree::IsEnded is_ended) {
    auto tree =
        ParentTree::Open(reader_, snapshot_, DigestSizeBytes(test_.store().digest_algorithm()),
                         kMaxKeptChunks, {}, std::move(is_ended));
    EXPECT_TRUE(tree.ok()) << tree.status();
    return tree.ok() ? *std::move(tree) : nullptr;
  }

  static BackupEntry* FindIn(ParentTree& tree, const ScannedNode& node) {
    return tree.FindUnchanged(node, /*ignore_device=*/false,
                              [](ParentTree::ChunkSpan) { return true; });
  }

  static constexpr int kFileCount = 200;
  TestStore test_;
  store::v1::Snapshot snapshot_;
  ChunkIndex packs_{test_.store().packs_directory()};
  ChunkReader reader_{packs_, ChunkReader::Options()};
  ScannedNode behind_;
};

TEST_F(ParentTreeTest, ReadsToItsEndForWhatIsBehindIt) {
  int asked = 0;
  const auto tree = Open([&asked] {
    ++asked;
    return false;
  });
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(FindIn(*tree, behind_), nullptr);
  EXPECT_TRUE(tree->damage().ok()) << tree->damage();
  EXPECT_GE(asked, kFileCount);
}

// An interrupt must not wait for the millions of files that are gone since.
TEST_F(ParentTreeTest, EndsInTheMiddleOnceNobodyWantsIt) {
  int asked = 0;
  const auto tree = Open([&asked] { return ++asked > 10; });
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(FindIn(*tree, behind_), nullptr);
  EXPECT_TRUE(tree->damage().ok()) << tree->damage();
  EXPECT_EQ(asked, 11);
}

}  // namespace
}  // namespace kerf::agent
