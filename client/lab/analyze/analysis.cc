#include "client/lab/analyze/analysis.h"

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

}  // namespace

std::uint64_t ProfileCount(const AnalysisOptions& options) {
  return options.variants.size() * options.averages.size() + options.profiles.size();
}

absl::StatusOr<Analysis> Analyze(const Corpus& corpus, const AnalysisOptions& options,
                                 const std::atomic<bool>& cancelled, AnalysisProgress& progress) {
  KERF_CHECK(corpus.size_bytes > 0 && !options.variants.empty() && !options.averages.empty());
  std::vector<Job> jobs = MakeJobs(options);
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
  const std::vector<Bytes> pieces = SpeedPieces(corpus.all());
  for (std::uint32_t sweep = 0; sweep < kTimingSweeps; ++sweep) {
    for (Job& job : jobs) {
      if (cancelled) return absl::CancelledError("interrupted");
      MeasureSpeed(*job.profile, options.digest, pieces, options.round_bytes, cancelled,
                   job.figures.speed);
      ++progress.timed_profiles;
    }
  }
  if (cancelled) return absl::CancelledError("interrupted");
  for (Job& job : jobs) analysis.figures.push_back(std::move(job.figures));
  analysis.whole_files = CountWholeFiles(corpus);
  CompareAtEqualAverage(analysis.figures);
  analysis.recommendation = Recommend(analysis.figures, options.recommend);
  return analysis;
}

}  // namespace kerf::agent::analyze
