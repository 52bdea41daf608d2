// What a RapidCutter asks: the process's hint cache as one stream sees it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/rapid/hint_source.h"
#include "server/hints/hint_cache.h"

namespace kerf {

// For one thread, and one stream. Every run was opened or cut by this process. Sizes are given only
// where the scope has a criterion: in exact mode a size costs more than it saves
// (docs/performance.md, RapidCDC).
class HintView final : public HintSource {
 public:
  HintView(std::shared_ptr<HintCache> cache, std::shared_ptr<const HintScope> scope);

  // A run that has come up makes the cache fetch those behind it. kLate while the chunk's segment,
  // or the one behind the run that has ended, is on its way.
  Hint Find(const Digest& digest) override;

  // The stream's next chunks were cut, in this order, and the index holds them: if nothing is known
  // of the last of them, what the anchors among them lead to is fetched. `begins_file`: so does the
  // first of them.
  void Duplicates(std::span<const Digest> digests, bool begins_file);

 private:
  // What segments say.
  Hint FindRun(const Digest& digest);

  const std::shared_ptr<HintCache> cache_;
  const std::shared_ptr<const HintScope> scope_;
  // Behind the last run, if that was not there yet.
  std::optional<SegmentId> awaited_;
  // Asked for by Duplicates.
  std::vector<Digest> wanted_;
};

}  // namespace kerf
