// The selection's kernels in the emulator: cuts are those of the sequential rules, and of the marks
// they are given, whatever a batch consists of.
#include "kernels/cuda/kernel/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/cuda/kernel/cut_rule_of.h"
#include "kernels/cuda/kernel/emulated_selection.h"
#include "kernels/cuda/kernel/selection_testing.h"
#include "kernels/cuda/kernel/wide_gear.h"
#include "kernels/cuda/kernel/wide_gear_marker.h"
#include "kernels/testing/inputs.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {
namespace {

bool HasMark(const std::vector<std::uint32_t>& words, std::size_t position) {
  return (words[position / 32] >> (position % 32) & 1) != 0;
}

// Chunks of a piece and, if it were the end of its stream, whether the last one is its rest.
struct Expected {
  std::vector<std::uint32_t> sizes;
  std::uint32_t consumed_bytes = 0;
};

// The hash of the bytes that decide at a position.
template <class Rule>
auto WindowHash(const Rule& rule, const Batch& batch, std::size_t position) {
  auto hash = rule.strict_mask;
  hash = 0;
  for (std::size_t at = position + 1 - rule.window_bytes; at <= position; ++at) {
    hash = (hash << 1) + rule.table[batch.bytes[at]];
  }
  return hash;
}

std::size_t StepBytes(const GearRule&) { return 1; }
std::size_t StepBytes(const WideGearRule& rule) { return rule.step_bytes; }

// A mark of the only mask there is says all.
bool IsMarkEnough(const GearRule& rule) { return rule.strict_mask == rule.loose_mask; }
bool IsMarkEnough(const WideGearRule&) { return false; }

// The first end of a chunk by the marks, of `size` bytes at hand; 0 if there is none.
template <class Rule>
std::size_t FirstEnd(const Rule& rule, const Batch& batch, const BatchMarks& marks,
                     std::size_t start, std::size_t size) {
  auto hash = rule.strict_mask;
  hash = 0;
  for (std::size_t index = rule.min_bytes; index < size - size % StepBytes(rule); ++index) {
    const auto mask = index < rule.avg_bytes ? rule.strict_mask : rule.loose_mask;
    if (index < rule.min_bytes + rule.window_bytes - 1) {
      hash = (hash << 1) + rule.table[batch.bytes[start + index]];
      if ((hash & mask) == 0) return index;
    } else if (HasMark(marks, start + index) &&
               (IsMarkEnough(rule) || (WindowHash(rule, batch, start + index) & mask) == 0)) {
      return index;
    }
  }
  return 0;
}

std::size_t FirstEnd(const LocalRule& rule, const Batch&, const BatchMarks& marks,
                     std::size_t start, std::size_t size) {
  for (std::size_t index = rule.first_bytes; index + rule.behind_bytes < size; ++index) {
    if (HasMark(marks, start + index)) return index + rule.after_bytes;
  }
  return 0;
}

template <class Rule>
Expected CutPiece(const Rule& rule, const Batch& batch, const BatchMarks& marks,
                  const Piece& piece) {
  Expected expected;
  while (expected.consumed_bytes < piece.size_bytes) {
    const std::size_t left = piece.size_bytes - expected.consumed_bytes;
    const std::size_t size = std::min(left, rule.max_bytes);
    std::size_t cut = FirstEnd(rule, batch, marks, piece.offset + expected.consumed_bytes, size);
    if (cut == 0 && piece.is_end == 0 && left < rule.max_bytes) break;
    if (cut == 0) cut = size;
    expected.sizes.push_back(static_cast<std::uint32_t>(cut));
    expected.consumed_bytes += static_cast<std::uint32_t>(cut);
  }
  return expected;
}

using AnyRule = std::variant<GearRule, LocalRule, WideGearRule>;

// A rule and the device's form of it.
struct Setting {
  AnyRule rule;
  std::variant<CutRule, WideCutRule> cut_rule;
  std::uint32_t candidate_bytes_log2;
};

Setting SettingOf(const AnyRule& rule, std::uint32_t candidate_bytes_log2) {
  return {rule, CutRule{}, candidate_bytes_log2};
}

AnyRule RuleOf(const Profile& profile) {
  if (const auto wide = WideGearRuleOf(profile)) return *wide;
  return std::visit([](const auto& rule) { return AnyRule(rule); }, *TwoStageRuleOf(profile));
}

// The table is the setting's own, so that it must not move afterwards.
void Prepare(Setting& setting) {
  if (const auto* local = std::get_if<LocalRule>(&setting.rule)) {
    setting.cut_rule = CutRuleOf(*local);
  } else if (const auto* gear = std::get_if<GearRule>(&setting.rule)) {
    setting.cut_rule = CutRuleOf(*gear, gear->table.data());
  } else {
    const auto& wide = std::get<WideGearRule>(setting.rule);
    setting.cut_rule = CutRuleOf(wide, wide.table.data());
  }
}

std::unique_ptr<Marker> MarkerOf(const GearRule& rule) { return MakeScalarMarker(rule); }
std::unique_ptr<Marker> MarkerOf(const WideGearRule& rule) {
  return std::make_unique<WideGearMarker>(rule);
}

std::unique_ptr<Marker> MarkerOf(const Profile& profile) {
  if (const auto wide = WideGearRuleOf(profile)) return MarkerOf(*wide);
  return MakeScalarMarker(profile);
}

// Where the rule begins to do something else.
struct Bounds {
  std::uint32_t lead_bytes;
  std::uint32_t first_bytes;
  std::uint32_t behind_bytes;
  std::uint32_t max_bytes;
};

Bounds BoundsOf(const Setting& setting) {
  return std::visit(
      [](const auto& rule) {
        return Bounds{rule.lead_bytes, rule.first_bytes, rule.behind_bytes, rule.max_bytes};
      },
      setting.cut_rule);
}

bool IsDense(const Setting& setting, const BatchMarks& marks, const Piece& piece) {
  const Bounds rule = BoundsOf(setting);
  if (rule.first_bytes + rule.behind_bytes >= rule.max_bytes) return false;
  std::uint32_t count = 0;
  for (std::size_t index = rule.first_bytes; index + rule.behind_bytes < piece.size_bytes;
       ++index) {
    count += HasMark(marks, piece.offset + index) ? 1 : 0;
  }
  return count > (piece.size_bytes >> setting.candidate_bytes_log2) + kSpareCandidates;
}

Selected Select(const Setting& setting, const Batch& batch, const BatchMarks& marks,
                const EmulatorOptions& options = {}) {
  return std::visit(
      [&](const auto& rule) {
        return EmulateSelection(rule, setting.candidate_bytes_log2, batch, marks, options);
      },
      setting.cut_rule);
}

// All that a selection says is what the marks say.
void ExpectCutsOfMarks(const Setting& setting, const Batch& batch, const BatchMarks& marks,
                       const Selected& selected) {
  ASSERT_EQ(selected.cuts.size(), batch.pieces.size());
  std::uint32_t first_chunk = 0;
  for (std::size_t index = 0; index < batch.pieces.size(); ++index) {
    const Piece& piece = batch.pieces[index];
    const SelectedCuts& cuts = selected.cuts[index];
    SCOPED_TRACE(Cat("piece ", index, ", ", piece.size_bytes, " bytes at ", piece.offset,
                     piece.is_end != 0 ? ", end" : ""));
    ASSERT_EQ(cuts.first_chunk, first_chunk);
    ASSERT_EQ(cuts.needs_cpu, IsDense(setting, marks, piece) ? 1u : 0u);
    if (cuts.needs_cpu != 0) {
      ASSERT_EQ(cuts.chunk_count, 0u);
      ASSERT_EQ(cuts.consumed_bytes, 0u);
      continue;
    }
    const Expected expected = std::visit(
        [&](const auto& rule) { return CutPiece(rule, batch, marks, piece); }, setting.rule);
    ASSERT_EQ(cuts.consumed_bytes, expected.consumed_bytes);
    ASSERT_EQ(cuts.chunk_count, expected.sizes.size());
    std::uint32_t offset = piece.offset;
    for (const std::uint32_t size : expected.sizes) {
      ASSERT_EQ(selected.chunks[first_chunk].offset, offset);
      ASSERT_EQ(selected.chunks[first_chunk].size_bytes, size);
      offset += size;
      ++first_chunk;
    }
  }
  ASSERT_EQ(selected.chunks.size(), first_chunk);
}

// Sizes of all kinds around those at which a rule does something else.
std::size_t AnySize(const Bounds& rule, Random& random) {
  switch (random.Below(5)) {
    case 0:
      return random.Below(3);
    case 1:
      return random.Between(rule.lead_bytes - 1, rule.first_bytes + 1);
    case 2:
      return random.Between(rule.max_bytes - 1, rule.max_bytes + 1);
    case 3:
      return random.Below(200);
    default:
      return random.Below(4 * rule.max_bytes + 2);
  }
}

class Selection : public ::testing::TestWithParam<const char*> {
 protected:
  Selection() : setting_(SettingOf(RuleOf(profile_), *CandidateBytesLog2(profile_))) {
    Prepare(setting_);
  }

