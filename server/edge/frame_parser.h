// Reads the frames of an encoded kerf.v1.UploadRequest where it lies: the payload of a data frame
// is handed out as pieces of the input, never copied. All other frames are small; they are copied
// together and parsed by the generated code, so that the two parsers cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/arena.h"
#include "kerf/v1/chunking.pb.h"
#include "server/session/frame.h"

namespace kerf {

// Encoded size of a frame that is not plain data: a full Commit (4,096 entries of a 32-byte digest
// and a 64-byte locator) fits. It bounds what a frame of millions of empty entries can make the
// generated parser allocate.
inline constexpr std::size_t kMaxControlFrameBytes = 448 * 1024;

// Accepts exactly what UploadRequest::ParseFromString accepts and yields the same frames, but for
// two limits: kMaxControlFrameBytes, and the same for the rest of a message from a field on that is
// not in the protocol. Not thread-safe.
class FrameParser {
 public:
  FrameParser() = default;

  // Begins a message. The bytes (not the span of pieces) must live as long as it is read.
  void Reset(std::span<const Bytes> pieces);

  // As FrameSource::Next.
  absl::StatusOr<const Frame*> Next();

 private:
  // At most `count` bytes of the current piece.
  Bytes Contiguous(std::size_t count) const;
  void Skip(std::size_t count);
  // False at the end of the message or for more than five bytes or 35 bits.
  bool ReadLength(std::size_t* length);
  // The next `count` bytes, copied together where they are not in one piece.
  Bytes Gather(std::size_t count);
  void TakeData(std::size_t count);
  absl::StatusOr<const Frame*> ControlFrame(std::size_t frame_bytes);
  absl::StatusOr<const Frame*> UnusualRest();
  const Frame* NextOfRest();

  std::vector<Bytes> pieces_;
  std::size_t piece_index_ = 0;
  std::size_t piece_offset_ = 0;
  std::size_t left_bytes_ = 0;
  std::size_t message_bytes_ = 0;

  Frame frame_;
  std::vector<Bytes> data_pieces_;
  v1::UploadFrame control_;
  // Of the last large frame: in one piece, as the thousands of entries of a commit would each take
  // three allocations more.
  std::optional<google::protobuf::Arena> arena_;
  std::string gathered_;
  // The frames behind a field that is not in the protocol.
  v1::UploadRequest rest_;
  int rest_index_ = 0;
};

}  // namespace kerf
