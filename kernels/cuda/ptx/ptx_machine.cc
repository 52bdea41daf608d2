#include "kernels/cuda/ptx/ptx_machine.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "kernels/cuda/launch/portable.h"
#include "kernels/cuda/plugin/kernel_list.h"
#include "kernels/cuda/ptx/kernels.h"
#include "kernels/cuda/ptx/modules.h"

namespace kerf::cuda::ptx {
namespace {

// More than any index that is off by a tile.
constexpr std::size_t kGapBytes = 64 << 10;
constexpr std::uint64_t kMostBlocks = 8;
// Multiprocessors of the GPU whose grids are counted: an H100's or H200's.
constexpr std::uint32_t kCountedProcessors = 132;

std::string Readable(const char* name) {
  int status = 0;
  char* const readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  KERF_CHECK(readable != nullptr);
  std::string text = readable;
  std::free(readable);
  return text;
}

struct FoundKernel {
  const ModuleKernels* module;
  const Kernel* kernel;
};

// What nvcc has made of launch.cuh's RunTiles with the type of that name.
FoundKernel FindKernel(const char* type_name) {
  const std::string type = Readable(type_name);
  const std::string wanted =
      Cat("void kerf::cuda::launch_internal::RunTiles<", type, type.ends_with('>') ? " >(" : ">(");
  for (const ModuleKernels* module : AllModules()) {
    for (const Kernel& kernel : module->kernels) {
      if (Readable(kernel.name).starts_with(wanted)) return {module, &kernel};
    }
  }
  // The lists come from the same sources.
  KERF_CHECK(false);
}

// One for each tile, as far as there is room for them at once. A GPU starts those that find no
// tile, too; they would be most of what a small batch costs, and say nothing of the kernel.
template <class Type>
std::uint32_t CountedBlocks(std::span<const std::uint8_t> bytes) {
  typename Type::Args args;
  KERF_CHECK(bytes.size() == sizeof args);
  std::memcpy(&args, bytes.data(), sizeof args);
  constexpr std::uint32_t kEach = std::max(ProcessorBlocks<Type>(), 1u);
  return std::clamp<std::uint32_t>(Type::TileCount(args), 1, kCountedProcessors * kEach);
}

template <class Type>
EmulatedKernel KernelOf(const std::shared_ptr<PtxMachine>& machine) {
  const FoundKernel found = FindKernel(typeid(Type).name());
  return {[machine, found](std::span<const std::uint8_t> args, const EmulatorOptions&) {
            machine->launched.insert(found.kernel);
            LaunchShape shape;
            shape.thread_count = Type::kBlockThreads;
            shape.shared_bytes = sizeof(typename Type::Shared);
            shape.block_count =
                machine->is_counted
                    ? CountedBlocks<Type>(args)
                    : static_cast<std::uint32_t>(machine->random.Between(1, kMostBlocks));
            shape.seed = machine->random.Next();
            machine->machine.Run(*found.module, *found.kernel, args, shape);
          },
          sizeof(typename Type::Shared)};
}

template <class... Types>
std::vector<EmulatedKernel> KernelsOf(KernelTypes<Types...>,
                                      const std::shared_ptr<PtxMachine>& machine) {
  return {KernelOf<Types>(machine)...};
}

}  // namespace

EmulatedDeviceOptions PtxDeviceOptions(const std::shared_ptr<PtxMachine>& machine) {
  EmulatedDeviceOptions options;
  options.kernels = KernelsOf(KernelList(), machine);
  options.gap_bytes = kGapBytes;
  options.watcher = &machine->memory;
  options.health = [machine]() -> absl::Status {
    if (machine->findings.empty()) return absl::OkStatus();
    return absl::InternalError(ToAbsl(machine->findings.Text()));
  };
  options.name = "PTX";
  return options;
}

}  // namespace kerf::cuda::ptx