  const Profile profile_ = *ParseProfile(GetParam());
  Setting setting_;
  const std::unique_ptr<Marker> marker_ = MarkerOf(profile_);
};

TEST_P(Selection, NastyInputsInOneBatch) {
  Random random(TestSeed());
  Batch batch;
  for (const InputName& name : NastyInputs()) {
    Append(batch, MakeInput(name.kind, name.seed, random.Between(30000, 100000)), random.OneIn(2),
           random);
  }
  Close(batch);
  const BatchMarks marks = MarkBatch(*marker_, batch.bytes);
  const Selected selected = Select(setting_, batch, marks, AnyOrder(random));
  ASSERT_NO_FATAL_FAILURE(ExpectCutsOfMarks(setting_, batch, marks, selected));
  // Some periods have marks in such numbers that the CPU cuts them.
  Batch others = batch;
  std::erase_if(others.pieces, [&](const Piece& it) { return IsDense(setting_, marks, it); });
  ExpectCutsOfReference(profile_, others, Select(setting_, others, marks));
}

TEST_P(Selection, ManySmallPieces) {
  Random random(TestSeed());
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(Cat("round ", round));
    Batch batch;
    while (batch.pieces.size() < 80 && batch.bytes.size() < 300000) {
      Append(batch, AnyBytes(AnySize(BoundsOf(setting_), random), random), random.OneIn(2), random);
    }
    Close(batch);
    const BatchMarks marks = MarkBatch(*marker_, batch.bytes);
    const Selected selected = Select(setting_, batch, marks, AnyOrder(random));
    ASSERT_NO_FATAL_FAILURE(ExpectCutsOfMarks(setting_, batch, marks, selected));
    std::erase_if(batch.pieces, [&](const Piece& it) { return IsDense(setting_, marks, it); });
    ASSERT_NO_FATAL_FAILURE(ExpectCutsOfReference(profile_, batch, Select(setting_, batch, marks)));
  }
}

