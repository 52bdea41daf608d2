#include "client/c/conformance/kit_store.h"

#include "base/status.h"

namespace kerf::c::conformance {

absl::StatusOr<View> KitStore::ReadView() {
  View view;
  view.epoch = 1;
  if (!is_collected_) return view;
  KERF_ASSIGN_OR_RETURN(const Json epoch, kit_.Ask({{"ask", "epoch"}}));
  view.epoch = epoch["epoch"].get<std::uint64_t>();
  KERF_ASSIGN_OR_RETURN(const Json plan, kit_.Ask({{"ask", "plan"}}));
  view.has_plan = !plan["plan"].is_null();
  if (!view.has_plan) return view;
  KERF_ASSIGN_OR_RETURN(view.condemned, ReadPlan(FromBase64(plan["plan"])));
  return view;
}

absl::StatusOr<KitStore::Found> KitStore::Find(const View& view, const Chunk& chunk) {
  KERF_ASSIGN_OR_RETURN(const Json answer, kit_.Ask({{"ask", "has"},
                                                     {"digest", HexText(chunk.digest)},
                                                     {"length", chunk.length_bytes}}));
  Found found;
  for (const Json& text : answer["locators"]) {
    found.is_anywhere = true;
    std::string locator = FromHex(text);
    if (view.condemned.contains(locator)) continue;
    found.safe_locator = std::move(locator);
    // Another writer's: nobody knows whether its name is durable.
    is_dirty_ = true;
    break;
  }
  return found;
}

absl::StatusOr<std::string> KitStore::Put(std::string_view digest, std::string_view data) {
  KERF_ASSIGN_OR_RETURN(
      const Json answer,
      kit_.Ask({{"ask", "put"}, {"digest", HexText(digest)}, {"data", Base64Of(data)}}));
  is_dirty_ = true;
  return FromHex(answer["locator"]);
}

absl::Status KitStore::Sync() {
  KERF_RETURN_IF_ERROR(sync_failure_);
  if (!is_dirty_) return absl::OkStatus();
  sync_failure_ = kit_.Ask({{"ask", "sync"}}).status();
  is_dirty_ = false;
  return sync_failure_;
}

absl::Status KitStore::Publish(const std::string& name, std::string_view body) {
  return kit_.Ask({{"ask", "publish"}, {"name", name}, {"body", Base64Of(body)}}).status();
}

absl::Status KitStore::Withdraw(const std::string& name) {
  return kit_.Ask({{"ask", "withdraw"}, {"name", name}}).status();
}

absl::Status KitStore::Confirm(const std::string& name) {
  return kit_.Ask({{"ask", "confirm"}, {"name", name}}).status();
}

}  // namespace kerf::c::conformance
