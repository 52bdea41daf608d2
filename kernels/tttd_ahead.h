// What tttd has seen behind its cuts.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/chunker.h"
#include "kernels/near_marks.h"
#include "kernels/profile.h"

namespace kerf {

// tttd looks for the large divisor up to max, and cuts at the last mark of the small one if there
// is none: behind that cut it knows that there is no mark of either. Only of the first 48 places
// behind min, where the hash begins anew, that says nothing: they are looked at each time.
class TttdAhead final : public CutAhead {
 public:
  // The rule of the marks of a divisor alone.
  static Profile RuleOf(std::uint32_t divisor);

  // `chunker` cuts by `profile`, `small_divisor` by RuleOf(avg / 2); both outlive this. The markers
  // are of RuleOf(avg) and RuleOf(avg / 2).
  TttdAhead(const Chunker& chunker, const Chunker& small_divisor, std::unique_ptr<Marker> marker,
            std::unique_ptr<Marker> small_marker, const Profile& profile)
      : chunker_(chunker),
        small_divisor_(small_divisor),
        profile_(profile),
        near_(std::move(marker)),
        near_backups_(std::move(small_marker)) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) override;
  void Pass(std::size_t length_bytes) override {
    clear_begin_ -= length_bytes < clear_begin_ ? length_bytes : clear_begin_;
    clear_end_ -= length_bytes < clear_end_ ? length_bytes : clear_end_;
    near_.Pass(length_bytes);
    near_backups_.Pass(length_bytes);
  }
  void Forget() override {
    clear_begin_ = clear_end_ = 0;
    near_.Forget();
    near_backups_.Forget();
  }
  bool is_ahead() const override {
    return near_.is_worth_it() || (IsClearFromFirst() && clear_end_ > profile_.min_bytes);
  }
  void Charge(std::size_t, std::size_t) override {}
  std::size_t memory_bytes() const override {
    return near_.memory_bytes() + near_backups_.memory_bytes();
  }

 private:
  // What the digest is divided by at a place.
  std::uint64_t DigestAt(std::span<const std::uint8_t> bytes, std::size_t place) const;
  bool IsMarked(std::uint64_t digest, std::uint32_t divisor) const {
    return (digest & (divisor - 1)) == 0;
  }
  // The first mark of the small divisor from `from` on, or the end. Windows are whole there.
  std::size_t FirstMark(std::span<const std::uint8_t> bytes, std::size_t from) const;
  // By the marks of the first places, where the window is not whole yet, and of what is known
  // behind them; 0 if that does not say.
  std::size_t CutByKnown(std::span<const std::uint8_t> bytes, std::size_t size);
  // Whether what is known to be clear begins where the first window is whole. It does not until the
  // cut has been passed behind which it lies, and not if a shorter one was passed.
  bool IsClearFromFirst() const { return clear_begin_ <= profile_.min_bytes + kRabinWindowBytes; }
  // Whether there is no mark up to `size`.
  bool IsClear(std::span<const std::uint8_t> bytes, std::size_t size);

  const Chunker& chunker_;
  const Chunker& small_divisor_;
  const Profile profile_;
  // Of the large divisor and of the small one.
  NearMarks near_;
  NearMarks near_backups_;
  // No place in [clear_begin_, clear_end_) whose window is whole in a chunk that begins here has a
  // mark.
  std::size_t clear_begin_ = 0;
  std::size_t clear_end_ = 0;
};

}  // namespace kerf