// As a server's batches have them that is sent many small files.
TEST_P(Selection, MorePiecesThanATile) {
  Random random(TestSeed());
  struct Shape {
    std::size_t piece_count;
    std::uint64_t most_bytes;
  };
  // Of the last one there are more pieces than threads for its bytes.
  for (const Shape& shape : {Shape{256, 400}, {257, 400}, {1031, 400}, {2000, 20}}) {
    SCOPED_TRACE(Cat(shape.piece_count, " pieces"));
    Batch batch;
    while (batch.pieces.size() < shape.piece_count) {
      const std::uint64_t most_bytes = random.OneIn(1000) ? 5000 : shape.most_bytes;
      Append(batch, AnyBytes(random.Below(most_bytes), random), random.OneIn(2), random);
    }
    Close(batch);
    const BatchMarks marks = MarkBatch(*marker_, batch.bytes);
    const Selected selected = Select(setting_, batch, marks, AnyOrder(random));
    ASSERT_NO_FATAL_FAILURE(ExpectCutsOfMarks(setting_, batch, marks, selected));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Profiles, Selection,
    ::testing::Values(
        "gear-8k", "gear:min=64,avg=256,max=256", "gear:min=65,avg=256,max=999",
        "gear:min=100,avg=65536,max=70000", "fastcdc-8k", "fastcdc:min=64,avg=256,max=256,level=0",
        "fastcdc:min=64,avg=256,max=300,level=3", "fastcdc:min=511,avg=512,max=4000,level=1",
        "crc-8k", "crc:min=256,bits=6,max=256", "crc:min=300,bits=8,max=1001", "rabin-8k",
        "rabin:min=64,avg=256,max=256", "rabin:min=65,avg=512,max=999", "maxp-local-8k",
        "maxp-local:window=64,max=150", "maxp-local:window=100,max=3000", "fastcdc2020-8k",
        "fastcdc2020-64k", "fastcdc2020:min=64,avg=1024,max=1024,level=0",
        "fastcdc2020:min=300,avg=65536,max=70000,level=0",
        "fastcdc2020:min=1000,avg=8192,max=10000,level=3"));

// Tables, masks and marks under which all that can happen happens in small inputs. Marks of no rule
// at all, too: what is cut must follow from the marks alone.
template <class Rule>
Rule AnyGear(Random& random) {
  Rule rule{};
  using Word = decltype(rule.strict_mask);
  for (Word& value : rule.table) value = static_cast<Word>(random.Next());
  if (random.OneIn(4)) rule.table[0] = 0;
  do {
    rule.strict_mask = static_cast<Word>(random.Next() & random.Next() & random.Next());
  } while (rule.strict_mask == 0);
  if (random.OneIn(2)) rule.strict_mask |= static_cast<Word>(random.Next());
  rule.loose_mask = rule.strict_mask & static_cast<Word>(random.Next());
  // Bits that strict has not.
  if (random.OneIn(2)) {
    rule.loose_mask |= static_cast<Word>(random.Next() & random.Next() & random.Next());
  }
  // Not so few that a walk over 6000 bytes is one that is given up.
  rule.min_bytes = random.Between(8, 70);
  rule.avg_bytes = rule.min_bytes + random.Below(100);
  rule.max_bytes = rule.avg_bytes + random.Below(100);
  return rule;
}

Setting AnyToy(Random& random) {
  const std::uint32_t candidate_bytes_log2 = static_cast<std::uint32_t>(random.Between(1, 7));
  if (random.OneIn(3)) {
    LocalRule rule;
    rule.first_bytes = random.Between(1, 70);
    rule.behind_bytes = random.OneIn(2) ? 0 : random.Below(70);
    rule.after_bytes = rule.behind_bytes == 0 ? random.Below(2) : 0;
    rule.max_bytes = rule.first_bytes + rule.behind_bytes + 1 + random.Below(200);
    return SettingOf(rule, candidate_bytes_log2);
  }
  if (random.OneIn(2)) {
    GearRule rule = AnyGear<GearRule>(random);
    // As the profiles have them: what is strict is loose.
    if (random.OneIn(2)) rule.loose_mask &= rule.strict_mask;
    rule.window_bytes =
        static_cast<std::size_t>(std::bit_width(rule.strict_mask | rule.loose_mask));
    return SettingOf(rule, candidate_bytes_log2);
  }
  WideGearRule rule = AnyGear<WideGearRule>(random);
  rule.window_bytes = static_cast<std::size_t>(std::bit_width(rule.strict_mask | rule.loose_mask));
  rule.step_bytes = std::size_t{1} << random.Below(3);
  // Of whole steps, so that only a stream's last chunk is not.
  rule.max_bytes = (rule.max_bytes + 3) / 4 * 4;
  return SettingOf(rule, candidate_bytes_log2);
}

BatchMarks AnyMarks(std::size_t size_bytes, Random& random) {
  BatchMarks marks;
  const std::uint64_t rare = std::uint64_t{1} << random.Below(10);
  while (marks.size() < MarkWordCount(size_bytes)) {
    std::uint32_t word = 0;
    for (unsigned bit = 0; bit < 32; ++bit) {
      word |= std::uint32_t{random.OneIn(rare) ? 1u : 0u} << bit;
    }
    marks.push_back(word);
  }
  return marks;
}

TEST(SelectionToys, AnyRuleAndAnyMarks) {
  Random random(TestSeed());
  std::size_t dense_count = 0;
  std::size_t sparse_count = 0;
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(Cat("round ", round));
    Setting setting = AnyToy(random);
    Prepare(setting);
    Batch batch;
    const std::size_t piece_count = random.Below(8);
    for (std::size_t index = 0; index < piece_count; ++index) {
      std::vector<std::uint8_t> bytes = AnyBytes(
          random.OneIn(3) ? random.Below(6000) : AnySize(BoundsOf(setting), random), random);
      if (random.OneIn(2)) {
        for (std::uint8_t& byte : bytes) byte &= 3;
      }
      Append(batch, bytes, random.OneIn(2), random);
    }
    Close(batch);
    BatchMarks marks = AnyMarks(batch.bytes.size(), random);
    if (random.OneIn(2)) {
      if (const auto* gear = std::get_if<GearRule>(&setting.rule)) {
        marks = MarkBatch(*MarkerOf(*gear), batch.bytes);
      } else if (const auto* wide = std::get_if<WideGearRule>(&setting.rule)) {
        marks = MarkBatch(*MarkerOf(*wide), batch.bytes);
      }
    }
    const Selected selected = Select(setting, batch, marks, AnyOrder(random));
    ASSERT_NO_FATAL_FAILURE(ExpectCutsOfMarks(setting, batch, marks, selected));
    for (const SelectedCuts& cuts : selected.cuts) ++(cuts.needs_cpu ? dense_count : sparse_count);
  }
  EXPECT_GT(dense_count, 10u);
  EXPECT_GT(sparse_count, 100u);
}

