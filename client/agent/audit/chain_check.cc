#include "client/agent/audit/chain_check.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace kerf::agent {
namespace {

using Kind = ChainFinding::Kind;

std::string Counted(std::uint64_t count, std::string_view noun) {
  return Cat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace

std::string_view NameOf(ChainFinding::Kind kind) {
  switch (kind) {
    case Kind::kChanged:
      return "changed";
    case Kind::kMissing:
      return "missing";
    case Kind::kOutOfOrder:
      return "out_of_order";
    case Kind::kRepeated:
      return "repeated";
    case Kind::kTwoWriters:
      return "two_writers";
    case Kind::kDoesNotFollow:
      return "does_not_follow";
    case Kind::kOtherChain:
      return "other_chain";
    case Kind::kTorn:
      return "torn";
    case Kind::kWrongTorn:
      return "wrong_torn";
    case Kind::kCutOff:
      return "cut_off";
  }
  return "";
}

void ChainCheck::BeginFile(std::string path) {
  EndFile();
  path_ = std::move(path);
  line_number_ = 0;
}

void ChainCheck::EndFile() {
  if (!has_open_line()) return;
  ++line_number_;
  TakeLine(line_, /*has_end=*/false);
  line_.clear();
  line_bytes_ = 0;
}

void ChainCheck::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    line_bytes_ += piece.size();
    // One more than any line has: it is none then.
    line_.append(piece.substr(
        0, kMaxTornBytes + 1 - std::min<std::size_t>(line_.size(), kMaxTornBytes + 1)));
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    ++line_number_;
    TakeLine(line_, /*has_end=*/true);
    line_.clear();
    line_bytes_ = 0;
  }
}

void ChainCheck::TakeLine(std::string_view text, bool has_end) {
  const auto line =
      text.size() < kMaxChainLineBytes ? ReadChainLine(text) : std::optional<ChainLine>();
  if (!line.has_value() || !line->is_intact || !has_end) {
    return TakeBad(text, has_end, line.has_value() ? line->seq : 0);
  }
  ++sums_.line_count;
  if (bad_.has_value()) {
    JudgeBad(*line);
  } else if (has_begun_ && ReadTornTail(line->members).has_value()) {
    Find(Kind::kWrongTorn, "it tells of bytes before it that are no line, and there are none");
  } else if (line_number_ == 1 && !BeginsChainFile(line->members) &&
             !ReadTornTail(line->members).has_value()) {
    Find(Kind::kMissing, "no file begins with such a line: the beginning of this one is missing");
  }
  TakeIntact(*line);
}

void ChainCheck::TakeBad(std::string_view text, bool has_end, std::uint64_t seq) {
  if (!bad_.has_value()) bad_ = BadLines{.path = path_, .line = line_number_, .seq = seq};
  ++bad_->count;
  if (bad_->bytes.size() + text.size() + 1 > 2 * kMaxTornBytes) {
    bad_->is_too_long = true;
    return;
  }
  bad_->bytes += text;
  if (has_end) bad_->bytes += '\n';
}

bool ChainCheck::IsToldOf(const BadLines& bad, const ChainLine& line) {
  const auto told = ReadTornTail(line.members);
  if (!told.has_value() || bad.is_too_long) return false;
  std::string_view bytes = bad.bytes;
  // Bytes without an end of line get one, so that the next line begins where a line does.
  if (told->size_bytes + 1 == bytes.size() && bytes.back() == '\n') bytes.remove_suffix(1);
  return told->size_bytes == bytes.size() && ChainHashOf(bytes) == told->hash;
}

