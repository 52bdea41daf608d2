// What a line of the audit log says: docs/spec/audit.md has every member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kerf::audit {

// Of a text, as it came; what is longer is cut, and ends with "…" in the line.
inline constexpr std::size_t kMaxTextBytes = 256;

// A call that has ended. Texts may be a peer's: whatever they are, the line is one of ASCII, and an
// object.
struct Record {
  std::int64_t unix_ms = 0;
  // Who called, and how that was proven; "" and "none": nobody asked.
  std::string identity = {};
  std::string proof = "none";
  // As PeerOf has it.
  std::string peer = {};
  // "kerf.v1.IndexService/CommitChunks".
  std::string method = {};
  std::string repository = {};
  // "blake3"; empty: it is not known, as of a call that was refused before it said so.
  std::string digest_algorithm = {};
  std::string profile = {};
  std::string agent = {};
  // By name, those that are not 0; their names are kerf's own.
  std::vector<std::pair<std::string_view, std::uint64_t>> counts = {};
  // "OK", "CANCELLED" or a reason of docs/spec/protocol.md.
  std::string outcome = {};
  // Why, unless it is OK.
  std::string message = {};
  std::string request_id = {};
  std::string session = {};
  std::string worker = {};
};

// "time":"...","event":"call",...: members for SealLine. With all of them as long as they may be,
// the line is shorter than kMaxChainLineBytes.
std::string MembersOf(const Record& record);

// "time":"..."
std::string TimeMember(std::int64_t unix_ms);

// A line that is kerfd's own: its time, its event, then `texts` and `counts`. Names are kerf's own.
std::string EventMembers(std::int64_t unix_ms, std::string_view event,
                         const std::vector<std::pair<std::string_view, std::string>>& texts,
                         const std::vector<std::pair<std::string, std::uint64_t>>& counts);

}  // namespace kerf::audit