// What is said of a piece, whatever stands around it.
struct Told {
  std::vector<std::uint32_t> sizes;
  std::uint32_t consumed_bytes;
  std::uint32_t needs_cpu;

  friend bool operator==(const Told&, const Told&) = default;
};

Told TellOf(const Selected& selected, std::size_t piece) {
  const SelectedCuts& cuts = selected.cuts[piece];
  Told told{{}, cuts.consumed_bytes, cuts.needs_cpu};
  for (std::uint32_t index = 0; index < cuts.chunk_count; ++index) {
    told.sizes.push_back(selected.chunks[cuts.first_chunk + index].size_bytes);
  }
  return told;
}

TEST(SelectionBatches, NeighboursMakeNoDifference) {
  Random random(TestSeed());
  const Profile profile = *ParseProfile("fastcdc:min=100,avg=256,max=700,level=1");
  Setting setting = SettingOf(RuleOf(profile), *CandidateBytesLog2(profile));
  Prepare(setting);
  const std::unique_ptr<Marker> marker = MakeScalarMarker(profile);
  const auto select = [&](Batch& batch) {
    Close(batch);
    return Select(setting, batch, MarkBatch(*marker, batch.bytes), AnyOrder(random));
  };
  std::vector<std::vector<std::uint8_t>> pieces;
  std::vector<Told> alone;
  for (int index = 0; index < 30; ++index) {
    // Some are dense.
    pieces.push_back(index % 6 == 0 ? MakeInput("period", 20 + index, 20000)
                                    : AnyBytes(AnySize(BoundsOf(setting), random), random));
    Batch batch;
    Append(batch, pieces.back(), index % 2 == 0, random);
    alone.push_back(TellOf(select(batch), 0));
  }
  for (int round = 0; round < 4; ++round) {
    std::vector<std::size_t> order(pieces.size());
    for (std::size_t& piece : order) piece = random.Below(pieces.size());
    Batch batch;
    for (const std::size_t piece : order) Append(batch, pieces[piece], piece % 2 == 0, random);
    const Selected selected = select(batch);
    for (std::size_t index = 0; index < order.size(); ++index) {
      ASSERT_EQ(TellOf(selected, index), alone[order[index]]) << "round " << round;
    }
  }
}

