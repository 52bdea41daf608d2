// Figures of a GPU for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kernels/cuda/bench/gpu_bench.h"

namespace kerf::cuda {

// What stands above the lines.
std::string GpuFigureHeading();
std::string GpuFigureLine(const GpuFigure& figure);

// As docs/json.md has it.
nlohmann::json GpuFigureJson(const GpuFigure& figure);

}  // namespace kerf::cuda
