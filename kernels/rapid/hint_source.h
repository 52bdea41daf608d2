// Where predictions come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/fingerprint/digest.h"
#include "kernels/rapid/cut_run.h"
#include "kernels/rapid/size_list.h"

namespace kerf {

// What is known of a chunk. All of it may be wrong; a run of exact cuts that is not what it says is
// the one thing that a source must not give.
struct Hint {
  enum class State : std::uint8_t {
    // Nothing is known of the chunk.
    kAbsent,
    // Something may be, but it is not here yet.
    kLate,
    // The chunk is known, and so is the rest of this, if any.
    kReady,
  };
  State state = State::kAbsent;
  SizeList next_sizes;
  // A run in which the chunk stands, in front of next_index; none is known if null. A run may end
  // with the chunk: next_index is then its number of chunks.
  std::shared_ptr<const CutRun> run;
  std::size_t next_index = 0;
};

// For one thread, and one profile.
class HintSource {
 public:
  virtual ~HintSource() = default;

  // What is known of a chunk with this digest. Never waits: what must be fetched is kLate, and
  // found by a later call, for this chunk or one behind it.
  virtual Hint Find(const Digest& digest) = 0;
};

}  // namespace kerf
