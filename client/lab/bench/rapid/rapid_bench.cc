#include "client/lab/bench/rapid/rapid_bench.h"

#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/lab/bench/figures.h"

namespace kerf::bench {
namespace {

// So many modes are measured until regular cutting is measured anew.
constexpr std::size_t kModesBesideRegular = 4;

using Criterion = std::optional<AcceptanceCriterion>;

constexpr std::array<std::pair<const char*, Criterion>, 5> kCriteria = {{
    {"exact", std::nullopt},
    {"ff", AcceptanceCriterion::kFf},
    {"ff+rwt", AcceptanceCriterion::kFfRwt},
    {"ff+mt", AcceptanceCriterion::kFfMt},
    {"ff+rwt+fpt", AcceptanceCriterion::kFfRwtFpt},
}};

std::vector<RapidMode> MakeModes(bool has_extras) {
  std::vector<RapidMode> modes;
  modes.push_back({.name = "regular"});
  for (const HintKind hints : {HintKind::kRuns, HintKind::kSizes}) {
    for (const auto& [name, criterion] : kCriteria) {
      modes.push_back({.name = name, .hints = hints, .criterion = criterion});
    }
  }
  if (!has_extras) return modes;
  for (std::size_t length = 1; length <= SizeList::kMaxSizes; ++length) {
    if (length == SizeList::kDefaultSizes) continue;
    modes.push_back({.name = "ff+rwt",
                     .hints = HintKind::kSizes,
                     .criterion = AcceptanceCriterion::kFfRwt,
                     .list_length = length});
  }
  for (const auto& [name, criterion] : kCriteria) {
    // Without a test there is no penalty.
    if (criterion == AcceptanceCriterion::kFf) continue;
    modes.push_back(
        {.name = name, .hints = HintKind::kSizes, .criterion = criterion, .is_worst_case = true});
  }
  modes.push_back({.name = "exact", .hints = HintKind::kRuns, .is_worst_case = true});
  return modes;
}

double Sum(const VersionSeconds& seconds, std::size_t first_version) {
  return std::accumulate(seconds.begin() + static_cast<std::ptrdiff_t>(first_version),
                         seconds.end(), 0.0);
}

// What one kind of pass has taken, round by round.
class Rounds {
 public:
  void Add(const VersionSeconds& own, const VersionSeconds& regular) {
    later_seconds_.push_back(Sum(own, 1));
    later_ratios_.push_back(Sum(regular, 1) / Sum(own, 1));
    series_ratios_.push_back(Sum(regular, 0) / Sum(own, 0));
  }

  Speed Summarize(std::uint64_t later_bytes) const {
    return {.bytes_per_second = static_cast<double>(later_bytes) / Median(later_seconds_),
            .times_regular = Median(later_ratios_),
            .series_times_regular = Median(series_ratios_)};
  }

 private:
  std::vector<double> later_seconds_;
  std::vector<double> later_ratios_;
  std::vector<double> series_ratios_;
};

struct ModeRounds {
  Rounds cut;
  Rounds all;
};

struct PassSeconds {
  VersionSeconds cut;
  VersionSeconds all;
};

absl::StatusOr<PassSeconds> Measure(ModeRun& run) {
  PassSeconds seconds;
  KERF_ASSIGN_OR_RETURN(seconds.cut, run.CutAlone());
  KERF_ASSIGN_OR_RETURN(seconds.all, run.CutHashAndLookUp());
  return seconds;
}

absl::Status MeasureRound(std::vector<std::unique_ptr<ModeRun>>& runs,
                          std::vector<ModeRounds>& rounds, const std::atomic<bool>& cancelled) {
  PassSeconds regular;
  for (std::size_t index = 0; index < runs.size(); ++index) {
    if (cancelled) return absl::CancelledError("interrupted");
    if (index % kModesBesideRegular == 0) {
      KERF_ASSIGN_OR_RETURN(regular, Measure(*runs[0]));
      if (index > 0) {
        rounds[0].cut.Add(regular.cut, regular.cut);
        rounds[0].all.Add(regular.all, regular.all);
      }
    }
    PassSeconds own = regular;
    if (index > 0) {
      KERF_ASSIGN_OR_RETURN(own, Measure(*runs[index]));
    }
    rounds[index].cut.Add(own.cut, regular.cut);
    rounds[index].all.Add(own.all, regular.all);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ModeFigures>> RunRapidBench(const RapidOptions& options,
                                                       const Series& series, const Profile& profile,
                                                       const std::atomic<bool>& cancelled) {
  const std::unique_ptr<Chunker> base = MakeChunker(profile);
  std::vector<std::unique_ptr<ModeRun>> runs;
  for (RapidMode& mode : MakeModes(options.has_extras)) {
    if (cancelled) return absl::CancelledError("interrupted");
    runs.push_back(
        std::make_unique<ModeRun>(&series, base.get(), profile, options.digest, std::move(mode)));
    const CutList* const regular = runs.size() > 1 ? &runs[0]->cuts() : nullptr;
    KERF_RETURN_IF_ERROR(runs.back()->Check(regular));
  }
  std::vector<ModeRounds> rounds(runs.size());
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    KERF_RETURN_IF_ERROR(MeasureRound(runs, rounds, cancelled));
  }
  std::vector<ModeFigures> figures;
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const ModeFacts& facts = runs[index]->facts();
    figures.push_back({.mode = runs[index]->mode(),
                       .facts = facts,
                       .cut = rounds[index].cut.Summarize(facts.later_bytes),
                       .all = rounds[index].all.Summarize(facts.later_bytes)});
  }
  return figures;
}

}  // namespace kerf::bench
