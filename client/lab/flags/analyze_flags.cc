#include "client/lab/flags/analyze_flags.h"

#include <memory>

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf analyze ~/documents\n"
    "  kerf analyze backup-monday backup-tuesday --plot savings.svg\n"
    "  kerf analyze versions --average 8K,16K --algorithm mincdc,maxcdc,fastcdc2020\n"
    "  kerf analyze versions --profile mincdc:min=2048,max=14336 --json > figures.json\n\n"
    "Each PATH, or each folder or file in one PATH, may be a version: what it adds to those "
    "before\n"
    "it is shown. Everything is read once and held in memory; of more than --max-bytes a sample "
    "is\n"
    "taken. Nothing is sent, nothing is stored.\n\n"
    "For each algorithm and average, parameters are looked for with which the data, taken as one\n"
    "stream, gives chunks of that average. Then files are cut one by one. Columns:\n"
    "  saved %    of all bytes, if equal chunks are stored once\n"
    "  equal      the same at one average for all: only these can be compared; with > in front it\n"
    "             is at least so much, and - says that its chunks never become so large\n"
    "  stream     the average that was aimed at and found, in the data as one stream\n"
    "  average    of the chunks, ends of files included; 5%, 50%, 95%: their sizes\n"
    "  GB/s       cutting alone on one core\n"
    "  +blake3    cutting and fingerprinting on one core, GB/s: what a backup gets\n"
    "  share      what that is of the speed of fingerprinting alone, in the same run\n"
    "  index/TiB  memory for the index of a TiB of such data, in the agent and in kerfd\n"
    "  resent     what a change of one byte makes new, in average chunks";

}  // namespace

void AddAnalyzeVerb(Context& context, ExitCode (*run)(Context&, const AnalyzeFlags&)) {
  const Verb verb =
      AddVerb(context, "analyze",
              "Find out what chunking saves on your data, and the best profile for it", kExamples);
  auto flags = std::make_shared<AnalyzeFlags>();
  verb.AddOption("paths", flags->paths, "Files and folders")
      .Required()
      .Check(RefuseEmpty)
      .Type("PATH");
  verb.AddOption("--average", flags->averages, "Wanted averages of chunks")
      .Delimiter(',')
      .Repeat()
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--algorithm", flags->algorithms, "Only these; else all")
      .Delimiter(',')
      .Repeat()
      .Check(RefuseEmpty)
      .Type("NAME");
  verb.AddOption("--profile", flags->profiles,
                 "A profile to measure beside them, as it is (repeatable)")
      .Repeat()
      .Check(RefuseEmpty);
  verb.AddOption("--max-bytes", flags->max_bytes, "Content to hold in memory; else a sample")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--seed", flags->seed, "Of the sample and of the changes that are tried")
      .ShowDefault();
  verb.AddOption("--min-share", flags->min_share,
                 "Recommend nothing that, cutting and fingerprinting, is slower than this share of "
                 "fingerprinting alone; at 0.5 cutting takes as long as fingerprinting")
      .Range(0.0, 1.0)
      .ShowDefault();
  verb.AddOption("--index-memory", flags->index_memory,
                 "Recommend nothing whose index of a TiB needs more")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--digest", flags->digest, "blake3, sha256 or xxh3-128: for the speed with it")
      .ShowDefault();
  verb.AddOption("--backend", flags->backend,
                 "Kernels that cut: auto, plain, scalar, sse4, avx2, avx512, avx512vbmi, neon")
      .Environment(kBackendVariable)
      .ShowDefault();
  verb.AddOption("--exclude", flags->excludes, "Leave out what matches the pattern (repeatable)")
      .Repeat()
      .Type("GLOB");
  verb.AddOption("--plot", flags->plot, "Also draw a picture: FILE.svg or FILE.html")
      .Check(RefuseEmpty)
      .Type("FILE");
  verb.OnRun([&context, flags, run] { return run(context, *flags); });
}

}  // namespace kerf::agent
