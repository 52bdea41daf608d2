// The text of proto/kerf/v1/vectors/chunking.json, which is in the program.
#pragma once

#include <string>

namespace kerf::cuda {

std::string GoldenVectors();

}  // namespace kerf::cuda
