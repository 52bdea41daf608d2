#include "client/agent/audit/chain_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/hash_chain.h"
#include "base/random.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "base/test_seed.h"

namespace kerf::agent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Kind = ChainFinding::Kind;

constexpr int kLineCount = 240;
// Where each byte is changed every line is read again: the square of them. A dozen has numbers of
// one digit and of two.
constexpr int kChangedLineCount = kIsSanitized ? 12 : 60;
constexpr int kLongerLineCount = kIsSanitized ? 12 : 25;
constexpr char kFile[] = "\"time\":\"t\",\"event\":\"file\",\"before\":\"\",\"why\":\"\"";

// A log as kerfd writes it, by its lines.
class Log {
 public:
  explicit Log(int line_count = kLineCount) {
    Add(kFile);
    for (int number = 1; number < line_count; ++number) {
      Add(Cat("\"time\":\"t\",\"event\":\"call\",\"agent\":\"host ", number, "\""));
    }
  }
  void Add(std::string_view members) { lines.push_back(SealLine(members, &end)); }
  std::string text() const {
    std::string text;
    for (const std::string& line : lines) text += line;
    return text;
  }

  std::vector<std::string> lines;
  ChainPoint end;
};

struct Outcome {
  std::vector<ChainFinding> findings;
  ChainSums sums;

  std::vector<Kind> kinds() const {
    std::vector<Kind> kinds;
    kinds.reserve(findings.size());
    for (const ChainFinding& finding : findings) kinds.push_back(finding.kind);
    return kinds;
  }
};

Outcome Check(const std::vector<std::string>& files, const std::string& expected_hash = "",
              std::size_t piece_bytes = std::string::npos) {
  Outcome outcome;
  ChainCheck check([&](const ChainFinding& finding) { outcome.findings.push_back(finding); },
                   expected_hash);
  for (std::size_t number = 0; number < files.size(); ++number) {
    check.BeginFile(Cat("file", number));
    std::string_view rest = files[number];
    while (!rest.empty()) {
      check.Feed(rest.substr(0, piece_bytes));
      rest.remove_prefix(std::min(piece_bytes, rest.size()));
    }
  }
  outcome.sums = check.End();
  EXPECT_EQ(outcome.sums.finding_count, outcome.findings.size());
  return outcome;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

TEST(ChainCheckTest, ALogAsItWasWrittenIsWell) {
  const Log log;
  for (const std::size_t piece_bytes : {std::size_t{1}, std::size_t{7}, std::size_t{1'000'000}}) {
    const Outcome outcome = Check({log.text()}, log.end.hash, piece_bytes);
    EXPECT_THAT(outcome.kinds(), IsEmpty());
    EXPECT_EQ(outcome.sums.line_count, static_cast<std::uint64_t>(kLineCount));
    EXPECT_EQ(outcome.sums.first_seq, 1u);
    EXPECT_EQ(outcome.sums.last, log.end);
  }
  EXPECT_THAT(Check({}).kinds(), IsEmpty());
  EXPECT_THAT(Check({""}).kinds(), IsEmpty());
}

TEST(ChainCheckTest, EveryChangedByteIsFound) {
  const Log log(kChangedLineCount);
  const std::string text = log.text();
  Random random(TestSeed());
  for (std::size_t place = 0; place < text.size(); ++place) {
    std::string changed = text;
    changed[place] = static_cast<char>(random.Below(256));
    if (place % 7 == 0) changed[place] = text[place] == '\n' ? ' ' : '\n';
    if (changed == text) changed[place] = static_cast<char>(text[place] ^ 1);
    const Outcome outcome = Check({changed});
    ASSERT_THAT(outcome.findings, testing::Not(IsEmpty())) << place;
    // In the line where it is; a lost end of line is that, too.
    const auto line = static_cast<std::uint64_t>(std::count(
                          text.begin(), text.begin() + static_cast<std::ptrdiff_t>(place), '\n')) +
                      1;
    EXPECT_EQ(outcome.findings[0].line, line) << place << ": " << outcome.findings[0].text;
  }
}

TEST(ChainCheckTest, EveryRemovedOrAddedByteIsFound) {
  const Log log(kLongerLineCount);
  const std::string text = log.text();
  constexpr std::size_t kStep = kIsSanitized ? 3 : 1;
  for (std::size_t place = Random(TestSeed()).Below(kStep); place < text.size(); place += kStep) {
    std::string changed = text;
    changed.erase(place, 1);
    EXPECT_THAT(Check({changed}).findings, testing::Not(IsEmpty())) << place;
    changed = text;
    changed.insert(place, 1, text[place] == '\n' ? '\n' : 'x');
    EXPECT_THAT(Check({changed}).findings, testing::Not(IsEmpty())) << place;
  }
}

TEST(ChainCheckTest, EveryRemovedLineIsFound) {
  const Log log;
  for (std::size_t removed = 0; removed + 1 < log.lines.size(); ++removed) {
    std::vector<std::string> lines = log.lines;
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(removed));
    const Outcome outcome = Check({Joined(lines)});
    ASSERT_THAT(outcome.kinds(), ElementsAre(Kind::kMissing)) << removed;
    EXPECT_EQ(outcome.findings[0].line, removed + 1);
  }
  // The last one only for those who have noted it.
  std::vector<std::string> lines = log.lines;
  lines.pop_back();
  EXPECT_THAT(Check({Joined(lines)}).kinds(), IsEmpty());
  const Outcome cut = Check({Joined(lines)}, log.end.hash);
  ASSERT_THAT(cut.kinds(), ElementsAre(Kind::kCutOff));
  EXPECT_THAT(cut.findings[0].text, HasSubstr(log.end.hash));
}

