#include "kernels/cuda/ptx/findings.h"

#include <algorithm>
#include <utility>

namespace kerf::cuda::ptx {

const char* NameOf(FindingKind kind) {
  switch (kind) {
    case FindingKind::kOutOfBounds:
      return "out of bounds";
    case FindingKind::kMisaligned:
      return "misaligned";
    case FindingKind::kUninitialised:
      return "uninitialised";
    case FindingKind::kRace:
      return "race";
    case FindingKind::kDivergence:
      return "divergence";
    case FindingKind::kReadOnlyWritten:
      return "read-only written";
    case FindingKind::kDivisionByZero:
      return "division by zero";
    case FindingKind::kEndless:
      return "endless";
  }
  return "?";
}

void Findings::Add(FindingKind kind, std::string text) {
  if (HasRoom()) all_.push_back({kind, std::move(text)});
  ++count_;
}

bool Findings::Has(FindingKind kind) const {
  return std::any_of(all_.begin(), all_.end(),
                     [kind](const Finding& finding) { return finding.kind == kind; });
}

std::string Findings::Text() const {
  std::string text;
  for (const Finding& finding : all_) {
    text += NameOf(finding.kind) + std::string(": ") + finding.text + "\n";
  }
  if (count_ > all_.size()) text += std::to_string(count_ - all_.size()) + " more\n";
  return text;
}

void Findings::Clear() {
  all_.clear();
  count_ = 0;
}

}  // namespace kerf::cuda::ptx
