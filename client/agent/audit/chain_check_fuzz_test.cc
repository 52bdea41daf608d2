// Any bytes as an audit log: however they come, the same is found, and what is well was sealed.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/hash_chain.h"
#include "client/agent/audit/chain_check.h"

namespace {

std::string Find(std::string_view bytes, std::size_t piece_bytes) {
  std::string found;
  kerf::agent::ChainCheck check(
      [&found](const kerf::agent::ChainFinding& finding) {
        found += std::to_string(finding.line) + " " + finding.text + "\n";
      },
      "");
  check.BeginFile("file");
  while (!bytes.empty()) {
    check.Feed(bytes.substr(0, piece_bytes));
    bytes.remove_prefix(std::min(piece_bytes, bytes.size()));
  }
  const kerf::agent::ChainSums& sums = check.End();
  return found + std::to_string(sums.line_count) + " " + sums.last.hash;
}

// A log, of which some bytes are changed.
std::string ChangedLog(const std::uint8_t* data, std::size_t size) {
  kerf::ChainPoint point;
  std::string log = SealLine("\"time\":\"t\",\"event\":\"file\"", &point);
  for (int number = 0; number < 6; ++number) {
    log += SealLine("\"time\":\"t\",\"event\":\"call\"", &point);
  }
  for (std::size_t index = 0; index + 2 < size; index += 3) {
    log[(data[index] * 256u + data[index + 1]) % log.size()] = static_cast<char>(data[index + 2]);
  }
  return log;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const std::string& text : {bytes, ChangedLog(data, size)}) {
    const std::string found = Find(text, std::string::npos);
    KERF_CHECK(found == Find(text, 1));
    KERF_CHECK(found == Find(text, 13));
  }
  return 0;
}
