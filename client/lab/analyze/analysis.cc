#include "client/lab/analyze/analysis.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/check.h"
#include "base/parallel.h"
#include "client/lab/analyze/calibrate.h"
#include "client/lab/analyze/ladder.h"
#include "kernels/chunker.h"
#include "kernels/registry.h"

namespace kerf::agent::analyze {
namespace {

// One profile to be found and measured.
struct Job {
  ProfileFigures figures;
  std::optional<Profile> profile;
};

std::vector<Job> MakeJobs(const AnalysisOptions& options) {
  std::vector<Job> jobs;
  for (const std::uint64_t wanted : options.averages) {
    for (const std::string& variant : options.variants) {
      Job job;
      job.figures.algorithm = variant;
      job.figures.wanted_bytes = wanted;
      jobs.push_back(std::move(job));
    }
  }
  for (const Profile& profile : options.profiles) {
    Job job;
    const std::string text = FormatProfile(profile);
    job.figures.algorithm = text.substr(0, text.find(':'));
    job.profile = profile;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

// Everything but the speed.
void Measure(const Corpus& corpus, const std::vector<Edit>& edits,
             const std::atomic<bool>& cancelled, AnalysisProgress& progress, Job& job) {
  ProfileFigures& figures = job.figures;
  if (!job.profile.has_value()) {
    const Calibrated found =
        Calibrate(LaddersFor(figures.algorithm, figures.wanted_bytes), figures.wanted_bytes,
                  CalibrationPieces(corpus.all(), figures.wanted_bytes), cancelled);
    job.profile = found.profile;
    figures.calibrated_bytes = found.average_bytes;
  }
  figures.profile = FormatProfile(*job.profile);
  const std::unique_ptr<Chunker> chunker = MakeChunker(*job.profile);
  std::optional<CountFigures> count =
      CountUnique(*chunker, corpus, cancelled, progress.counted_bytes);
  if (!count.has_value()) return;
  figures.count = *std::move(count);
  const std::uint64_t around = figures.wanted_bytes > 0
                                   ? figures.wanted_bytes
                                   : static_cast<std::uint64_t>(figures.count.average_bytes()) + 1;
  figures.resync = MeasureResync(*chunker, corpus, edits, around, cancelled);
  ++progress.counted_profiles;
}

// A point more for the line of an algorithm.
LinePoint MeasurePoint(const Corpus& corpus, const LineGap& gap, const std::atomic<bool>& cancelled,
                       AnalysisProgress& progress) {
  LinePoint point{gap.algorithm, gap.aimed_bytes, {}};
  const Calibrated found = Calibrate(LaddersFor(gap.algorithm, gap.aimed_bytes), gap.aimed_bytes,
                                     CalibrationPieces(corpus.all(), gap.aimed_bytes), cancelled);
  const std::optional<CountFigures> count =
      CountUnique(*MakeChunker(found.profile), corpus, cancelled, progress.counted_bytes);
  if (count.has_value()) point.point = {count->average_bytes(), count->savings()};
  ++progress.counted_profiles;
  return point;
}

// Files end where they end, so that the chunks of two algorithms have two averages although both
// were made for the same: all are compared at one, which the lines of all must reach.
void Compare(const Corpus& corpus, const AnalysisOptions& options,
             const std::atomic<bool>& cancelled, AnalysisProgress& progress, Analysis& analysis) {
  std::vector<LinePoint>& points = analysis.line_points;
  CompareAtEqualAverage(analysis.figures, points);
  for (std::uint32_t round = 0; round < kLineRounds && !cancelled; ++round) {
    std::vector<LineGap> gaps = FindLineGaps(analysis.figures, points);
    for (LineGap& gap : gaps) {
      gap.aimed_bytes = std::clamp(gap.aimed_bytes, kMinWantedBytes, kMaxWantedBytes);
    }
    // What has been tried would give the same again.
    std::erase_if(gaps, [&](const LineGap& gap) {
      return std::any_of(points.begin(), points.end(), [&](const LinePoint& point) {
        return point.algorithm == gap.algorithm && point.aimed_bytes == gap.aimed_bytes;
      });
    });
    if (gaps.empty()) return;
    progress.planned_profiles += gaps.size();
    std::vector<LinePoint> found(gaps.size());
    ForEachInParallel(gaps.size(), options.thread_count, [&](std::size_t index) {
      found[index] = MeasurePoint(corpus, gaps[index], cancelled, progress);
    });
    if (cancelled) return;
    points.insert(points.end(), found.begin(), found.end());
    CompareAtEqualAverage(analysis.figures, points);
  }
}

}  // namespace

std::uint64_t ProfileCount(const AnalysisOptions& options) {
  return options.variants.size() * options.averages.size() + options.profiles.size();
}

absl::StatusOr<Analysis> Analyze(const Corpus& corpus, const AnalysisOptions& options,
                                 const std::atomic<bool>& cancelled, AnalysisProgress& progress) {
  KERF_CHECK(corpus.size_bytes > 0 && !options.variants.empty() && !options.averages.empty());
  std::vector<Job> jobs = MakeJobs(options);
  progress.planned_profiles = jobs.size();
  const std::vector<Edit> edits = MakeEdits(corpus, kEditsOfEachKind, options.seed);
  // The fastest backend of each algorithm is measured on first use: not beside other work.
  for (const std::string& variant : options.variants) {
    ChosenBackend(LaddersFor(variant, options.averages.front()).front().at(0));
  }
  for (const Profile& profile : options.profiles) ChosenBackend(profile);
  Analysis analysis;
  ForEachInParallel(jobs.size(), options.thread_count, [&](std::size_t index) {
    if (!cancelled) Measure(corpus, edits, cancelled, progress, jobs[index]);
  });
  if (cancelled) return absl::CancelledError("interrupted");
  for (const Job& job : jobs) analysis.figures.push_back(job.figures);
  Compare(corpus, options, cancelled, progress, analysis);
  const std::vector<Bytes> pieces = SpeedPieces(corpus.all());
  for (std::uint32_t sweep = 0; sweep < kTimingSweeps; ++sweep) {
    for (std::size_t index = 0; index < jobs.size(); ++index) {
      if (cancelled) return absl::CancelledError("interrupted");
      MeasureSpeed(*jobs[index].profile, options.digest, pieces, options.round_bytes, cancelled,
                   analysis.figures[index].speed);
      ++progress.timed_profiles;
    }
  }
  if (cancelled) return absl::CancelledError("interrupted");
  analysis.whole_files = CountWholeFiles(corpus);
  analysis.recommendation = Recommend(analysis.figures, options.recommend);
  return analysis;
}

}  // namespace kerf::agent::analyze
