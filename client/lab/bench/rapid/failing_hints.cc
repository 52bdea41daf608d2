#include "client/lab/bench/rapid/failing_hints.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "kernels/rapid/cut_proof.h"

namespace kerf::bench {
namespace {

// How far from the truth a size is looked for.
constexpr std::size_t kMaxDistance = 64;

std::uint8_t MarkerThatIsNowhere(const std::array<bool, 256>& is_there) {
  return static_cast<std::uint8_t>(std::ranges::find(is_there, false) - is_there.begin());
}

}  // namespace

FailingHints::FailingHints(const Series& series, const Chunker& base,
                           const LocalIndexSettings& settings,
                           std::optional<AcceptanceCriterion> criterion)
    : settings_(settings),
      tests_fingerprint_(!criterion || *criterion == AcceptanceCriterion::kFfRwtFpt) {
  absl::flat_hash_map<Digest, std::vector<Place>, DigestHash> places_of;
  for (const std::vector<Bytes>& version : series.versions) {
    for (const Bytes file : version) {
      std::vector<std::size_t> lengths;
      for (std::size_t done = 0; done < file.size(); done += lengths.back()) {
        lengths.push_back(base.NextCut(file.subspan(done)));
      }
      Bytes rest = file;
      for (std::size_t index = 0; index + 1 < lengths.size(); ++index) {
        const Digest digest = Fingerprint(settings.digest, rest.first(lengths[index]));
        rest = rest.subspan(lengths[index]);
        const std::size_t second = index + 2 < lengths.size() ? lengths[index + 2] : 0;
        places_of[digest].push_back({rest, lengths[index + 1], lengths[index + 1] + second});
      }
    }
  }
  for (const auto& [digest, places] : places_of) {
    if (places.size() <= kMaxPlaces) hints_.emplace(digest, MakeHint(base, places));
  }
}

// Whether the window test fails at all places.
bool FailingHints::Fails(const Chunker& base, const std::vector<Place>& places,
                         std::size_t length) const {
  return std::ranges::none_of(places, [&](const Place& place) {
    return length >= place.rest.size() ||
           RollingWindowTest(base, settings_.profile, place.rest, length);
  });
}

std::vector<NextSize> FailingHints::FailingSizes(const Chunker& base,
                                                 const std::vector<Place>& places) const {
  const Profile& profile = settings_.profile;
  std::vector<std::size_t> lengths;
  const std::size_t two = places.back().next_two_length;
  const bool is_next =
      std::ranges::any_of(places, [two](const Place& place) { return place.next_length == two; });
  if (tests_fingerprint_ && two <= profile.max_bytes && !is_next) lengths.push_back(two);
  const std::size_t truth = places.back().next_length;
  for (std::size_t distance = 1; distance <= kMaxDistance; ++distance) {
    for (const std::size_t length : {truth + distance, truth - distance}) {
      if (lengths.size() == settings_.list_length) break;
      const bool may_be = length >= profile.min_bytes && length < profile.max_bytes;
      if (may_be && Fails(base, places, length)) lengths.push_back(length);
    }
  }
  std::vector<NextSize> sizes;
  for (const std::size_t length : lengths) {
    std::array<bool, 256> is_there{};
    for (const Place& place : places) {
      if (length <= place.rest.size()) is_there[place.rest[length - 1]] = true;
    }
    sizes.push_back({static_cast<std::uint32_t>(length), MarkerThatIsNowhere(is_there)});
  }
  return sizes;
}

Hint FailingHints::MakeHint(const Chunker& base, const std::vector<Place>& places) const {
  Hint hint;
  hint.state = Hint::State::kReady;
  const std::vector<NextSize> sizes = FailingSizes(base, places);
  if (sizes.empty()) return hint;
  if (settings_.hints == HintKind::kRuns) {
    // Nothing has this digest: nothing false is believed.
    const std::vector<RunChunk> chunks = {{Digest{}, sizes[0].length_bytes, sizes[0].marker}};
    hint.run = std::make_shared<const CutRun>(
        CutRun::OfExactCuts(settings_.profile, settings_.digest, chunks, false));
    return hint;
  }
  // The last hit comes first.
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    hint.next_sizes.Hit(*size, settings_.list_length);
  }
  return hint;
}

Hint FailingHints::Find(const Digest& digest) {
  const auto found = hints_.find(digest);
  return found == hints_.end() ? Hint{} : found->second;
}

}  // namespace kerf::bench
