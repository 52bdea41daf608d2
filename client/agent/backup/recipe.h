// What an upload answers, in the agent's own types.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// One chunk as the server answered it.
struct AnsweredChunk {
  Digest digest;
  std::uint32_t length_bytes = 0;
  v1::Verdict verdict = v1::VERDICT_NEW;
  // Unless verdict is VERDICT_NEW.
  std::string locator;
};

}  // namespace kerf::agent
