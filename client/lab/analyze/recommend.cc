#include "client/lab/analyze/recommend.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/strings.h"

namespace kerf::agent::analyze {
namespace {

using All = std::span<const ProfileFigures>;
using Indexes = std::vector<std::size_t>;

double SavingsOf(const ProfileFigures& figures) {
  return figures.savings_at_equal_average.value_or(0);
}

// Those of `indexes` for which `holds`; all if it holds for none.
template <typename Holds>
Indexes Prefer(All all, const Indexes& indexes, const Holds& holds) {
  Indexes preferred;
  for (const std::size_t index : indexes) {
    if (holds(all[index])) preferred.push_back(index);
  }
  return preferred.empty() ? indexes : preferred;
}

double BestSavings(All all, const Indexes& indexes) {
  double best = 0;
  for (const std::size_t index : indexes) best = std::max(best, SavingsOf(all[index]));
  return best;
}

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }
std::string Points(double share) { return absl::StrFormat("%.1f points", 100 * share); }
std::string Size(double bytes) { return FormatByteSize(static_cast<std::uint64_t>(bytes)); }

bool IsFastEnough(const ProfileFigures& figures, const RecommendOptions& options) {
  return figures.speed.fingerprint_bytes_per_second == 0 ||
         figures.speed.share_of_fingerprint() >= options.min_share;
}

// Step 1 of the rule, for the profiles of one wanted average.
std::size_t BestAlgorithm(All all, const Indexes& rivals, const RecommendOptions& options) {
  const Indexes fast = Prefer(
      all, rivals, [&](const ProfileFigures& figures) { return IsFastEnough(figures, options); });
  const double least_savings = BestSavings(all, fast) - kEqualAlgorithmSavings;
  const Indexes saving = Prefer(all, fast, [&](const ProfileFigures& figures) {
    return SavingsOf(figures) >= least_savings;
  });
  const auto resent = [&](std::size_t index) { return all[index].resync.mean_bytes; };
  double least_resent = resent(saving.front());
  for (const std::size_t index : saving) least_resent = std::min(least_resent, resent(index));
  const Indexes steady = Prefer(all, saving, [&](const ProfileFigures& figures) {
    return figures.resync.mean_bytes <= kEqualResync * least_resent;
  });
  return *std::max_element(steady.begin(), steady.end(), [&](std::size_t left, std::size_t right) {
    return all[left].speed.hashed_bytes_per_second < all[right].speed.hashed_bytes_per_second;
  });
}

// Step 2.
std::size_t BestAverage(All all, const Indexes& winners, const RecommendOptions& options) {
  const auto fits = [&](const ProfileFigures& figures) {
    return figures.index_memory_bytes_per_tib() <=
           static_cast<double>(options.max_index_bytes_per_tib);
  };
  const Indexes small_enough = Prefer(all, winners, fits);
  if (!fits(all[small_enough.back()])) return winners.back();
  double best = all[small_enough.front()].net_savings();
  for (const std::size_t index : small_enough) best = std::max(best, all[index].net_savings());
  std::size_t chosen = small_enough.front();
  for (const std::size_t index : small_enough) {
    if (all[index].net_savings() >= best - kEqualAverageSavings) chosen = index;
  }
  return chosen;
}

// What the winner has to say about the other algorithms at its average.
void ExplainAlgorithm(All all, const Indexes& rivals, const RecommendOptions& options,
                      Recommendation& result) {
  const ProfileFigures& chosen = all[result.index];
  const auto most =
      *std::max_element(rivals.begin(), rivals.end(), [&](std::size_t left, std::size_t right) {
        return SavingsOf(all[left]) < SavingsOf(all[right]);
      });
  std::string text = Cat(chosen.algorithm, " saves ", Percent(chosen.count.savings()), " at ",
                         Size(chosen.count.average_bytes()), " a chunk");
  const double behind = SavingsOf(all[most]) - SavingsOf(chosen);
  if (most == result.index) {
    text += ", more than every other algorithm at that average.";
  } else if (behind <= kEqualAlgorithmSavings) {
    text += Cat(", as much as the best (", all[most].algorithm, ", ",
                behind < 0.0005 ? "the same" : Cat(Points(behind), " more"), " at equal average).");
  } else {
    text += Cat("; ", all[most].algorithm, " would save ", Points(behind),
                " more at equal average, but cuts and fingerprints at ",
                absl::StrFormat("%.2f", all[most].speed.share_of_fingerprint()),
                " of the speed of fingerprinting alone.");
  }
  result.reasons.push_back(text);
  result.reasons.push_back(
      absl::StrFormat("A change of one byte makes %.1f KiB new, %.2f chunks.",
                      chosen.resync.mean_bytes / static_cast<double>(kKiB),
                      chosen.resync.mean_bytes / chosen.count.average_bytes()));
  if (chosen.speed.fingerprint_bytes_per_second == 0) return;
  result.reasons.push_back(absl::StrFormat(
      "It cuts and fingerprints %.1f GB/s on one core, %.2f of the speed of fingerprinting alone "
      "(%s "
      "%.2f); it cuts %.1f GB/s.",
      chosen.speed.hashed_bytes_per_second / 1e9, chosen.speed.share_of_fingerprint(),
      IsFastEnough(chosen, options) ? "wanted:" : "no algorithm reaches the wanted",
      options.min_share, chosen.speed.cut_bytes_per_second / 1e9));
}

// Of those that do not compete, for nobody knows what they would save at that average.
void ExplainStrays(All all, Recommendation& result) {
  const ProfileFigures& chosen = all[result.index];
  std::string strays;
  for (const ProfileFigures& figures : all) {
    if (figures.wanted_bytes != chosen.wanted_bytes) continue;
    if (figures.savings_at_equal_average.has_value()) continue;
    strays += Cat(strays.empty() ? "" : ", ", figures.algorithm);
  }
  if (strays.empty()) return;
  result.reasons.push_back(Cat("Not compared: ", strays, ", whose chunks never become as large as ",
                               Size(chosen.compared_at_bytes), " on this data."));
}

// And about the other averages.
void ExplainAverage(All all, const RecommendOptions& options, Recommendation& result) {
  const ProfileFigures& chosen = all[result.index];
  const auto limit = static_cast<double>(options.max_index_bytes_per_tib);
  const double memory = chosen.index_memory_bytes_per_tib();
  result.reasons.push_back(
      Cat("A TiB of such data needs ", Size(memory), " of memory for the index",
          memory <= limit ? Cat(" (at most ", Size(limit), " is allowed).")
                          : Cat("; every average here needs more than the ", Size(limit),
                                " that are allowed, so the largest is taken.")));
  for (const std::size_t other : result.best_at_each_average) {
    if (other == result.index) continue;
    const ProfileFigures& rival = all[other];
    const double gain = rival.net_savings() - chosen.net_savings();
    const bool smaller = rival.wanted_bytes < chosen.wanted_bytes;
    if (smaller && gain > 0) {
      result.reasons.push_back(Cat("Chunks of ", Size(rival.count.average_bytes()), " (",
                                   rival.profile, ") save ", Points(gain),
                                   " more after bookkeeping, with ",
                                   Size(rival.index_memory_bytes_per_tib()), " of index."));
    } else if (!smaller && gain < 0) {
      result.reasons.push_back(Cat("Chunks of ", Size(rival.count.average_bytes()), " (",
                                   rival.profile, ") save ", Points(-gain), " less, with ",
                                   Size(rival.index_memory_bytes_per_tib()), " of index."));
      break;
    }
  }
}

}  // namespace

Recommendation Recommend(All all, const RecommendOptions& options) {
  std::map<std::uint64_t, Indexes> by_average;
  for (std::size_t index = 0; index < all.size(); ++index) {
    if (all[index].wanted_bytes > 0) by_average[all[index].wanted_bytes].push_back(index);
  }
  KERF_CHECK(!by_average.empty());
  Recommendation result;
  for (auto& [wanted, indexes] : by_average) {
    indexes = Prefer(all, indexes, [](const ProfileFigures& it) {
      return it.savings_at_equal_average.has_value();
    });
    indexes =
        Prefer(all, indexes, [](const ProfileFigures& it) { return it.algorithm != "fixed"; });
    result.best_at_each_average.push_back(BestAlgorithm(all, indexes, options));
  }
  result.index = BestAverage(all, result.best_at_each_average, options);
  ExplainAlgorithm(all, by_average[all[result.index].wanted_bytes], options, result);
  ExplainStrays(all, result);
  ExplainAverage(all, options, result);
  return result;
}

}  // namespace kerf::agent::analyze
