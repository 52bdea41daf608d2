// What every Index must do. A backend's test instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, IndexConformance,
//                            ::testing::Values(IndexBackend{[] { return CreateMemoryIndex(); }}));
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "server/index/index.h"

namespace kerf {

struct IndexBackend {
  // An empty index, alone in its place until the next call.
  std::function<std::unique_ptr<Index>()> create;
  // Closes `index` and opens it again with what it held; null for a backend that keeps nothing.
  std::function<std::unique_ptr<Index>(std::unique_ptr<Index> index)> reopen = nullptr;
};

class IndexConformance : public ::testing::TestWithParam<IndexBackend> {
 protected:
  void SetUp() override {
    index_ = GetParam().create();
    ASSERT_NE(index_, nullptr);
  }

  std::unique_ptr<Index> index_;
};

}  // namespace kerf
