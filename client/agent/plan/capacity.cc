#include "client/agent/plan/capacity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/index_costs.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/plan/walls.h"
#include "client/store/format/pack_format.h"
#include "client/store/format/store_costs.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/pack_writer.h"
#include "client/store/packs/placed_chunks.h"
#include "client/store/parity/parity_layout.h"
#include "kernels/chunker.h"
#include "kernels/stream_cutter.h"

namespace kerf::agent::plan {
namespace {

// Fewer chunks of more bytes, of profiles with large ones.
constexpr std::uint64_t kSampleBytes = 16 * kMiB;
constexpr std::uint64_t kSampleChunks = 1'000;
constexpr std::uint64_t kMaxSampleBytes = 64 * kMiB;
constexpr std::uint64_t kSampleSeed = 1;
constexpr std::size_t kPieceBytes = kMiB;
// Sizes of profiles for which a busy stream was measured (docs/performance.md, "The service").
constexpr std::uint32_t kSmallMaxBytes = 12'288;
constexpr std::uint32_t kMeasuredMaxBytes = 32'768;
// Of a block, raw (docs/spec/store.md).
constexpr double kBlockBytes = 512.0 * kKiB;
// --stream-memory and --hint-memory of a kerfd, unless it is told otherwise.
constexpr double kStreamMemoryBytes = 16.0 * kMiB;
constexpr double kHintMemoryBytes = 64.0 * kMiB;
// Of a collection beside what every verb holds: a bit for each chunk.
constexpr double kMarkBytesPerChunk = 1.0 / 8;

double StreamBytes(const Profile& profile) {
  if (profile.max_bytes <= kSmallMaxBytes) return kSmallStreamBytes;
  return profile.max_bytes <= kMeasuredMaxBytes ? kStreamBytes : kStreamMemoryBytes;
}

// Packs, their footers and parity.
struct Packs {
  double count = 0;
  double footer_bytes = 0;
  double bytes = 0;
  double parity_bytes = 0;
};

Packs PacksOf(const Input& input, double chunk_count, double stored_bytes) {
  const PackWriterOptions writer;
  const double chunk_bytes = stored_bytes / input.compression;
  Packs packs;
  packs.count = std::ceil(std::max(chunk_bytes / static_cast<double>(writer.target_pack_bytes),
                                   chunk_count / static_cast<double>(writer.max_pack_chunks)));
  packs.footer_bytes = chunk_count * store_costs::kFooterBytesPerChunk +
                       std::ceil(stored_bytes / kBlockBytes) * store_costs::kFooterBytesPerBlock;
  packs.bytes = chunk_bytes + packs.footer_bytes +
                packs.count * static_cast<double>(kPackHeaderBytes + kPackTrailerBytes);
  if (input.parity_percent > 0) {
    const auto pack_bytes = static_cast<std::uint64_t>(packs.bytes / packs.count) + 1;
    packs.parity_bytes =
        packs.count *
        static_cast<double>(ShapeFor(std::clamp<std::uint64_t>(pack_bytes, 1, kMaxParityPackBytes),
                                     input.parity_percent)
                                .file_bytes());
  }
  return packs;
}

class Reckoning {
 public:
  explicit Reckoning(const Input& input) : input_(input) {}

  Plan Run() {
    stored_bytes_ = input_.file_bytes / input_.deduplication;
    chunk_count_ = std::ceil(stored_bytes_ / input_.chunk_bytes);
    Add("file_bytes", "bytes of files", Unit::kBytes, input_.file_bytes, "as given");
    Add("unique_bytes", "deduplicated", Unit::kBytes, stored_bytes_, "--dedup");
    Add("chunks", "chunks", Unit::kCount, chunk_count_,
        Cat("of ", FormatFigure(Unit::kBytes, input_.chunk_bytes)));
    AddStore();
    AddIndex();
    AddAgents();
    AddTimes();
    plan_.walls = FindWalls(input_, plan_);
    return std::move(plan_);
  }

 private:
  void Add(const char* key, const char* label, Unit unit, double value, std::string source) {
    plan_.figures.push_back({key, label, unit, value, std::move(source)});
  }

