// What the edge hands to the pipeline: the frames of one message, data still where it arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "kerf/v1/chunking.pb.h"

namespace kerf {

using Bytes = std::span<const std::uint8_t>;

// Valid until the source's next call of Next, or its end.
struct Frame {
  // Null for a data frame.
  const v1::UploadFrame* control = nullptr;
  // The payload of a data frame, in order and in as many pieces as it arrived in.
  std::span<const Bytes> data;
  std::size_t data_bytes = 0;
};

// One received message; owns its bytes. Used by one thread at a time.
class FrameSource {
 public:
  virtual ~FrameSource() = default;

  // The next frame, or null behind the last one. MALFORMED_MESSAGE or MESSAGE_TOO_LARGE for bytes
  // that are no UploadRequest; the frames before the bad one have been handed out by then.
  virtual absl::StatusOr<const Frame*> Next() = 0;

  // Of the whole message.
  virtual std::size_t size_bytes() const = 0;
};

}  // namespace kerf
