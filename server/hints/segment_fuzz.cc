// Parsing any bytes ends in a Status or in a segment whose encoding is those bytes; whatever a
// store answers, the cache takes only what was sealed with its key for that scope.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/hints/hint_cache.h"
#include "server/hints/hint_view.h"
#include "server/hints/segment.h"

namespace {

using kerf::Digest;
using kerf::HintScope;
using kerf::RunChunk;
using kerf::SegmentId;

// Answers everything with the same.
class OneAnswer final : public kerf::SegmentStore {
 public:
  OneAnswer(const SegmentId& id, std::string bytes) : id_(id), bytes_(std::move(bytes)) {}

  void FindByAnchor(const HintScope&, const Digest&, FindDone done) override { done({id_}); }
  void Fetch(const HintScope&, const SegmentId&, FetchDone done) override { done({bytes_}); }
  void Put(const HintScope&, std::vector<kerf::StoredSegment>, PutDone done) override {
    done(absl::OkStatus());
  }
  std::string_view backend_name() const override { return "one answer"; }

 private:
  const SegmentId id_;
  const std::string bytes_;
};

const std::shared_ptr<const HintScope>& Scope() {
  static const auto scope = [] {
    const auto profile = kerf::ParseProfile("mincdc-8k");
    KERF_CHECK(profile.ok());
    return std::make_shared<const HintScope>(
        kerf::RepositoryId{"a", kerf::DigestAlgorithm::kBlake3}, *profile);
  }();
  return scope;
}

std::vector<RunChunk> HonestChunks() {
  std::vector<RunChunk> chunks(20);
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    chunks[index].digest.bytes.fill(static_cast<std::uint8_t>(index + 1));
    chunks[index].length_bytes = 5000;
  }
  return chunks;
}

std::string HonestSegment() {
  const auto run = kerf::CutRun::OfExactCuts(Scope()->profile(), kerf::DigestAlgorithm::kBlake3,
                                             HonestChunks(), true);
  const auto sealed = kerf::SealRun(kerf::RunKey(), Scope()->repository(), run);
  return kerf::EncodeSegment({std::nullopt, 1, sealed});
}

// What an honest segment was changed to: a byte of it by each pair of the input.
std::string Changed(std::string honest, std::string_view changes) {
  for (std::size_t at = 0; at + 2 < changes.size(); at += 3) {
    const std::size_t place =
        static_cast<std::uint8_t>(changes[at]) * 256u + static_cast<std::uint8_t>(changes[at + 1]);
    char& byte = honest[place % honest.size()];
    byte = static_cast<char>(byte ^ changes[at + 2]);
  }
  return honest;
}

void CheckCacheTakesOnlyHonest(const std::string& answer) {
  static const std::string honest = HonestSegment();
  const auto honest_segment = kerf::ParseSegment(honest);
  KERF_CHECK(honest_segment.ok());
  const auto segment = kerf::ParseSegment(answer);
  const SegmentId id = segment.ok() ? segment->id() : honest_segment->id();
  OneAnswer store(id, answer);
  const auto cache = kerf::HintCache::Create({}, &store);
  const Digest asked = HonestChunks()[3].digest;
  cache->Want(Scope(), asked);
  kerf::HintView view(cache, Scope());
  const kerf::Hint hint = view.Find(asked);
  const bool is_honest = segment.ok() &&
                         std::string_view(answer).ends_with(std::string_view(
                             reinterpret_cast<const char*>(honest_segment->sealed_run.data()),
                             honest_segment->sealed_run.size())) &&
                         segment->sealed_run.size() == honest_segment->sealed_run.size();
  KERF_CHECK((hint.state == kerf::Hint::State::kReady) == is_honest);
  KERF_CHECK(cache->counters().held_segments == (is_honest ? 1 : 0));
  KERF_CHECK(cache->counters().fetches_refused == (is_honest ? 0 : 1));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (const auto segment = kerf::ParseSegment(bytes); segment.ok()) {
    KERF_CHECK(kerf::EncodeSegment(*segment) == bytes);
    KERF_CHECK(segment->sealed_run.size() >= kerf::kRunTagBytes);
  }
  CheckCacheTakesOnlyHonest(bytes);
  CheckCacheTakesOnlyHonest(Changed(HonestSegment(), bytes));
  return 0;
}
