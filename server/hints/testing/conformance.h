// What every SegmentStore must do. A leaf's test instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, SegmentStoreConformance,
//                            ::testing::Values(SegmentStoreLeaf{[] { return Create...(); }}));
//
// A store may lose everything; these leaves are not to, as long as they have room and nobody
// interferes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "server/hints/segment_store.h"

namespace kerf {

struct SegmentStoreLeaf {
  // An empty store with room for 4 MiB.
  std::function<std::unique_ptr<SegmentStore>()> create;
};

class SegmentStoreConformance : public ::testing::TestWithParam<SegmentStoreLeaf> {
 protected:
  void SetUp() override {
    store_ = GetParam().create();
    ASSERT_NE(store_, nullptr);
  }

  std::unique_ptr<SegmentStore> store_;
};

// For callers that wait. Not in a thread that answers.
using FoundId = absl::StatusOr<std::optional<SegmentId>>;
using FetchedBytes = absl::StatusOr<std::optional<std::string>>;
FoundId FindAndWait(SegmentStore& store, const HintScope& scope, const Digest& anchor);
FetchedBytes FetchAndWait(SegmentStore& store, const HintScope& scope, const SegmentId& id);
// What the anchor leads to.
FetchedBytes FetchAndWait(SegmentStore& store, const HintScope& scope, const Digest& anchor);
absl::Status PutAndWait(SegmentStore& store, const HintScope& scope,
                        std::vector<StoredSegment> segments);

}  // namespace kerf