TEST(SelectionBatches, NothingIsNothing) {
  Setting setting = SettingOf(LocalRule{64, 0, 0, 128}, 4);
  Prepare(setting);
  EXPECT_TRUE(Select(setting, {}, {}).cuts.empty());
  Batch batch{std::vector<std::uint8_t>(128), {{0, 0, 1}, {0, 0, 0}, {128, 0, 1}}};
  const BatchMarks marks(32, ~0u);
  ExpectCutsOfMarks(setting, batch, marks, Select(setting, batch, marks));
}

// All nodes of a tile of the ranking, and of many, are on the path; the last tile is full, or has
// one node.
TEST(SelectionBatches, ChunksOfTwoBytes) {
  Setting setting = SettingOf(LocalRule{1, 0, 0, 64}, 1);
  Prepare(setting);
  for (const std::uint32_t nodes : {2 * kRankTileNodes, 3 * kRankTileNodes + 1}) {
    // The piece's beginning is a node, too, and so is what is behind the last mark.
    const std::uint32_t size = 2 * (nodes - 1);
    Batch batch{std::vector<std::uint8_t>(size), {{0, size, 1}}};
    Close(batch);
    const BatchMarks marks(MarkWordCount(batch.bytes.size()), 0x55555555);
    // Position 0 does not count.
    const Selected selected = Select(setting, batch, marks);
    ExpectCutsOfMarks(setting, batch, marks, selected);
    EXPECT_GT(selected.chunks.size(), nodes - 3);
  }
}

