// What so many bytes need of kerf: chunks, index, memory, disk, time, and where it ends. Arithmetic
// alone: nothing is asked, read or measured. All in doubles, so that no size overflows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/profile.h"

namespace kerf::agent::plan {

// Figures of docs/performance.md and the decisions that the output names. What the code itself
// says is taken from it: base/index_costs.h, client/store/format/store_costs.h, ChunkIndex.

// docs/adr/0022: AdvanceEpoch, 34 s over 262,144 buckets of 12 million chunks.
inline constexpr double kWalkSecondsPerChunk = 34.0 / 12e6;
// A collection raises the epoch twice (docs/adr/0005).
inline constexpr double kWalksPerCollection = 2;
// docs/adr/0025: processor time for a new entry, with all that RocksDB does behind it.
inline constexpr double kEmbeddedCommitSeconds = 1.23e-6;
// docs/adr/0008: commits for each CPU second of a Redis.
inline constexpr double kRedisCommitsPerSecond = 80'000;
// docs/performance.md, "Through a front", straight, one stream, unix socket; and "A cluster on one
// machine", quiet, one worker. Bytes a second.
inline constexpr double kEmbeddedRate = 675e6;
inline constexpr double kRedisRate = 281e6;
// docs/performance.md, "The service", and "Beside restic and borg" (peak of an agent).
inline constexpr double kKerfdIdleBytes = 24.0 * (1 << 20);
inline constexpr double kSmallStreamBytes = 2.1 * (1 << 20);
inline constexpr double kStreamBytes = 4.3 * (1 << 20);
inline constexpr double kAgentIdleBytes = 144e6;
// docs/spec/store.md, "Limits": metadata streams of one snapshot.
inline constexpr double kMaxMetadataBytes = 100e9;

enum class IndexKind : std::uint8_t { kEmbedded, kRedis };

struct Input {
  // Of files, as a first backup reads them.
  double file_bytes = 0;
  // How many times larger they are than what is left when all that occurs twice is counted once.
  double deduplication = 1;
  // The same of packs, by compression.
  double compression = 1;
  Profile profile;
  // Mean of the chunks.
  double chunk_bytes = 0;
  IndexKind index = IndexKind::kEmbedded;
  // Of each master.
  unsigned replica_count = 1;
  // That each Redis may use (maxmemory).
  double master_bytes = 0;
  // Memory of each machine that uses the store.
  double agent_bytes = 0;
  // Machines that back up into it, each as much as the others.
  unsigned agent_count = 1;
  // Of kerfd, at once.
  unsigned stream_count = 8;
  // Share of the files' bytes that a day makes new.
  double daily_share = 0;
  unsigned parity_percent = 0;
  // Of all agents together, bytes of files a second; 0: as measured.
  double rate = 0;
  // At which packs are read.
  double store_rate = 0;
  // In which a day's backups and a collection should be done.
  double window_s = 0;
};

enum class Unit : std::uint8_t { kCount, kBytes, kSeconds };

struct Figure {
  // Of the object for programs.
  std::string key;
  // For people.
  std::string label;
  Unit unit = Unit::kCount;
  double value = 0;
  // Where it is from.
  std::string source;
};

struct Wall {
  // Of the object for programs.
  std::string key;
  // Something is refused or fails; else it becomes slow.
  bool stops = false;
  std::string what;
  std::string remedy;
};

struct Plan {
  std::vector<Figure> figures;
  std::vector<Wall> walls;

  // Of a figure that is there.
  double ValueOf(const std::string& key) const;
  bool HasWall(const std::string& key) const;
};

// Mean of the profile's chunks of random bytes: it cuts some. The same on every machine, for cuts
// are (docs/spec/chunking.md).
double ExpectedChunkBytes(const Profile& profile);

Plan Reckon(const Input& input);

// Masters for so many bytes of one repository in Redis: at least three of a cluster, or one Redis
// alone; none: not even a master for each base bucket has room. Base buckets are spread by a hash:
// what three standard deviations more of them take has room, too.
double MastersFor(double index_bytes, double master_bytes);

// "134.2 million", "1.0 TiB", "3.4 days".
std::string FormatFigure(Unit unit, double value);

}  // namespace kerf::agent::plan
