#include "client/lab/flags/rapid_flags.h"

#include <memory>

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf bench rapid\n"
    "  kerf bench rapid backup-monday backup-tuesday backup-wednesday\n"
    "  kerf bench rapid --profile rabin-8k --size 500M --edits 1000,2000,5000,10000,20000\n"
    "  kerf bench rapid --kinds overwrite --cluster 0 --rounds 9 --json > rapid.json\n\n"
    "Each VERSION, or each folder or file in the only one, is a version; without any, versions of\n"
    "a file of random bytes are made by seeded edits. One thread, everything in memory. A table\n"
    "for each series of versions and each profile:\n"
    "  mode      regular: the base algorithm alone; exact: the same cuts with hints; else what\n"
    "            makes a predicted cut be accepted. \"all fail\": hints about as good, none right\n"
    "  hints     runs: lists of chunks, to which the index points; sizes: of the chunks that\n"
    "            followed, in each entry of the index, so many\n"
    "  GB/s      of the versions behind the first one; times: regular cutting's time over this\n"
    "            one's, medians of rounds; series: the same with the first version\n"
    "  ratio     all bytes over those of chunks that are there once\n"
    "  scanned   share of the later versions in chunks whose end was scanned for\n"
    "  hits      accepted sizes by their place in the list\n"
    "Cutting alone leaves fingerprints and look-ups out of both sides. The index is one in "
    "memory.\n"
    "Times are CPU times. Cuts and fingerprints are checked before anything is measured.";

void AddMadeOptions(const Verb& verb, RapidFlags& flags) {
  verb.AddOption("--size", flags.size, "Of the file whose versions are made")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--versions", flags.version_count, "How many are made, the first included")
      .Range(2u, 1000u)
      .ShowDefault();
  verb.AddOption("--edits", flags.edits, "From one version to the next; each is a series")
      .Delimiter(',')
      .Repeat()
      .ShowDefault();
  verb.AddOption("--edit-size", flags.edit_bytes, "Bytes that an edit changes")
      .Range(1u, 1u << 20)
      .ShowDefault();
  verb.AddOption("--kinds", flags.kinds, "Kinds of edits")
      .Choices({"mixed", "insert-delete", "overwrite"})
      .ShowDefault();
  verb.AddOption("--cluster", flags.cluster_percent,
                 "One more series has its edits in so many percent of the file; 0: none")
      .Range(0u, 99u)
      .ShowDefault();
  verb.AddOption("--seed", flags.seed, "Of the data that is made").ShowDefault();
}

}  // namespace

void AddBenchRapid(Context& context, const Verb& bench_verb,
                   ExitCode (*run)(Context&, const RapidFlags&)) {
  const Verb verb = bench_verb.AddVerb(
      "rapid", "What hints about the next cut save, on your versions or on made ones", kExamples);
  auto flags = std::make_shared<RapidFlags>();
  verb.AddOption("versions", flags->versions, "Files or folders, oldest first; else made ones")
      .Check(RefuseEmpty)
      .Type("VERSION");
  verb.AddOption("--profile", flags->profiles, "A base algorithm (repeatable)")
      .Repeat()
      .Check(RefuseEmpty)
      .ShowDefault();
  verb.AddOption("--digest", flags->digest, "blake3, sha256 or xxh3-128").ShowDefault();
  verb.AddOption("--rounds", flags->rounds, "The report has their medians")
      .Range(1u, 1000u)
      .ShowDefault();
  verb.AddOption("--max-bytes", flags->max_bytes, "Versions that are read may have so much")
      .Type("SIZE")
      .ShowDefault();
  AddMadeOptions(verb, *flags);
  verb.OnRun([&context, flags, run] { return run(context, *flags); });
}

}  // namespace kerf::agent
