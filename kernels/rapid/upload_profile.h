// A profile as an upload names it: the rule, and perhaps a criterion of RapidCDC's by which ends
// that hints predict become cuts without a proof. docs/spec/chunking.md has the text form.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/profile.h"
#include "kernels/rapid/acceptance.h"

namespace kerf {

// A plain value; always valid when it comes from ParseUploadProfile.
struct UploadProfile {
  UploadProfile() = default;
  // Exact mode. Implicit: a profile alone is an upload's profile as well.
  UploadProfile(const Profile& exact) : rule(exact) {}  // NOLINT(google-explicit-constructor)
  UploadProfile(const Profile& of, AcceptanceCriterion with) : rule(of), criterion(with) {}

  Profile rule;
  // None: exact, the rule alone makes the cuts. With one they depend on what was stored before.
  std::optional<AcceptanceCriterion> criterion;

  friend bool operator==(const UploadProfile&, const UploadProfile&) = default;
};

// "ff", "ff-rwt", "ff-mt": what may stand behind the plus. FF+RWT+FPT is not among them: exact
// mode is cheaper, and exact.
std::span<const std::string_view> CriterionNames();

// As ParseProfile, and with a criterion: "fastcdc-8k+ff". InvalidArgument also says why a criterion
// makes no sense with a rule: the cuts of `fixed` are known without hints, and the window test of
// ram, mincdc and maxcdc costs as much as the scan.
absl::StatusOr<UploadProfile> ParseUploadProfile(std::string_view text);

// The canonical text. ParseUploadProfile reads it back, if the criterion is one that has a name.
std::string FormatUploadProfile(const UploadProfile& profile);

}  // namespace kerf
