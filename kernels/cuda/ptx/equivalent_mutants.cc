#include "kernels/cuda/ptx/equivalent_mutants.h"

#include <cxxabi.h>

#include <cstdlib>

namespace kerf::cuda::ptx {
namespace {

// Barriers are numbered as they stand in the kernel (launch.cuh): the one in front of a tile is 1,
// and p + 1 is in front of phase p. A race needs two threads in one interval of which one writes
// what the other one touches: so a barrier is not needed where, of the two intervals that it parts,
// neither writes what another thread touches in the other one.

constexpr std::string_view kNothingShared =
    "the kernel has one phase, no table, and nothing in shared memory";

// BlockScan: the last phase reads group_sums_ and the thread's own values_, the first one of the
// next tile writes the thread's own values_. What RowMarks gathers is read two barriers before the
// next tile writes it.
constexpr std::string_view kScanInFront =
    "between two tiles a thread touches but its own word of values_, and reads group_sums_";

constexpr std::string_view kOneTile = "there is one tile, and Begin does nothing";

// OrderCounts: the last phase reads, and the first one writes, counts[thread + n * 256].
constexpr std::string_view kOwnCounts = "between two tiles a thread touches but its own counts";

// OrderPlaces: the last phase adds to places, the first one of the next tile writes the thread's
// own values_, which was read in front of a barrier before; places are written two barriers later.
constexpr std::string_view kPlacesInFront =
    "the last phase touches places alone, the next tile's first one its own word of values_";

// Sha256Chunks: a block ends a tile when all threads have read a group behind the last one. In the
// next tile's first phase thread 0 then writes block_count alone, which nobody reads in between; in
// front of the first tile it has written the group itself.
constexpr std::string_view kGroupInFront =
    "at a tile's end threads read the group, which the next tile's first phase does not write";

// RankTiles: the last phase reads, and the first one writes, what is of the thread's own nodes.
constexpr std::string_view kOwnNodes =
    "between two tiles a thread touches what is of its nodes alone";

// Round 10 jumps over 1,024 nodes of a path, of a tile of 2,048 nodes whose edges lead forward. A
// node that looks at its target's jump stands in front of the tile's second half, and so does one
// whose jump is written, for its own target is in the tile: targets stand behind. Likewise a rank
// that is written is a target's, one that is read is that of a node with a target.
constexpr std::string_view kLastRound =
    "in the last round what is looked at is in the tile's second half, what is written in its first"
    " (ranks: the other way round)";

constexpr std::string_view kExitsAreLocal =
    "the phase behind it writes device memory alone, of what the thread has in registers";

// LongWalks: phase 1 writes fit_count alone. Without kEmits first_chunk is kNoChunk, so that phase
// 2 reads no fit_count; and the barrier in front of Again stands before anybody writes it.
constexpr std::string_view kNoFitCount =
    "without chunks to be written phase 2 reads nothing that phase 1 writes";

// Phase 2 writes device memory alone, of which Again reads nothing; Again reads walk.node, which is
// written behind the next barrier, in phase 0 of the next round or tile.
constexpr std::string_view kAgainReads = "phase 2 writes nothing in shared memory, and Again reads";

// Masks that are not all low bits have lost their lowest bit.

// LaneTable has the same words in each column: a thread reads those of its neighbour, from banks
// that are not its own.
constexpr std::string_view kColumn = "it is the column of a table whose columns are all the same";

// BasicCutRule::ForEachByte: from & ~31 in place of from & ~15. The loop begins 16 bytes earlier,
// which are in the batch, since a chunk begins 256 bytes before; no position in front of `from` is
// visited.
constexpr std::string_view kEarlierBlock =
    "the loop begins with sixteen bytes more, all in front of the first that is visited";

// ExtremeRule::NextBy, of chunks that end at no candidate: EmitChunks goes over a walk's chunks but
// the last, and the first round of a long walk over three of the eight that Edges has gone over.
// The mask makes One give the number of the position 2 (0x3) or 4 (0x3ffffffc) in front of a
// candidate. A candidate that counts is LeadPositions() or more behind the window's beginning, so
// that that position is in the window, too: its number is not below the window's smallest, which is
// in the lead. So the candidate loses with it as without.
constexpr std::string_view kLoses =
    "no candidate wins there, with its own number or with that of a place before it in the window";

constexpr EquivalentMutants kAll[] = {
    {"ScanTiles<ChunkLeaves>", "barrier", 1, 1, 3, kScanInFront},
    {"Scan<RowMarks>", "barrier", 1, 1, 8, kScanInFront},
    {"Scan<PieceNodes>", "barrier", 1, 1, 7, kScanInFront},
    {"Scan<PieceChunks>", "barrier", 1, 1, 7, kScanInFront},
    {"ScanTotals<ChunkLeaves>", "barrier", 1, 1, 3, kOneTile},
    {"Blake3Leaves", "barrier", 1, 1, 1, kNothingShared},
    {"PeakMarks", "barrier", 1, 1, 1, kNothingShared},
    {"EmitChunks<ExtremeRule<MinCdcHashes> >", "barrier", 1, 1, 1, kNothingShared},
    {"OrderCounts", "barrier", 1, 1, 3, kOwnCounts},
    {"OrderPlaces", "barrier", 1, 1, 4, kPlacesInFront},
    {"Sha256Chunks", "barrier", 1, 1, 2, kGroupInFront},
    {"RankTiles<false>", "barrier", 1, 1, 24, kOwnNodes},
    {"RankTiles<false>", "barrier", 23, 23, 24, kLastRound},
    {"RankTiles<false>", "barrier", 24, 24, 24, kExitsAreLocal},
    {"RankTiles<true>", "barrier", 1, 1, 24, kOwnNodes},
    {"RankTiles<true>", "barrier", 23, 23, 24, kLastRound},
    // 3 and 4 of the first round, 7 and 8 of the others.
    {"LongWalks<BasicCutRule<unsigned int>, false>", "barrier", 3, 3, 8, kNoFitCount},
    {"LongWalks<BasicCutRule<unsigned int>, false>", "barrier", 4, 4, 8, kAgainReads},
    {"LongWalks<BasicCutRule<unsigned int>, false>", "barrier", 7, 7, 8, kNoFitCount},
    {"LongWalks<BasicCutRule<unsigned int>, false>", "barrier", 8, 8, 8, kAgainReads},
    {"LongWalks<BasicCutRule<unsigned int>, true>", "barrier", 4, 4, 8, kAgainReads},
    {"LongWalks<BasicCutRule<unsigned int>, true>", "barrier", 8, 8, 8, kAgainReads},
    {"LongWalks<BasicCutRule<unsigned long>, false>", "barrier", 3, 3, 8, kNoFitCount},
    {"LongWalks<BasicCutRule<unsigned long>, false>", "barrier", 4, 4, 8, kAgainReads},
    {"LongWalks<BasicCutRule<unsigned long>, false>", "barrier", 7, 7, 8, kNoFitCount},
    {"LongWalks<BasicCutRule<unsigned long>, false>", "barrier", 8, 8, 8, kAgainReads},
    {"LongWalks<BasicCutRule<unsigned long>, true>", "barrier", 4, 4, 8, kAgainReads},
    {"LongWalks<BasicCutRule<unsigned long>, true>", "barrier", 8, 8, 8, kAgainReads},
    {"LongWalks<ExtremeRule<MinCdcHashes>, false>", "barrier", 3, 3, 8, kNoFitCount},
    {"LongWalks<ExtremeRule<MinCdcHashes>, false>", "barrier", 4, 4, 8, kAgainReads},
    {"LongWalks<ExtremeRule<MinCdcHashes>, false>", "barrier", 7, 7, 8, kNoFitCount},
    {"LongWalks<ExtremeRule<MinCdcHashes>, false>", "barrier", 8, 8, 8, kAgainReads},
    {"LongWalks<ExtremeRule<MinCdcHashes>, true>", "barrier", 4, 4, 8, kAgainReads},
    {"LongWalks<ExtremeRule<MinCdcHashes>, true>", "barrier", 8, 8, 8, kAgainReads},
    {"LongWalks<ExtremeRule<MaxCdcHashes>, false>", "barrier", 3, 3, 8, kNoFitCount},
    {"LongWalks<ExtremeRule<MaxCdcHashes>, false>", "barrier", 4, 4, 8, kAgainReads},
    {"LongWalks<ExtremeRule<MaxCdcHashes>, false>", "barrier", 7, 7, 8, kNoFitCount},
    {"LongWalks<ExtremeRule<MaxCdcHashes>, false>", "barrier", 8, 8, 8, kAgainReads},
    {"LongWalks<ExtremeRule<MaxCdcHashes>, true>", "barrier", 4, 4, 8, kAgainReads},
    {"LongWalks<ExtremeRule<MaxCdcHashes>, true>", "barrier", 8, 8, 8, kAgainReads},
    {"StripMarks<GearHash<unsigned int>, 1024u>", "0xfc", 1, 1, 1, kColumn},
    {"StripMarks<GearHash<unsigned long>, 1024u>", "0xf8", 1, 1, 1, kColumn},
    {"StripMarks<CrcHash, 512u>", "0x7c", 1, 1, 1, kColumn},
    {"StripMarks<RabinHash, 1024u>", "0x78", 1, 2, 2, kColumn},
    {"ExtremeMarks<MaxCdcHashes>", "0xfc", 1, 4, 4, kColumn},
    {"Edges<BasicCutRule<unsigned int> >", "0xfffffff0", 1, 1, 1, kEarlierBlock},
    {"Edges<BasicCutRule<unsigned long> >", "0xfffffff0", 1, 1, 1, kEarlierBlock},
    {"EmitChunks<BasicCutRule<unsigned int> >", "0xfffffff0", 1, 1, 1, kEarlierBlock},
    {"EmitChunks<BasicCutRule<unsigned long> >", "0xfffffff0", 1, 1, 1, kEarlierBlock},
    {"LongWalks<BasicCutRule<unsigned int>, false>", "0xfffffff0", 1, 4, 4, kEarlierBlock},
    {"LongWalks<BasicCutRule<unsigned int>, true>", "0xfffffff0", 1, 4, 4, kEarlierBlock},
    {"LongWalks<BasicCutRule<unsigned long>, false>", "0xfffffff0", 1, 4, 4, kEarlierBlock},
    {"LongWalks<BasicCutRule<unsigned long>, true>", "0xfffffff0", 1, 4, 4, kEarlierBlock},
    // Of kWalkCandidates each, 4 and 2; of LongWalks those in front of the second barrier.
    {"EmitChunks<ExtremeRule<MinCdcHashes> >", "0x3", 1, 4, 4, kLoses},
    {"EmitChunks<ExtremeRule<MinCdcHashes> >", "0x3ffffffc", 1, 4, 4, kLoses},
    {"EmitChunks<ExtremeRule<MaxCdcHashes> >", "0x3", 1, 2, 2, kLoses},
    {"EmitChunks<ExtremeRule<MaxCdcHashes> >", "0x3ffffffc", 1, 2, 2, kLoses},
    {"LongWalks<ExtremeRule<MinCdcHashes>, false>", "0x3", 1, 4, 16, kLoses},
    {"LongWalks<ExtremeRule<MinCdcHashes>, false>", "0x3ffffffc", 1, 4, 16, kLoses},
    {"LongWalks<ExtremeRule<MinCdcHashes>, true>", "0x3", 1, 4, 16, kLoses},
    {"LongWalks<ExtremeRule<MinCdcHashes>, true>", "0x3ffffffc", 1, 4, 16, kLoses},
    {"LongWalks<ExtremeRule<MaxCdcHashes>, false>", "0x3", 1, 2, 8, kLoses},
    {"LongWalks<ExtremeRule<MaxCdcHashes>, false>", "0x3ffffffc", 1, 2, 8, kLoses},
    {"LongWalks<ExtremeRule<MaxCdcHashes>, true>", "0x3", 1, 2, 8, kLoses},
    {"LongWalks<ExtremeRule<MaxCdcHashes>, true>", "0x3ffffffc", 1, 2, 8, kLoses},
};

}  // namespace

std::span<const EquivalentMutants> AllEquivalentMutants() { return kAll; }

std::string NameInLimits(const char* linker_name) {
  int status = 0;
  char* const readable = abi::__cxa_demangle(linker_name, nullptr, nullptr, &status);
  std::string name = readable != nullptr ? readable : linker_name;
  std::free(readable);
  // void kerf::cuda::launch_internal::RunTiles<NAME>(ARGUMENTS)
  constexpr std::string_view kBegin = "RunTiles<";
  const std::size_t begin = name.find(kBegin);
  const std::size_t end = name.find(">(");
  if (begin == std::string::npos || end == std::string::npos) return name;
  name = name.substr(begin + kBegin.size(), end - begin - kBegin.size());
  while (name.ends_with(' ')) name.pop_back();
  constexpr std::string_view kNamespace = "kerf::cuda::";
  for (std::size_t at = name.find(kNamespace); at != std::string::npos;
       at = name.find(kNamespace)) {
    name.erase(at, kNamespace.size());
  }
  return name;
}

bool IsOneOf(const EquivalentMutants& equivalent, const Mutant& mutant) {
  return equivalent.kind == mutant.kind && equivalent.first <= mutant.place &&
         mutant.place <= equivalent.last && equivalent.count == mutant.count &&
         equivalent.kernel == NameInLimits(mutant.kernel);
}

}  // namespace kerf::cuda::ptx