  void AddStore() {
    const Packs packs = PacksOf(input_, chunk_count_, stored_bytes_);
    footer_bytes_ = packs.footer_bytes;
    metadata_bytes_ = input_.file_bytes / input_.chunk_bytes * store_costs::kRecipeBytesPerChunk;
    Add("packs", "packs", Unit::kCount, packs.count, "of 64 MiB, spec/store.md");
    Add("pack_bytes", "packs on disk", Unit::kBytes, packs.bytes, "--compression; with footers");
    Add("footer_bytes", "of them footers", Unit::kBytes, packs.footer_bytes, "44 B a chunk");
    Add("parity_bytes", "parity beside them", Unit::kBytes, packs.parity_bytes, "--parity");
    Add("metadata_bytes", "recipes of a snapshot", Unit::kBytes,
        metadata_bytes_ / input_.agent_count, "34 B a chunk, of an agent");
  }

  void AddIndex() {
    if (input_.index == IndexKind::kEmbedded) {
      Add("index_disk_bytes", "index on disk", Unit::kBytes,
          chunk_count_ * index_costs::kEmbeddedDiskBytes, "75 B a chunk, RocksDB");
      Add("index_cache_bytes", "of it to be cached", Unit::kBytes,
          chunk_count_ * index_costs::kEmbeddedCacheBytes, "1.5 B a chunk, filters");
    } else {
      const double bytes = chunk_count_ * index_costs::kRedisBytes;
      const double masters = MastersFor(bytes, input_.master_bytes);
      masters_ = masters > 0 ? masters : std::ldexp(1.0, index_costs::kRedisBaseBits);
      Add("redis_bytes", "Redis, each copy", Unit::kBytes, bytes, "70 B a chunk, adr/0008");
      Add("redis_total_bytes", "Redis, with replicas", Unit::kBytes,
          bytes * (1.0 + input_.replica_count), "--replicas");
      Add("redis_slot_bytes", "of a base bucket", Unit::kBytes,
          std::ldexp(bytes, -index_costs::kRedisBaseBits), "a slot has it whole, adr/0008");
      Add("redis_masters", "masters", Unit::kCount, masters, "--master-memory; 0: none do");
      Add("redis_master_bytes", "of each", Unit::kBytes, bytes / masters_, "");
    }
    const double fixed = input_.index == IndexKind::kEmbedded
                             ? static_cast<double>(index_costs::kEmbeddedBlockCacheBytes +
                                                   index_costs::kEmbeddedMemtableBytes)
                             : kHintMemoryBytes;
    Add("kerfd_bytes", "memory of kerfd", Unit::kBytes,
        kKerfdIdleBytes + fixed + input_.stream_count * StreamBytes(input_.profile),
        "--streams; performance.md");
  }

  void AddAgents() {
    const double list_bytes = chunk_count_ * static_cast<double>(kIndexBytesPerChunk);
    // By place beyond (docs/adr/0026-chunks-by-place.md).
    const bool is_listed = list_bytes <= kListedShare * input_.agent_bytes;
    const double by_place_bytes =
        std::min(static_cast<double>(kByPlaceBytes), input_.agent_bytes / 4);
    Add("backup_bytes", "memory of a backup", Unit::kBytes,
        kAgentIdleBytes + (is_listed ? list_bytes : by_place_bytes),
        "64 B a chunk, or by place: adr/0026");
    Add("gc_bytes", "memory of kerf gc", Unit::kBytes,
        kAgentIdleBytes + list_bytes + chunk_count_ * kMarkBytesPerChunk, "64 B and a bit a chunk");
    Add("restore_bytes", "memory of a restore", Unit::kBytes, kAgentIdleBytes + list_bytes,
        "64 B a chunk");
  }

  void AddTimes() {
    const bool is_embedded = input_.index == IndexKind::kEmbedded;
    const double rate = input_.rate > 0 ? input_.rate : (is_embedded ? kEmbeddedRate : kRedisRate);
    const double read_s = footer_bytes_ / input_.store_rate;
    const double walk_s = is_embedded ? 0 : chunk_count_ * kWalkSecondsPerChunk;
    const double commit_s = is_embedded ? chunk_count_ * kEmbeddedCommitSeconds
                                        : chunk_count_ / (kRedisCommitsPerSecond * masters_);
    Add("first_backup_s", "first backup", Unit::kSeconds, input_.file_bytes / rate, "--rate");
    Add("daily_backup_s", "each day's", Unit::kSeconds,
        read_s + input_.file_bytes * input_.daily_share / rate, "--daily, and all footers");
    Add("epoch_s", "telling an epoch", Unit::kSeconds, walk_s,
        is_embedded ? "one write" : "adr/0022");
    Add("gc_s", "kerf gc, at least", Unit::kSeconds,
        read_s + metadata_bytes_ / input_.store_rate + kWalksPerCollection * walk_s,
        "--store-rate, recipes once");
    Add("rebuild_s", "index rebuild, at least", Unit::kSeconds,
        read_s + commit_s + kWalksPerCollection * walk_s, is_embedded ? "adr/0025" : "adr/0008");
  }