TEST(ChainCheckTest, ManyRemovedLinesAreOneFindingThatSaysHowMany) {
  const Log log;
  std::vector<std::string> lines = log.lines;
  lines.erase(lines.begin() + 10, lines.begin() + 30);
  const Outcome outcome = Check({Joined(lines)});
  ASSERT_THAT(outcome.kinds(), ElementsAre(Kind::kMissing));
  EXPECT_EQ(outcome.findings[0].text, "20 lines before it, seq 11 to 30");
}

TEST(ChainCheckTest, EverySwapOfNeighboursIsFound) {
  const Log log;
  for (std::size_t first = 0; first + 1 < log.lines.size(); ++first) {
    std::vector<std::string> lines = log.lines;
    std::swap(lines[first], lines[first + 1]);
    // The first line of all is that of a chain that begins.
    EXPECT_THAT(Check({Joined(lines)}).kinds(),
                Contains(first == 0 ? Kind::kOtherChain : Kind::kOutOfOrder))
        << first;
  }
}

TEST(ChainCheckTest, ALineThatWasWrittenAnewDoesNotHold) {
  const Log log;
  std::vector<std::string> lines = log.lines;
  const auto before = ReadChainLine(std::string_view(lines[49]).substr(0, lines[49].size() - 1));
  ChainPoint point = before->point();
  lines[50] = SealLine("\"time\":\"t\",\"event\":\"call\",\"agent\":\"somebody else\"", &point);
  const Outcome outcome = Check({Joined(lines)});
  ASSERT_THAT(outcome.kinds(), ElementsAre(Kind::kDoesNotFollow));
  EXPECT_EQ(outcome.findings[0].line, 52u);
}

TEST(ChainCheckTest, LinesThatAreNoneAreFoundWhereverTheyStand) {
  const Log log(20);
  std::vector<std::string> lines = log.lines;
  lines.insert(lines.begin() + 9, "{}\n");
  EXPECT_THAT(Check({Joined(lines)}).kinds(), ElementsAre(Kind::kChanged));
  lines[9] = "";
  lines[10] = lines[11] = "{}\n";
  EXPECT_THAT(Check({Joined(lines)}).kinds(), ElementsAre(Kind::kChanged));
  // In the place of three.
  lines[12] = "";
  const Outcome outcome = Check({Joined(lines)});
  EXPECT_THAT(outcome.kinds(), ElementsAre(Kind::kChanged, Kind::kMissing));
  EXPECT_EQ(outcome.findings[0].text, "the line and 1 behind it are not as written");
  EXPECT_THAT(outcome.findings[1].text, HasSubstr("1 line at least"));
}

TEST(ChainCheckTest, LinesOfTwoWritersAreKnown) {
  Log one(20);
  Log other = one;
  std::vector<std::string> lines = one.lines;
  for (int number = 0; number < 5; ++number) {
    one.Add(Cat("\"time\":\"t\",\"event\":\"call\",\"one\":", number));
    other.Add(Cat("\"time\":\"t\",\"event\":\"call\",\"other\":", number));
    lines.push_back(one.lines.back());
    lines.push_back(other.lines.back());
  }
  const Outcome outcome = Check({Joined(lines)});
  EXPECT_THAT(outcome.kinds(), testing::Each(Kind::kTwoWriters));
  EXPECT_THAT(outcome.kinds(), SizeIs(5));
  EXPECT_THAT(outcome.findings[0].text, HasSubstr("seq 21 is also line 21 of file0"));
}

TEST(ChainCheckTest, ALineThatIsThereTwiceIsKnown) {
  const Log log(20);
  std::vector<std::string> lines = log.lines;
  lines.insert(lines.begin() + 9, lines[4]);
  EXPECT_THAT(Check({Joined(lines)}).kinds(), ElementsAre(Kind::kRepeated));
  EXPECT_THAT(Check({log.text(), log.text()}).kinds(), Contains(Kind::kOtherChain));
}

