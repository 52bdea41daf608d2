#include "client/lab/flags/service_flags.h"

#include <memory>

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf bench service\n"
    "  kerf bench service --rounds 9 --tcp --json > service.json\n"
    "  kerf bench service --front --idle-streams 0 --busy-streams 0\n"
    "  kerf bench service --shared-memory --idle-streams 0 --busy-streams 0\n"
    "  kerf bench service --local-cut --idle-streams 0 --busy-streams 0\n"
    "  kerf bench service --duplicate 100 --idle-streams 0 --busy-streams 0\n"
    "  kerf bench service --server unix:/run/kerfd.sock     a kerfd that runs; leaves entries of "
    "a\n"
    "                                                       repository of its own in its index\n\n"
    "CPU seconds are user plus system time of all processes, the front's and kerfd's together. A "
    "GB "
    "is\n10^9 bytes.";

}  // namespace

void AddBenchService(Context& context, const Verb& bench_verb,
                     ExitCode (*run)(Context&, const ServiceFlags&)) {
  const Verb verb = bench_verb.AddVerb(
      "service", "kerfd beside a raw gRPC stream, and beside cutting and hashing alone", kExamples);
  auto flags = std::make_shared<ServiceFlags>();
  bench::ServiceOptions& options = flags->options;
  options.stream_counts = {1, 8};
  options.rounds = 5;
  options.idle_streams = 1000;
  options.busy_streams = 100;
  verb.AddOption("--kerfd", options.kerfd_path, "The program to start; else that beside kerf")
      .Check(RefuseEmpty)
      .Type("PATH");
  verb.AddOption("--server", flags->server.address, "A kerfd that runs, instead of starting one")
      .Check(RefuseEmpty)
      .Type("ADDR");
  AddTlsOptions(verb, flags->server);
  verb.AddFlag("--front", options.front,
               "Also through a front (kerfd --role front) that is started");
  verb.AddFlag("--shared-memory", options.shared_memory,
               "Also with a client that shares its memory, at a unix socket");
  verb.AddFlag("--local-cut", options.local_cut,
               "Also with a client that cuts, as kerf backup --cut local");
  verb.AddFlag("--tcp", options.tcp, "Loopback TCP instead of a unix socket");
  verb.AddOption("--profile", flags->profile, "A named profile, or algorithm:key=value,...")
      .ShowDefault();
  verb.AddOption("--digest", flags->digest, "blake3, sha256 or xxh3-128").ShowDefault();
  verb.AddOption("--size", flags->size, "Bytes of one pass, over all its streams")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--message", flags->message, "File data in one message")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--streams", options.stream_counts, "Numbers of streams at once")
      .Delimiter(',')
      .Range(1u, 1000u)
      .ShowDefault();
  verb.AddOption("--rounds", options.rounds, "Rounds; the report has their medians")
      .Range(1u, 1000u)
      .ShowDefault();
  verb.AddOption("--duplicate", options.duplicate_percent,
                 "Percent of the data that kerfd has in its index")
      .Range(0u, 100u)
      .ShowDefault();
  verb.AddOption("--idle-streams", options.idle_streams, "Open, silent streams; 0: none")
      .Range(0u, 1000u)
      .ShowDefault();
  verb.AddOption("--busy-streams", options.busy_streams, "Streams that all send; 0: none")
      .Range(0u, 1000u)
      .ShowDefault();
  verb.AddOption("--busy-size", flags->busy_size, "What each busy stream sends")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--seed", flags->seed, "Of the data; 0: another one each time").ShowDefault();
  verb.OnRun([&context, flags, run] { return run(context, *flags); });
}

void AddRawPeer(Context& context, const Verb& bench_verb,
                ExitCode (*run)(Context&, const RawPeerFlags&)) {
  const Verb verb = bench_verb.AddHiddenVerb("raw-peer");
  auto flags = std::make_shared<RawPeerFlags>();
  verb.AddOption("--listen", flags->listen, "").Required();
  verb.AddOption("--ready-file", flags->ready_file, "").Required();
  verb.OnRun([&context, flags, run] { return run(context, *flags); });
}

}  // namespace kerf::agent
