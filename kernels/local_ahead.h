// What crc and rabin have seen behind their cuts.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/chunker.h"
#include "kernels/near_marks.h"
#include "kernels/twostage/mark.h"

namespace kerf {

// A rule that is cut at the first mark reads no further than that. But vector registers hash some
// thousand bytes at once, of which a chunk of a hundred uses little: then their marks are kept.
class LocalAhead final : public CutAhead {
 public:
  // `chunker` cuts by `rule` and outlives this.
  LocalAhead(const Chunker& chunker, const LocalRule& rule, std::unique_ptr<Marker> marker)
      : chunker_(chunker), rule_(rule), marks_(std::move(marker)) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) override {
    const std::size_t size = std::min(bytes.size(), rule_.max_bytes);
    std::size_t cut = size;
    if (!marks_.is_worth_it()) {
      cut = chunker_.NextCut(bytes);
    } else if (size > rule_.first_bytes + rule_.behind_bytes) {
      const std::size_t end = size - rule_.behind_bytes;
      const std::size_t mark = marks_.First(bytes, rule_.first_bytes, end);
      cut = mark == end ? size : mark + rule_.after_bytes;
    }
    marks_.Count(cut);
    return cut;
  }

  void Pass(std::size_t length_bytes) override { marks_.Pass(length_bytes); }
  void Forget() override { marks_.Forget(); }
  bool is_ahead() const override { return marks_.is_worth_it(); }
  void Charge(std::size_t, std::size_t) override {}
  std::size_t memory_bytes() const override { return marks_.memory_bytes(); }

 private:
  const Chunker& chunker_;
  const LocalRule rule_;
  NearMarks marks_;
};

}  // namespace kerf
