// What every Index must do. A backend's test instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, IndexConformance,
//                            ::testing::Values(IndexBackend{[] { return CreateMemoryIndex(); }}));
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/sanitizers.h"
#include "server/index/index.h"

namespace kerf {

struct IndexBackend {
  // An empty index, alone in its place until the next call.
  std::function<std::unique_ptr<Index>()> create;
  // Closes `index` and opens it again with what it held; null for a backend that keeps nothing.
  std::function<std::unique_ptr<Index>(std::unique_ptr<Index> index)> reopen = nullptr;
  // Opens what the last call of `create` made once more, as another process does: then each thread
  // of a test has its own. Null: threads share one.
  std::function<std::unique_ptr<Index>()> another = nullptr;
  // Whether a call since `create` may have been carried out in part, or as a whole, and then again
  // before it was answered. Then it does not say of the time before it what an earlier attempt has
  // changed. Null: none is.
  std::function<bool()> may_have_repeated = nullptr;
  // A commit is carried out in parts: one that is refused may have written what the fence had not
  // reached yet.
  bool commits_in_parts = false;
  // How many rounds tests of many rounds have, of 100: fewer where each takes long. A sanitizer
  // makes each take long, too.
  int effort_percent = 100;

  bool MayHaveRepeated() const { return may_have_repeated && may_have_repeated(); }

  template <typename Count>
  Count Rounds(Count count) const {
    const Count parts = kIsSanitized ? 400 : 100;
    return (count * static_cast<Count>(effort_percent) + parts - 1) / parts;
  }
};

class IndexConformance : public ::testing::TestWithParam<IndexBackend> {
 protected:
  void SetUp() override {
    index_ = GetParam().create();
    ASSERT_NE(index_, nullptr);
  }

  // Forgets the entry of which `expected_count` (0 or 1) are there.
  void ForgetOne(const RepositoryId& repository, const IndexEntry& entry,
                 std::uint64_t expected_count);

  // For a thread of the test; ends with the test.
  Index& IndexForThread();

  std::unique_ptr<Index> index_;

 private:
  std::vector<std::unique_ptr<Index>> others_;
};

}  // namespace kerf
