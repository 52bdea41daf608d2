#include "client/agent/plan/walls.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/index_costs.h"
#include "base/limits.h"
#include "base/strings.h"
#include "client/store/packs/chunk_index.h"

namespace kerf::agent::plan {
namespace {

// docs/spec/access.md, `max_entries` of a repository.
constexpr double kMaxEntriesOfQuota = 1e15;
// --memory of a kerfd, unless it is told otherwise.
constexpr double kKerfdMemoryBytes = 1024.0 * 1024 * 1024;

constexpr std::array<LargerProfile, 5> kLarger = {{{"fastcdc2020-16k", 20e3},
                                                   {"fastcdc2020-32k", 40e3},
                                                   {"fastcdc2020-64k", 80e3},
                                                   {"mincdc:min=262144,max=786432", 524e3},
                                                   {"mincdc:min=1398101,max=4194304", 2.8e6}}};

std::string Bytes(double value) { return FormatFigure(Unit::kBytes, value); }
std::string Time(double value) { return FormatFigure(Unit::kSeconds, value); }

// What to do where there are `excess` times too many chunks.
std::string LargerChunks(const Input& input, double excess) {
  for (const LargerProfile& larger : kLarger) {
    if (larger.chunk_bytes >= input.chunk_bytes * excess) {
      return Cat("a new store with --profile ", larger.profile, " (chunks of ",
                 Bytes(larger.chunk_bytes), ")");
    }
  }
  return absl::StrFormat("%.0f stores, as no profile's chunks are large enough", std::ceil(excess));
}

class Finder {
 public:
  Finder(const Input& input, const Plan& plan)
      : input_(input), plan_(plan), chunk_count_(plan.ValueOf("chunks")) {}

  std::vector<Wall> Run() {
    LookAtAgents();
    if (input_.index == IndexKind::kRedis) {
      LookAtRedis();
    } else {
      LookAtRocksDb();
    }
    LookAtTimes();
    walls_.insert(walls_.end(), slow_.begin(), slow_.end());
    return std::move(walls_);
  }

 private:
  void Add(const char* key, bool stops, std::string what, std::string remedy) {
    (stops ? walls_ : slow_).push_back({key, stops, std::move(what), std::move(remedy)});
  }

  void LookAtAgents() {
    const double list_bytes = chunk_count_ * static_cast<double>(kIndexBytesPerChunk);
    const double room_bytes = kListedShare * input_.agent_bytes;
    if (list_bytes > room_bytes) {
      Add("agent_memory", true,
          Cat("restore and gc refuse, and backups go by place (adr/0026): the list of chunks "
              "takes ",
              Bytes(list_bytes), ", and they stop at three quarters of ",
              Bytes(input_.agent_bytes)),
          Cat(LargerChunks(input_, list_bytes / room_bytes), "; or machines with ",
              Bytes(list_bytes / kListedShare)));
    }
    const double metadata_bytes = plan_.ValueOf("metadata_bytes");
    if (metadata_bytes > kMaxMetadataBytes) {
      const double excess = metadata_bytes / kMaxMetadataBytes;
      Add("snapshot_size", true,
          Cat("a backup fails: the recipes of one snapshot take ", Bytes(metadata_bytes),
              ", and its file has room for some ", Bytes(kMaxMetadataBytes)),
          absl::StrFormat("%.0f snapshots or agents (--agents) instead of %u; or %s",
                          std::ceil(excess * input_.agent_count), input_.agent_count,
                          LargerChunks(input_, excess)));
    }
    if (chunk_count_ > kMaxEntriesOfQuota) {
      Add("max_entries", true, "no quota (max_entries) is so large",
          "no max_entries, or several "
          "repositories");
    }
    const double stream_bytes = plan_.ValueOf("kerfd_bytes");
    if (stream_bytes > kKerfdMemoryBytes) {
      Add("kerfd_memory", false,
          Cat("streams wait for each other: kerfd wants ", Bytes(stream_bytes),
              ", and --memory is 1 GiB"),
          "a larger --memory; fewer streams; more workers");
    }
  }

