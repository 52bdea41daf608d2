#include "kernels/cuda/bench/gpu_report.h"

#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace kerf::cuda {

std::string GpuFigureHeading() {
  return absl::StrFormat("%-10s %-14s %-7s %10s %6s %12s %13s", "what", "profile", "digest", "size",
                         "strip", "time", "speed");
}

std::string GpuFigureLine(const GpuFigure& figure) {
  const std::string strip = figure.strip_bytes == 0 ? "" : Cat(figure.strip_bytes);
  std::string line = absl::StrFormat("%-10s %-14s %-7s %10d %6s %9.1f us %8.2f GB/s", figure.what,
                                     figure.profile, figure.digest, figure.size_bytes, strip,
                                     figure.seconds * 1e6, figure.bytes_per_second() / 1e9);
  if (figure.data != "random") line += Cat("  ", figure.data);
  if (figure.stream_count > 1) line += Cat("  ", figure.stream_count, " streams");
  if (figure.share_of_copy > 0) {
    line += absl::StrFormat("  %.0f %% of copy-in", figure.share_of_copy * 100);
  }
  return line;
}

nlohmann::json GpuFigureJson(const GpuFigure& figure) {
  nlohmann::json object = {{"what", figure.what},
                           {"size_bytes", figure.size_bytes},
                           {"data", figure.data},
                           {"streams", figure.stream_count},
                           {"seconds", figure.seconds},
                           {"bytes_per_second", figure.bytes_per_second()},
                           {"checked", true}};
  const auto put = [&](const char* key, const auto& value, bool is_known) {
    object[key] = is_known ? nlohmann::json(value) : nlohmann::json();
  };
  put("profile", figure.profile, !figure.profile.empty());
  put("digest", figure.digest, !figure.digest.empty());
  put("strip_bytes", figure.strip_bytes, figure.strip_bytes > 0);
  put("share_of_copy", figure.share_of_copy, figure.share_of_copy > 0);
  return object;
}

}  // namespace kerf::cuda
