#include "server/worker/worker_settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "kernels/registry.h"

namespace kerf {
namespace {

constexpr std::string_view kAllGpus = "all";
constexpr std::string_view kMeasured = "auto";
constexpr std::uint32_t kMaxGpuNumber = 999;

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "kerfd";
  return name.data();
}

// As "0,1"; empty if it is not that, or names one twice, or too many.
std::vector<std::uint32_t> ReadGpuNumbers(std::string_view text) {
  std::vector<std::uint32_t> numbers;
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool is_number = error == std::errc() && end == part.data() + part.size();
    if (!is_number || number > kMaxGpuNumber || numbers.size() == kMostGpus) return {};
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) return {};
    numbers.push_back(number);
    if (part.size() == text.size()) return numbers;
    text.remove_prefix(part.size() + 1);
  }
}

absl::StatusOr<std::vector<std::uint32_t>> ParseGpus(std::string_view text) {
  if (text == kAllGpus) return std::vector<std::uint32_t>();
  std::vector<std::uint32_t> numbers = ReadGpuNumbers(text);
  if (!numbers.empty()) return numbers;
  return absl::InvalidArgumentError(
      ToAbsl(Cat("'", text, "' names no GPUs: all, or numbers as 0,1, each once, and ", kMostGpus,
                 " of them at most")));
}

absl::StatusOr<std::optional<std::uint64_t>> ParseMinPiece(std::string_view text) {
  if (text == kMeasured) return std::nullopt;
  const absl::StatusOr<std::uint64_t> size_bytes = ParseByteSize(text);
  if (size_bytes.ok()) return *size_bytes;
  return absl::InvalidArgumentError(ToAbsl(Cat(MessageOf(size_bytes.status()), ", or auto")));
}

}  // namespace

void AddWorkerSettings(OptionSet& options, WorkerSettings& settings) {
  settings.name = HostName();
  settings.backend = kAutomaticBackend;
  options.AddText({"worker-name", "Names this process to clients"}, settings.name);
  options.AddNumber({"worker-threads", "Threads that cut and hash; 0: one for each core"},
                    settings.thread_count, 0, 1024);
  options.AddText(
      {"backend",
       "Kernels that cut, where they know the algorithm: plain, scalar, sse4, avx2, avx512, "
       "avx512vbmi, neon; auto measures which is the fastest here"},
      settings.backend);
}

void AddGpuSettings(OptionSet& options, GpuSettings& settings) {
  options.AddChoice<GpuUse>(
      {"gpu",
       "Whether GPUs cut and fingerprint what they are faster at: auto if there are any (and "
       "--backend is auto), require or kerfd does not start, off. The answers are the same"},
      settings.use,
      {{"auto", GpuUse::kAuto}, {"require", GpuUse::kRequire}, {"off", GpuUse::kOff}});
  options.AddText(
      {"gpu-plugin", "The plug-in that came with this kerfd; libkerf_cuda.so beside it if empty",
       "FILE"},
      settings.plugin);
  options.AddParsed(
      {"gpu-devices",
       "Which GPUs: all, or their numbers as the system counts them, with commas, as 0,1",
       "NUMBERS"},
      settings.devices, std::string(kAllGpus), ParseGpus);
  options.AddSize({"gpu-memory",
                   "Of each GPU, for batches on their way; about half as much of this machine's is "
                   "pinned for them. With less than 37M batches are smaller, 1M is enough for one"},
                  settings.memory_bytes);
  options.AddParsed(
      {"gpu-min-piece",
       "Pieces of files that are smaller are the CPU's: auto measures at start from where on each "
       "GPU is faster, 0 leaves it the ends of files and what no batch is free for. They have up "
       "to "
       "2M",
       "SIZE"},
      settings.min_piece_bytes, std::string(kMeasured), ParseMinPiece);
  options.AddChoice<bool>(
      {"gpu-lost",
       "What follows when a GPU fails, or is wrong: cpu goes on with the others and the CPU, drain "
       "stops as after SIGTERM and ends with exit code 1, to be started anew. Nothing is lost "
       "either way"},
      settings.ends_without, {{"cpu", false}, {"drain", true}});
}

}  // namespace kerf
