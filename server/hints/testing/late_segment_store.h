// A store whose answers come when the test says so.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "server/hints/segment_store.h"

namespace kerf {

// Not thread-safe. What it has not delivered when it goes is never answered.
class LateSegmentStore final : public SegmentStore {
 public:
  // `store` outlives it and answers before it returns.
  explicit LateSegmentStore(SegmentStore* store) : store_(store) {}

  void FindByAnchor(const HintScope& scope, const Digest& anchor, FindDone done) override {
    store_->FindByAnchor(scope, anchor, Later(std::move(done)));
  }
  void Fetch(const HintScope& scope, const SegmentId& id, FetchDone done) override {
    store_->Fetch(scope, id, Later(std::move(done)));
  }
  void Put(const HintScope& scope, std::vector<StoredSegment> segments, PutDone done) override {
    store_->Put(scope, std::move(segments), Later(std::move(done)));
  }
  std::string_view backend_name() const override { return "late"; }

  std::size_t waiting_count() const { return waiting_.size(); }
  // The oldest so many answers.
  void Deliver(std::size_t count) {
    for (; count > 0 && !waiting_.empty(); --count) {
      const std::function<void()> answer = std::move(waiting_.front());
      waiting_.pop_front();
      answer();
    }
  }

 private:
  template <typename Answer>
  std::function<void(const Answer&)> Later(std::function<void(const Answer&)> done) {
    return [this, done = std::move(done)](const Answer& answer) {
      waiting_.push_back([done, answer] { done(answer); });
    };
  }

  SegmentStore* const store_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace kerf
