// What a FrameParser makes of a message that arrives in pieces.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "kerf/v1/chunking.pb.h"
#include "server/session/frame.h"

namespace kerf {

struct ParsedMessage {
  // The frames that came before the error, if there is one.
  v1::UploadRequest request;
  absl::Status status;
};

// Each piece is a copy of its own in memory of its own, so that a sanitizer sees every step over
// its end; all have piece_bytes bytes but the last.
ParsedMessage ParseSliced(Bytes message, std::size_t piece_bytes);

}  // namespace kerf
