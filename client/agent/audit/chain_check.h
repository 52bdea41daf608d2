// Holds the lines of audit logs against each other: docs/spec/audit.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash_chain.h"

namespace kerf::agent {

// What is wrong, and where.
struct ChainFinding {
  enum class Kind : std::uint8_t {
    // Its bytes are not those that its hash was made of, or no line of a chain at all.
    kChanged,
    // Lines are gone before it.
    kMissing,
    // It belongs elsewhere.
    kOutOfOrder,
    // It is there twice.
    kRepeated,
    // Two lines follow the same one.
    kTwoWriters,
    // The line before it is not the one that it was written behind.
    kDoesNotFollow,
    // Another chain begins in the middle.
    kOtherChain,
    // The last line is not whole.
    kTorn,
    // What was told of bytes that are no lines is not what is there.
    kWrongTorn,
    // The hash that was expected is nowhere.
    kCutOff,
  };
  Kind kind = Kind::kChanged;
  std::string path;
  // In its file, from 1; 0: it is about all of them.
  std::uint64_t line = 0;
  // For people.
  std::string text;
};

// "changed", "missing", ...
std::string_view NameOf(ChainFinding::Kind kind);

struct ChainSums {
  std::uint64_t line_count = 0;
  // Of the first and the last line that is intact; 0: there is none.
  std::uint64_t first_seq = 0;
  ChainPoint last;
  // Places where a crash has left bytes that are no line, as the line behind them says.
  std::uint64_t torn_count = 0;
  std::uint64_t finding_count = 0;
};

// Bytes that are no lines of a chain, or not as they were written.
struct BadLines {
  std::string path = {};
  // The first of them.
  std::uint64_t line = 0;
  std::uint64_t count = 0;
  // Twice kMaxTornBytes at most.
  std::string bytes = {};
  bool is_too_long = false;
  // That the first one says it has; 0: none.
  std::uint64_t seq = 0;
};

// Takes the files of one log, oldest first, in pieces of any size. Memory is bounded, whatever they
// hold. Not thread-safe.
class ChainCheck {
 public:
  using OnFinding = std::function<void(const ChainFinding&)>;

  // `expected_hash` is that of a line that has to be there; empty: of none.
  ChainCheck(OnFinding on_finding, std::string expected_hash)
      : on_finding_(std::move(on_finding)), expected_hash_(std::move(expected_hash)) {}

  void BeginFile(std::string path);
  void Feed(std::string_view bytes);
  // The last line of the file has no end of line: somebody may still write it.
  bool has_open_line() const { return !line_.empty() || line_bytes_ > 0; }
  // Behind the last file.
  const ChainSums& End();

 private:
  struct Seen {
    std::uint64_t seq = 0;
    std::string hash;
    std::string path;
    std::uint64_t line = 0;
  };

  void EndFile();
  void TakeLine(std::string_view line, bool has_end);
  void TakeBad(std::string_view line, bool has_end, std::uint64_t seq);
  // What is between the last intact line and this one.
  void JudgeBad(const ChainLine& line);
  static bool IsToldOf(const BadLines& bad, const ChainLine& line);
  void TakeIntact(const ChainLine& line);
  void JudgeBackward(const ChainLine& line);
  void Remember(const ChainLine& line);
  void Find(ChainFinding::Kind kind, std::string text);
  void FindAt(ChainFinding::Kind kind, const std::string& path, std::uint64_t line,
              std::string text);

  const OnFinding on_finding_;
  const std::string expected_hash_;
  bool has_expected_ = false;
  ChainSums sums_;
  std::string path_;
  // Of the file, the one that is read now.
  std::uint64_t line_number_ = 0;
  // What has come of it; longer ones are cut, and are no lines.
  std::string line_;
  std::uint64_t line_bytes_ = 0;
  std::optional<BadLines> bad_;
  // Before the first intact line there is nothing to follow.
  bool has_begun_ = false;
  // Lines that are not there, as first and last, with those that have come elsewhere taken out.
  std::map<std::uint64_t, std::uint64_t> missing_;
  // By seq, modulo its size.
  std::vector<Seen> recent_ = std::vector<Seen>(kRecentCount);

  static constexpr std::size_t kRecentCount = 4096;
  static constexpr std::size_t kMaxMissing = 1024;
};

}  // namespace kerf::agent
