#include "kernels/cuda/ptx/modules.h"

namespace kerf::cuda::ptx {

// Of what kerf_ptx_library makes (BUILD).
extern const ModuleKernels kBlake3;
extern const ModuleKernels kGearMarks;
extern const ModuleKernels kLinearMarks;
extern const ModuleKernels kPeakMarks;
extern const ModuleKernels kSelection;
extern const ModuleKernels kSha256;

std::span<const ModuleKernels* const> AllModules() {
  static constexpr const ModuleKernels* kAll[] = {&kBlake3,    &kGearMarks, &kLinearMarks,
                                                  &kPeakMarks, &kSelection, &kSha256};
  return kAll;
}

}  // namespace kerf::cuda::ptx
