#include "client/agent/top/table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/top/activity.h"
#include "client/cli/reporter.h"

namespace kerf::agent {
namespace {

constexpr std::size_t kMaxNameBytes = 32;
// Of one worker: it may have no more GPUs than that.
constexpr int kMaxNotes = 16;
// More than any machine has, and little enough for every integer.
constexpr double kMaxRate = 1e18;

constexpr std::size_t kColumnCount = 9;
using Row = std::array<std::string, kColumnCount>;
constexpr std::array<const char*, kColumnCount> kHeadings = {
    "WORKER", "STATE", "STREAMS", "STALLED", "IN", "CHUNKS/S", "DEDUP", "HINTS", "MEMORY"};
// Of what is usual, so that columns keep their places while figures change.
constexpr std::array<std::size_t, kColumnCount> kMinWidths = {8, 8, 7, 7, 11, 8, 6, 6, 6};
// Text is at the left.
constexpr std::size_t kTextColumns = 2;

// In ASCII: a byte is a column.
std::string NameIn(std::string_view text) {
  std::string name = absl::CHexEscape(ToAbsl(text));
  if (name.size() > kMaxNameBytes) name.replace(kMaxNameBytes - 2, std::string::npos, "..");
  return name;
}

std::string NameOf(const WorkerLook& look) {
  return NameIn(look.name.empty() ? look.address : look.name);
}

std::string PercentOf(const std::optional<double>& share) {
  return share.has_value() ? absl::StrFormat("%.1f%%", *share * 100) : "-";
}

void PutActivity(Row& row, const std::optional<Activity>& activity) {
  if (!activity.has_value()) return;
  const double bytes = std::min(activity->ingest_bytes_per_second, kMaxRate);
  row[4] = Cat(FormatByteSize(static_cast<std::uint64_t>(bytes)), "/s");
  row[5] = absl::StrFormat("%.0f", std::min(activity->chunks_per_second, kMaxRate));
  row[6] = PercentOf(activity->duplicate_share());
  row[7] = PercentOf(activity->hint_share());
}

Row RowOf(std::string name, std::string state, const v1::WorkerCounts& counts,
          const std::optional<Activity>& activity) {
  Row row;
  row.fill("-");
  row[0] = std::move(name);
  row[1] = std::move(state);
  row[2] = Cat(counts.stream_count(), "/", counts.max_stream_count());
  row[3] = Cat(counts.stalled_stream_count());
  if (counts.max_memory_byte_count() > 0) {
    row[8] = PercentOf(static_cast<double>(counts.memory_byte_count()) /
                       static_cast<double>(counts.max_memory_byte_count()));
  }
  PutActivity(row, activity);
  return row;
}

Row RowWithoutCounts(const WorkerLook& look) {
  Row row;
  row.fill("-");
  row[0] = NameOf(look);
  row[1] = StateOf(look);
  return row;
}

std::vector<std::string> LinesOf(const std::vector<Row>& rows) {
  std::array<std::size_t, kColumnCount> widths = kMinWidths;
  for (const Row& row : rows) {
    for (std::size_t column = 0; column < kColumnCount; ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::vector<std::string> lines;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < kColumnCount; ++column) {
      const std::string padding(widths[column] - row[column].size(), ' ');
      if (column > 0) line += ' ';
      line += column < kTextColumns ? row[column] + padding : padding + row[column];
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// Adds what the worker has now to what all have.
void AddCounts(v1::WorkerCounts& sum, const v1::WorkerCounts& counts) {
  sum.set_stream_count(sum.stream_count() + counts.stream_count());
  sum.set_max_stream_count(sum.max_stream_count() + counts.max_stream_count());
  sum.set_stalled_stream_count(sum.stalled_stream_count() + counts.stalled_stream_count());
  sum.set_memory_byte_count(sum.memory_byte_count() + counts.memory_byte_count());
  sum.set_max_memory_byte_count(sum.max_memory_byte_count() + counts.max_memory_byte_count());
}

void AddNotes(std::vector<std::string>& notes, const WorkerLook& look) {
  const std::string name = NameOf(look);
  if (!look.status.has_value()) {
    const std::string address = NameIn(look.address);
    const std::string at = address == name ? "" : Cat(" at ", address);
    notes.push_back(Cat(name, at, " is lost: ", Printable(look.error)));
    return;
  }
  int count = 0;
  for (const std::string& text : look.status->degradations()) {
    if (++count > kMaxNotes) break;
    notes.push_back(Cat(name, ": ", Printable(text)));
  }
  if (!look.status->has_counts()) {
    notes.push_back(Cat(name, ": this kerfd is older than kerf top, and tells no figures"));
  }
}

// The first `columns` characters of UTF-8.
std::string CutTo(std::string line, std::size_t columns) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const bool begins_character = (static_cast<unsigned char>(line[at]) & 0xC0) != 0x80;
    if (begins_character && count++ == columns) {
      line.resize(at);
      break;
    }
  }
  return line;
}

nlohmann::json JsonOf(const std::optional<double>& value) {
  return value.has_value() ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

std::vector<std::string> TopTable(const WorkerLooks& now, const WorkerLooks& before) {
  std::vector<Row> rows(1);
  std::copy(kHeadings.begin(), kHeadings.end(), rows[0].begin());
  std::vector<std::string> notes;
  v1::WorkerCounts sum;
  std::optional<Activity> total;
  for (const WorkerLook& look : now) {
    AddNotes(notes, look);
    if (!look.status.has_value() || !look.status->has_counts()) {
      rows.push_back(RowWithoutCounts(look));
      continue;
    }
    const v1::WorkerCounts& counts = look.status->counts();
    const std::optional<Activity> activity = ActivityBetween(FindLook(before, look.address), look);
    rows.push_back(RowOf(NameOf(look), StateOf(look), counts, activity));
    AddCounts(sum, counts);
    if (!activity.has_value()) continue;
    if (!total.has_value()) total.emplace();
    total->Add(*activity);
  }
  if (now.size() > 1) rows.push_back(RowOf(Cat("all ", now.size()), "", sum, total));
  std::vector<std::string> lines = LinesOf(rows);
  lines.insert(lines.end(), notes.begin(), notes.end());
  return lines;
}

std::vector<std::string> FitTo(std::vector<std::string> lines, std::size_t rows,
                               std::size_t columns) {
  if (lines.size() > rows && rows > 0) {
    const std::size_t hidden_count = lines.size() - rows + 1;
    lines.resize(rows);
    lines.back() = Cat("... and ", hidden_count, " more lines");
  }
  for (std::string& line : lines) line = CutTo(std::move(line), columns);
  return lines;
}

nlohmann::json TopJson(const WorkerLook& now, const WorkerLook* before) {
  nlohmann::json object = {{"address", now.address}, {"worker", now.name}, {"state", StateOf(now)}};
  if (!now.status.has_value()) {
    object["message"] = now.error;
    return object;
  }
  object["degraded"] = nlohmann::json::array();
  for (const std::string& text : now.status->degradations()) object["degraded"].push_back(text);
  if (!now.status->has_counts()) return object;
  const v1::WorkerCounts& counts = now.status->counts();
  object["version"] = counts.version();
  object["uptime_seconds"] = static_cast<double>(counts.uptime_ms()) / 1000;
  object["streams"] = counts.stream_count();
  object["max_streams"] = counts.max_stream_count();
  object["stalled_streams"] = counts.stalled_stream_count();
  object["pending_bytes"] = counts.pending_byte_count();
  object["memory_bytes"] = counts.memory_byte_count();
  object["max_memory_bytes"] = counts.max_memory_byte_count();
  const std::optional<Activity> activity = ActivityBetween(before, now);
  const auto of = [&](double Activity::* rate) {
    return activity.has_value() ? nlohmann::json((*activity).*rate) : nlohmann::json();
  };
  object["ingest_bytes_per_second"] = of(&Activity::ingest_bytes_per_second);
  object["chunks_per_second"] = of(&Activity::chunks_per_second);
  object["duplicate_share"] =
      JsonOf(activity.has_value() ? activity->duplicate_share() : std::nullopt);
  object["hint_share"] = JsonOf(activity.has_value() ? activity->hint_share() : std::nullopt);
  object["ingest_bytes"] = counts.ingest_byte_count();
  object["new_chunks"] = counts.new_chunk_count();
  object["duplicate_chunks"] = counts.duplicate_chunk_count();
  object["unverified_chunks"] = counts.unverified_chunk_count();
  object["new_bytes"] = counts.new_byte_count();
  object["duplicate_bytes"] = counts.duplicate_byte_count();
  object["unverified_bytes"] = counts.unverified_byte_count();
  object["hints_accepted"] = counts.hints_accepted_count();
  object["hints_rejected"] = counts.hints_rejected_count();
  object["hints_absent"] = counts.hints_absent_count();
  object["hints_late"] = counts.hints_late_count();
  return object;
}

}  // namespace kerf::agent