  const Input& input_;
  Plan plan_;
  double stored_bytes_ = 0;
  double chunk_count_ = 0;
  double footer_bytes_ = 0;
  double metadata_bytes_ = 0;
  double masters_ = 1;
};

struct Step {
  double size;
  const char* name;
};

template <std::size_t kCount>
std::string InSteps(const std::array<Step, kCount>& steps, double value) {
  const Step* best = steps.data();
  for (const Step& step : steps) {
    if (value >= step.size) best = &step;
  }
  return absl::StrFormat("%.1f %s", value / best->size, best->name);
}

}  // namespace

double Plan::ValueOf(const std::string& key) const {
  for (const Figure& figure : figures) {
    if (figure.key == key) return figure.value;
  }
  KERF_CHECK(false);
  return 0;
}

bool Plan::HasWall(const std::string& key) const {
  return std::any_of(walls.begin(), walls.end(), [&](const Wall& wall) { return wall.key == key; });
}

double ExpectedChunkBytes(const Profile& profile) {
  const std::unique_ptr<Chunker> chunker = MakeChunker(profile);
  StreamCutter cutter(*chunker);
  Random random(kSampleSeed);
  std::vector<std::uint8_t> piece(kPieceBytes);
  std::uint64_t chunk_count = 0;
  std::uint64_t bytes = 0;
  while (true) {
    random.Fill(piece);
    for (std::span<const std::uint8_t> rest(piece); !rest.empty();) {
      rest = rest.subspan(cutter.Append(rest));
      while (const std::optional<StreamChunk> chunk = cutter.Next()) {
        ++chunk_count;
        bytes += chunk->bytes.size();
        const bool is_enough = bytes >= kSampleBytes && chunk_count >= kSampleChunks;
        if (is_enough || bytes >= kMaxSampleBytes) {
          return static_cast<double>(bytes) / static_cast<double>(chunk_count);
        }
      }
    }
  }
}

Plan Reckon(const Input& input) { return Reckoning(input).Run(); }

double MastersFor(double index_bytes, double master_bytes) {
  if (index_bytes <= master_bytes) return 1;
  constexpr unsigned kBaseCount = 1u << index_costs::kRedisBaseBits;
  const double base_bytes = index_bytes / kBaseCount;
  constexpr unsigned kLeast = 3;
  for (unsigned masters = kLeast; masters < kBaseCount; ++masters) {
    const double mean = static_cast<double>(kBaseCount) / masters;
    if ((mean + 3 * std::sqrt(mean)) * base_bytes <= master_bytes) return masters;
  }
  return 0;
}

std::string FormatFigure(Unit unit, double value) {
  constexpr std::array<Step, 4> kCounts = {
      {{1e6, "million"}, {1e9, "billion"}, {1e12, "trillion"}, {1e15, "thousand trillion"}}};
  constexpr std::array<Step, 6> kSizes = {{{0x1p10, "KiB"},
                                           {0x1p20, "MiB"},
                                           {0x1p30, "GiB"},
                                           {0x1p40, "TiB"},
                                           {0x1p50, "PiB"},
                                           {0x1p60, "EiB"}}};
  constexpr std::array<Step, 5> kTimes = {
      {{1, "s"}, {60, "min"}, {3600, "h"}, {86'400, "days"}, {365.25 * 86'400, "years"}}};
  switch (unit) {
    case Unit::kCount:
      return value < 1e6 ? absl::StrFormat("%.0f", value) : InSteps(kCounts, value);
    case Unit::kBytes:
      return value < 1024 ? absl::StrFormat("%.0f B", value) : InSteps(kSizes, value);
    case Unit::kSeconds:
      return value == 0 ? "0" : InSteps(kTimes, value);
  }
  return "";
}

}  // namespace kerf::agent::plan
