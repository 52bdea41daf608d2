// Any bytes as a snapshot file, a plan and a recipe. The checksum is made right first, so that what
// lies behind it is reached.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/format/framed_file.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/testing/edits.h"
#include "kerf/store/v1/store.pb.h"

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes SampleSnapshot() {
  kerf::store::v1::Snapshot snapshot;
  snapshot.set_id("0123456789abcdef");
  snapshot.add_paths("/etc");
  for (int index = 0; index < 3; ++index) {
    kerf::store::v1::StoredChunkRef& chunk = *snapshot.add_tree();
    chunk.set_digest(std::string(32, 'd'));
    chunk.set_length_bytes(100);
  }
  const std::string text = snapshot.SerializeAsString();
  return {text.begin(), text.end()};
}

Bytes SamplePlan() {
  kerf::agent::CollectionPlan plan;
  plan.target_epoch = 3;
  plan.packs.resize(2);
  plan.packs[0].condemned.resize(9, true);
  plan.packs[1].id.bytes.fill(7);
  plan.packs[1].condemned.resize(100);
  const Bytes framed = kerf::agent::EncodeCollectionPlan(plan);
  // Without the frame.
  return {framed.begin() + 24, framed.end() - 32};
}

void Try(std::span<const std::uint8_t> bytes) {
  const std::string_view payload(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  (void)kerf::agent::DecodeFramed(kerf::agent::kSnapshotMagic, bytes);

  const auto framed = kerf::agent::EncodeFramed(kerf::agent::kSnapshotMagic, payload);
  const auto same = kerf::agent::DecodeFramed(kerf::agent::kSnapshotMagic, framed);
  KERF_CHECK(same.ok() && *same == payload);
  KERF_CHECK(!kerf::agent::DecodeFramed(kerf::agent::kPlanMagic, framed).ok());
  kerf::store::v1::Snapshot snapshot;
  if (snapshot.ParseFromString(*same)) {
    const auto recipe = kerf::agent::RecipeFromProto(snapshot.tree(), 32);
    if (recipe.ok()) KERF_CHECK(recipe->size() == static_cast<std::size_t>(snapshot.tree_size()));
  }

  const auto plan = kerf::agent::DecodeCollectionPlan(
      kerf::agent::EncodeFramed(kerf::agent::kPlanMagic, payload));
  if (plan.ok()) {
    for (const kerf::agent::PlannedPack& pack : plan->packs) {
      KERF_CHECK(plan->Find(pack.id) == &pack);
      KERF_CHECK(plan->Condemns(pack.id, static_cast<std::uint32_t>(pack.condemned.size())));
    }
    KERF_CHECK(kerf::agent::DecodeCollectionPlan(kerf::agent::EncodeCollectionPlan(*plan)).ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Bytes sample_snapshot = SampleSnapshot();
  static const Bytes sample_plan = SamplePlan();
  Try({data, size});
  Try(kerf::agent::ApplyEdits(sample_snapshot, {data, size}));
  Try(kerf::agent::ApplyEdits(sample_plan, {data, size}));
  return 0;
}