TEST(ChainCheckTest, GoesOnFromFileToFile) {
  Log log(50);
  const std::size_t first = log.lines.size();
  log.Add(kFile);
  for (int number = 0; number < 10; ++number) log.Add("\"time\":\"t\",\"event\":\"call\"");
  const std::vector<std::string> before(log.lines.begin(),
                                        log.lines.begin() + static_cast<std::ptrdiff_t>(first));
  const std::vector<std::string> behind(log.lines.begin() + static_cast<std::ptrdiff_t>(first),
                                        log.lines.end());
  EXPECT_THAT(Check({Joined(before), Joined(behind)}).kinds(), IsEmpty());
  const Outcome alone = Check({Joined(behind)});
  EXPECT_THAT(alone.kinds(), IsEmpty());
  EXPECT_EQ(alone.sums.first_seq, first + 1);
  // Without its first line a file has no beginning, and without the last one of the file before it
  // it does not follow that.
  EXPECT_THAT(Check({Joined({behind.begin() + 1, behind.end()})}).kinds(),
              ElementsAre(Kind::kMissing));
  EXPECT_THAT(Check({Joined({before.begin(), before.end() - 1}), Joined(behind)}).kinds(),
              ElementsAre(Kind::kMissing));
  EXPECT_THAT(Check({Joined(behind), Joined(before)}).kinds(), testing::Not(IsEmpty()));
}

class TornTest : public testing::Test {
 protected:
  TornTest() {
    for (int number = 0; number < 10; ++number) before_.Add("\"time\":\"t\",\"event\":\"call\"");
    after_ = before_;
    after_.lines.clear();
    after_.Add(Cat("\"time\":\"t\",", TornTailMembers({kHalf.size(), ChainHashOf(kHalf)})));
    after_.Add("\"time\":\"t\",\"event\":\"call\"");
  }

  static constexpr std::string_view kHalf = "{\"seq\":51,\"prev\":\"01";
  Log before_{40};
  Log after_{1};
};

TEST_F(TornTest, WhatACrashHasLeftIsWellIfItIsToldOf) {
  const Outcome outcome = Check({Cat(before_.text(), kHalf, "\n", after_.text())});
  EXPECT_THAT(outcome.kinds(), IsEmpty());
  EXPECT_EQ(outcome.sums.torn_count, 1u);
  // Also where the next line is in another file.
  EXPECT_THAT(Check({Cat(before_.text(), kHalf), after_.text()}).kinds(), IsEmpty());
}

TEST_F(TornTest, EveryChangedByteOfItIsFound) {
  const std::string text = Cat(before_.text(), kHalf, "\n", after_.text());
  const std::size_t begin = before_.text().size();
  for (std::size_t place = begin; place < text.size(); ++place) {
    for (const char byte : {'x', '\n', '\0'}) {
      std::string changed = text;
      changed[place] = byte;
      if (changed == text) continue;
      EXPECT_THAT(Check({changed}).findings, testing::Not(IsEmpty())) << place;
    }
  }
}

TEST_F(TornTest, NeitherGoesWithoutTheOther) {
  EXPECT_THAT(Check({Cat(before_.text(), after_.text())}).kinds(), ElementsAre(Kind::kWrongTorn));
  EXPECT_THAT(Check({Cat(before_.text(), kHalf)}).kinds(), ElementsAre(Kind::kTorn));
  EXPECT_THAT(Check({Cat(before_.text(), kHalf, "\n", after_.lines[1])}).kinds(),
              Contains(Kind::kChanged));
  EXPECT_THAT(Check({Cat(before_.text(), kHalf, "\n")}).kinds(), ElementsAre(Kind::kChanged));
}

// That of a crash may not stand for lines that were there.
TEST_F(TornTest, DoesNotHideLines) {
  std::vector<std::string> lines = before_.lines;
  lines.erase(lines.end() - 3, lines.end());
  EXPECT_THAT(Check({Cat(Joined(lines), kHalf, "\n", after_.text())}).findings,
              testing::Not(IsEmpty()));
}

TEST(ChainCheckTest, WhatIsNoLogTakesNoMemory) {
  std::vector<ChainFinding> findings;
  ChainCheck check([&](const ChainFinding& finding) { findings.push_back(finding); }, "");
  check.BeginFile("file");
  const std::string block(1 << 20, 'x');
  for (int number = 0; number < (kIsSanitized ? 20 : 200); ++number) check.Feed(block);
  const std::string lines(1 << 20, '\n');
  for (int number = 0; number < (kIsSanitized ? 2 : 20); ++number) check.Feed(lines);
  EXPECT_GT(check.End().finding_count, 0u);
  EXPECT_THAT(findings, SizeIs(1));
}

}  // namespace
}  // namespace kerf::agent