// Marks of each kind of number in the tiles in which they are emitted: none, fewer and more than a
// block has threads, and all of a stretch; and pieces that begin and end at the tiles' borders.
TEST(SelectionBatches, TilesOfMarks) {
  Random random(TestSeed());
  constexpr std::uint32_t kTile = EmitCandidates::kTilePositions;
  Setting setting = SettingOf(LocalRule{1, 0, 0, 2000}, 4);
  Prepare(setting);
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(Cat("round ", round));
    Batch batch{std::vector<std::uint8_t>(5 * kTile + 128 * random.Below(20)), {}};
    const std::uint32_t size = static_cast<std::uint32_t>(batch.bytes.size());
    BatchMarks marks(MarkWordCount(size));
    for (std::uint32_t tile = 0; tile * kTile < size; ++tile) {
      const std::uint64_t rare = std::vector<std::uint64_t>{0, 16, 40, 200, 5000}[random.Below(5)];
      const std::uint32_t end = std::min((tile + 1) * kTile, size);
      for (std::uint32_t at = tile * kTile; rare != 0 && at < end; ++at) {
        marks[at / 32] |= (random.OneIn(rare) ? 1u : 0u) << (at % 32);
      }
      // As many as one thread has, at the first of them and at the last.
      if (random.OneIn(2)) {
        for (std::uint32_t word = 0; word < 4; ++word) {
          marks[tile * kTile / 32 + word] = ~0u;
          marks[end / 32 - 1 - word] = ~0u;
        }
      }
    }
    std::uint32_t at = 0;
    while (at < size) {
      const std::uint32_t border = (at / kTile + 1 + random.Below(2)) * kTile;
      // The first place for a piece in a tile, the last one, and any.
      std::uint32_t end = random.OneIn(2) ? border : at + 16 * random.Below(300);
      if (end == border && at < border - 16 && random.OneIn(2)) end = border - 16;
      end = std::min(end, size);
      batch.pieces.push_back({at, end - at - std::min(end - at, random.OneIn(2) ? 0u : 5u),
                              random.OneIn(2) ? 1u : 0u});
      at = end + (random.OneIn(3) ? 16 * random.Below(200) : 0);
    }
    const Selected selected = Select(setting, batch, marks, AnyOrder(random));
    ASSERT_NO_FATAL_FAILURE(ExpectCutsOfMarks(setting, batch, marks, selected));
  }
}

// What is in memory behind the batch's last mark is of no matter; nor is it read
// (EmulateSelection).
TEST(SelectionBatches, MarksBehindTheBatchAreNobodys) {
  Setting setting = SettingOf(LocalRule{1, 0, 0, 128}, 4);
  Prepare(setting);
  Batch batch{std::vector<std::uint8_t>(1024 + 384), {{0, 1024 + 384, 1}}};
  BatchMarks marks(MarkWordCount(batch.bytes.size()), 0x00010000);
  std::fill(marks.begin() + (1024 + 384) / 32, marks.end(), 0u);
  const Selected selected = Select(setting, batch, marks);
  ExpectCutsOfMarks(setting, batch, marks, selected);
  std::fill(marks.begin() + (1024 + 384) / 32, marks.end(), ~0u);
  EXPECT_EQ(Select(setting, batch, marks), selected);
}

