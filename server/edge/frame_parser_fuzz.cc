// The frame parser against the generated one, on the same bytes in two slicings. The first byte of
// the input chooses the length of the pieces.
#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <string>

#include "base/check.h"
#include "server/edge/frame_parser.h"
#include "server/edge/testing/slices.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kerf::Bytes;
  static const bool quiet = google::protobuf::SetLogHandler(nullptr) == nullptr;
  static_cast<void>(quiet);
  if (size == 0) return 0;
  const std::size_t piece_bytes = data[0] % 64 + 1u;
  const Bytes message(data + 1, size - 1);
  // Beyond, the two differ by design.
  if (message.size() > kerf::kMaxControlFrameBytes) return 0;

  kerf::v1::UploadRequest expected;
  const bool valid = expected.ParseFromArray(message.data(), static_cast<int>(message.size()));
  kerf::ParsedMessage sliced = kerf::ParseSliced(message, piece_bytes);
  const kerf::ParsedMessage whole = kerf::ParseSliced(message, message.size() + 1);
  KERF_CHECK(sliced.status.ok() == valid);
  KERF_CHECK(whole.status.ok() == valid);
  KERF_CHECK(sliced.request.SerializeAsString() == whole.request.SerializeAsString());
  if (!valid) return 0;
  // Beside the frames and in data frames, the parser does not keep what it does not know.
  expected.DiscardUnknownFields();
  sliced.request.DiscardUnknownFields();
  KERF_CHECK(sliced.request.SerializeAsString() == expected.SerializeAsString());
  return 0;
}
