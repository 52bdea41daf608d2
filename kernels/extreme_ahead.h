// What mincdc and maxcdc have seen behind their cuts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/chunker.h"
#include "kernels/profile.h"

namespace kerf {

// The best of each block of places, in the order of the data, less those that a later and better
// one outdoes: the best of a window that only moves on is at the front. Where the window begins or
// ends within a block, the chunker itself is asked for that part.
class ExtremeAhead final : public CutAhead {
 public:
  // Whether a chunk of that profile may be so short that it counts.
  static bool IsWorthIt(const Profile& profile);

  // `chunker` cuts by `profile` and outlives this.
  ExtremeAhead(const Chunker& chunker, const Profile& profile);

  std::size_t NextCut(std::span<const std::uint8_t> bytes) override;
  void Pass(std::size_t length_bytes) override { start_ += length_bytes; }
  void Forget() override;
  bool is_ahead() const override { return is_ahead_; }
  void Charge(std::size_t seen_bytes, std::size_t cut_bytes) override;
  std::size_t memory_bytes() const override { return best_.capacity() * sizeof(Best); }

 private:
  // A place where a chunk may end, counted from where the bytes begin that were not forgotten. The
  // smaller rank is the better one, the first of equals the best.
  struct Best {
    std::uint64_t place;
    std::uint32_t rank;
  };

  // Of [first, last], which the rule could look at at once.
  Best Query(std::span<const std::uint8_t> bytes, std::uint64_t first, std::uint64_t last) const;
  std::uint32_t RankAt(std::span<const std::uint8_t> bytes, std::uint64_t place) const;
  Best& BestAt(std::size_t index) { return best_[(front_ + index) % best_.size()]; }
  void BeginAt(std::uint64_t place);
  // Looks at everything up to `last`, and where it is there up to the end of that block.
  void Extend(std::span<const std::uint8_t> bytes, std::uint64_t last);
  void AddBlock(const Best& best);
  void PassFront(std::uint64_t first);
  // Of [first, last], within one block of which that is the best.
  Best BestOfPart(std::span<const std::uint8_t> bytes, std::uint64_t first, std::uint64_t last,
                  const Best& of_block) const;
  // Of [first, last].
  Best BestWithin(std::span<const std::uint8_t> bytes, std::uint64_t first, std::uint64_t last);

  const Chunker& chunker_;
  const Profile profile_;
  bool is_ahead_ = false;
  // What was read in vain, or would have been, less what is usual.
  std::uint64_t debt_bytes_ = 0;
  // Of the chunk.
  std::uint64_t start_ = 0;

  // A ring: so many from front_ on, of whole blocks that were looked at. Empty until it is needed.
  std::vector<Best> best_;
  std::size_t front_ = 0;
  std::size_t count_ = 0;
  // The best of the block that begins at block_, up to covered_.
  std::optional<Best> last_block_;
  std::uint64_t block_ = 0;
  std::uint64_t covered_ = 0;
  // Lies before the window, but the rest of its block does not.
  std::optional<Best> passed_;
};

}  // namespace kerf