// A word of marks in which one piece ends and another begins.
TEST(SelectionBatches, PiecesThatShareAWord) {
  Setting setting = SettingOf(LocalRule{2, 0, 0, 64}, 1);
  Prepare(setting);
  Batch batch{std::vector<std::uint8_t>(384), {}};
  for (std::uint32_t offset = 0; offset < 384; offset += 16) {
    batch.pieces.push_back({offset, 13, offset % 3 == 0 ? 1u : 0u});
  }
  const BatchMarks marks(32, 0x48484848);
  ExpectCutsOfMarks(setting, batch, marks, Select(setting, batch, marks));
}

// Runs that end at no candidate: the block's walk.
TEST(SelectionRuns, OfOneSizeAndOfAnother) {
  Random random(TestSeed());
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(Cat("round ", round));
    Setting setting = AnyToy(random);
    setting.candidate_bytes_log2 = 1;
    Prepare(setting);
    // Runs of one byte, so that all chunks in one are of a size.
    std::vector<std::uint8_t> bytes;
    while (bytes.size() < 150000) {
      const std::vector<std::uint8_t> run =
          MakeInput("constant", random.Below(256), random.Between(1, 60000));
      bytes.insert(bytes.end(), run.begin(), run.end());
    }
    Batch batch;
    Append(batch, bytes, random.OneIn(2), random);
    Append(batch, bytes, random.OneIn(2), random);
    Close(batch);
    BatchMarks marks = AnyMarks(batch.bytes.size(), random);
    // Few, or none.
    const std::uint64_t rare = random.OneIn(2) ? 100000 : 3000;
    for (std::uint32_t& word : marks) word = random.OneIn(rare) ? word : 0;
    ExpectCutsOfMarks(setting, batch, marks, Select(setting, batch, marks, AnyOrder(random)));
  }
}

// Candidates everywhere that seldom end a chunk: so many walks are long that a large piece is
// left to the CPU.
TEST(SelectionRuns, PassCandidatesThatDoNotCount) {
  Setting setting = SettingOf(LocalRule{64, 0, 0, 127}, 4);
  Prepare(setting);
  for (const std::uint32_t count : {500u, 2500u}) {
    Batch batch{std::vector<std::uint8_t>(128 * count), {{0, 128 * count, 1}}};
    BatchMarks marks(MarkWordCount(batch.bytes.size()));
    for (std::size_t word = 0; word < marks.size(); word += 4) marks[word] = 0x10;
    const Selected selected = Select(setting, batch, marks);
    if (count == 500) {
      ExpectCutsOfMarks(setting, batch, marks, selected);
    } else {
      EXPECT_EQ(selected.cuts[0].needs_cpu, 1u);
    }
  }
}

// Chunks of a new size each, none at a candidate: that long a walk is the CPU's.
TEST(SelectionRuns, WithoutAnyOrderAreGivenToTheCpu) {
  GearRule rule{};
  Random random(TestSeed());
  for (std::uint32_t& value : rule.table) value = static_cast<std::uint32_t>(random.Next());
  rule.strict_mask = rule.loose_mask = 0xE0000000;
  rule.window_bytes = 32;
  rule.min_bytes = 4;
  rule.avg_bytes = 40;
  rule.max_bytes = 60;
  Setting setting = SettingOf(rule, 4);
  Prepare(setting);
  Batch batch;
  Append(batch, MakeInput("random", random.Next(), 2000), true, random);
  Append(batch, MakeInput("random", random.Next(), 60000), true, random);
  Append(batch, MakeInput("random", random.Next(), 2000), false, random);
  Close(batch);
  const BatchMarks marks(MarkWordCount(batch.bytes.size()));
  const Selected selected = Select(setting, batch, marks, AnyOrder(random));
  EXPECT_EQ(selected.cuts[1].needs_cpu, 1u);
  EXPECT_EQ(selected.cuts[1].chunk_count, 0u);
  EXPECT_EQ(selected.cuts[1].consumed_bytes, 0u);
  for (const std::size_t index : {0, 2}) {
    EXPECT_EQ(TellOf(selected, index).sizes,
              CutPiece(rule, batch, marks, batch.pieces[index]).sizes);
  }
}

}  // namespace
}  // namespace kerf::cuda