void ChainCheck::JudgeBad(const ChainLine& line) {
  const BadLines bad = *std::exchange(bad_, std::nullopt);
  const ChainPoint& last = sums_.last;
  // Whether it follows the line before them is looked at as of any other line.
  if (IsToldOf(bad, line)) {
    ++sums_.torn_count;
    return;
  }
  FindAt(Kind::kChanged, bad.path, bad.line,
         Cat(bad.count == 1 ? std::string("the line is")
                            : Cat("the line and ", bad.count - 1, " behind it are"),
             " not as written", bad.seq > 0 ? Cat(" (seq ", bad.seq, ")") : std::string()));
  if (!has_begun_ || line.seq <= last.seq) return;
  const std::uint64_t between = line.seq - last.seq - 1;
  // They stand between two lines that follow each other, or should.
  if (between == 0) return;
  if (between > bad.count) {
    Find(Kind::kMissing,
         Cat(Counted(between - bad.count, "line"), " at least between it and seq ", last.seq));
  }
  // Those that are not as written are there all the same.
  sums_.last = {line.seq - 1, std::string(line.prev)};
}

void ChainCheck::TakeIntact(const ChainLine& line) {
  has_expected_ = has_expected_ || line.hash == expected_hash_;
  const ChainPoint last = sums_.last;
  if (!has_begun_) {
    has_begun_ = true;
    sums_.first_seq = line.seq;
  } else if (line.seq == last.seq + 1) {
    if (line.prev != last.hash) {
      Find(Kind::kDoesNotFollow, Cat("it was not written behind the line before it (seq ", last.seq,
                                     "): one of the two was written anew"));
    }
  } else if (line.seq > last.seq) {
    Find(Kind::kMissing, Cat(Counted(line.seq - last.seq - 1, "line"), " before it, seq ",
                             last.seq + 1, " to ", line.seq - 1));
    if (missing_.size() < kMaxMissing) missing_.emplace(last.seq + 1, line.seq - 1);
  } else {
    return JudgeBackward(line);
  }
  Remember(line);
}

void ChainCheck::JudgeBackward(const ChainLine& line) {
  if (line.seq == 1 && line.prev == ChainPoint().hash) {
    Find(Kind::kOtherChain, "another chain begins here");
    missing_.clear();
    return Remember(line);
  }
  const Seen& seen = recent_[line.seq % kRecentCount];
  if (seen.seq == line.seq) {
    const std::string where = Cat("line ", seen.line, " of ", seen.path);
    if (seen.hash == line.hash) return Find(Kind::kRepeated, Cat("it is ", where, " once more"));
    return Find(Kind::kTwoWriters,
                Cat("seq ", line.seq, " is also ", where, ": two have written this log"));
  }
  const auto above = missing_.upper_bound(line.seq);
  const bool is_missed = above != missing_.begin() && std::prev(above)->second >= line.seq;
  Find(Kind::kOutOfOrder, Cat("seq ", line.seq, " stands behind seq ", sums_.last.seq,
                              is_missed ? "; it is missing further up" : ""));
}

void ChainCheck::Remember(const ChainLine& line) {
  sums_.last = line.point();
  recent_[line.seq % kRecentCount] = {line.seq, std::string(line.hash), path_, line_number_};
}

const ChainSums& ChainCheck::End() {
  EndFile();
  if (bad_.has_value()) {
    const bool is_whole = bad_->bytes.ends_with('\n');
    FindAt(is_whole ? Kind::kChanged : Kind::kTorn, bad_->path, bad_->line,
           is_whole
               ? "what stands from here to the end is not as written"
               : "the last line is not whole: kerfd ended while it wrote, and tells of it when "
                 "it is started again; or somebody cut the end off");
    bad_.reset();
  }
  if (!expected_hash_.empty() && !has_expected_) {
    FindAt(Kind::kCutOff, path_, 0,
           Cat("no line has the hash ", expected_hash_,
               ": what was there when that was noted is cut off, or it is of another log"));
  }
  return sums_;
}

void ChainCheck::Find(ChainFinding::Kind kind, std::string text) {
  FindAt(kind, path_, line_number_, std::move(text));
}

void ChainCheck::FindAt(ChainFinding::Kind kind, const std::string& path, std::uint64_t line,
                        std::string text) {
  ++sums_.finding_count;
  on_finding_({kind, path, line, std::move(text)});
}

}  // namespace kerf::agent