  void LookAtRedis() {
    const double base_bytes = plan_.ValueOf("redis_slot_bytes");
    if (plan_.ValueOf("redis_masters") == 0) {
      const double excess = std::max(1.0, (base_bytes * kFullestBases) / input_.master_bytes);
      Add("redis_slot", true,
          Cat("no number of masters has room: a base bucket, which one slot holds whole, has ",
              Bytes(base_bytes), ", and up to four of them meet on one master"),
          Cat("--master-memory ", Bytes(base_bytes * kFullestBases), "; or ",
              LargerChunks(input_, excess), "; or --index embedded"));
    }
    const double most_entries =
        std::ldexp(static_cast<double>(index_costs::kRedisMaxBucketEntries),
                   index_costs::kRedisBaseBits + index_costs::kRedisMaxPathBits);
    if (chunk_count_ > most_entries) {
      Add("redis_paths", false,
          Cat("buckets are no longer split: paths end at ",
              FormatFigure(Unit::kCount, most_entries), " chunks"),
          LargerChunks(input_, chunk_count_ / most_entries));
    }
    const double walk_s = plan_.ValueOf("epoch_s");
    const double timeout_s = std::chrono::duration<double>(limits::kIndexTimeout).count();
    if (walk_s > timeout_s) {
      Add("redis_walk", true,
          Cat("kerf gc and index rebuild end with INDEX_UNAVAILABLE: telling an epoch goes through "
              "all buckets, ",
              Time(walk_s), ", and --index-timeout-ms is ", Time(timeout_s), " (adr/0022)"),
          Cat("a repository that kerfd --redis-layout 3 begins, which is told in a second; or ",
              LargerChunks(input_, walk_s / timeout_s),
              "; or --index embedded; or again, for what was raised stays so"));
    }
  }

  void LookAtRocksDb() {
    const double cache_bytes = plan_.ValueOf("index_cache_bytes");
    if (cache_bytes > static_cast<double>(index_costs::kEmbeddedBlockCacheBytes)) {
      Add("index_cache", false,
          Cat("looking for new chunks reads the disk: filters take ", Bytes(cache_bytes),
              ", and the index's cache is ",
              Bytes(static_cast<double>(index_costs::kEmbeddedBlockCacheBytes))),
          Cat("memory for the system's page cache, and a fast disk; or ",
              LargerChunks(
                  input_, cache_bytes / static_cast<double>(index_costs::kEmbeddedBlockCacheBytes)),
              "; or --index redis"));
    }
    const double open_bytes = static_cast<double>(index_costs::kEmbeddedOpenFiles) *
                              static_cast<double>(index_costs::kEmbeddedFileBytes);
    const double disk_bytes = plan_.ValueOf("index_disk_bytes");
    if (disk_bytes > open_bytes) {
      Add("index_files", false,
          Cat("files of the index are opened again and again: it has ", Bytes(disk_bytes),
              " in files of 64 MiB, of which ", index_costs::kEmbeddedOpenFiles,
              " are open at once"),
          Cat(LargerChunks(input_, disk_bytes / open_bytes), "; or --index redis"));
    }
  }

  void LookAtTimes() {
    const double day_s = plan_.ValueOf("daily_backup_s") + plan_.ValueOf("gc_s");
    if (day_s > input_.window_s) {
      Add("window", false,
          Cat("a day's backups and a collection take ", Time(day_s), ", and --window is ",
              Time(input_.window_s)),
          "collect less often; more agents, workers and streams, which --rate is to say; a faster "
          "disk (--store-rate)");
    }
  }

  // With a master for each base bucket a hash puts so many on the fullest: one, and three standard
  // deviations (MastersFor).
  static constexpr double kFullestBases = 4;

  const Input& input_;
  const Plan& plan_;
  const double chunk_count_;
  // Those that stop something, and the others.
  std::vector<Wall> walls_;
  std::vector<Wall> slow_;
};

}  // namespace

std::span<const LargerProfile> LargerProfiles() { return kLarger; }

std::vector<Wall> FindWalls(const Input& input, const Plan& plan) {
  return Finder(input, plan).Run();
}

}  // namespace kerf::agent::plan
