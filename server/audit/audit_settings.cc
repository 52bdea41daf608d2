#include "server/audit/audit_settings.h"

namespace kerf {
namespace {

// Of one that is full: a few hundred lines.
constexpr std::uint64_t kMinFileBytes = kMiB;

}  // namespace

void AddAuditSettings(OptionSet& options, AuditSettings& settings) {
  options.AddText(
      {"audit",
       "Who did what: a line of JSON for each call that changes anything or is refused, "
       "each held by the next; kerf audit verify checks them",
       "FILE"},
      settings.path);
  options.AddSize(
      {"audit-max-size",
       "A file of the audit log that would be larger is renamed to FILE.1, FILE.2 and so "
       "on; none is ever deleted"},
      settings.max_file_bytes);
  options.AddChoice(
      {"audit-on-failure",
       "While the audit log cannot be written: refuse commits and whatever else changes "
       "anything, or go on"},
      settings.refuses, {{"refuse", true}, {"go-on", false}});
}

std::string FindAuditContradiction(const AuditSettings& settings) {
  if (settings.path.empty()) {
    return settings.refuses ? "" : "--audit-on-failure is about an audit log: add --audit";
  }
  if (settings.max_file_bytes < kMinFileBytes) return "--audit-max-size: at least 1M";
  return "";
}

}  // namespace kerf
