#include "server/edge/frame_parser.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "base/strings.h"
#include "server/errors/errors.h"

namespace kerf {
namespace {

// Field number and wire type in one byte: UploadRequest.frames and UploadFrame.data.
constexpr std::uint8_t kFramesTag = (1 << 3) | 2;
constexpr std::uint8_t kDataTag = (3 << 3) | 2;

// A length is a varint of at most five bytes, of which the last holds at most three bits.
constexpr int kMaxLengthBytes = 5;
constexpr std::uint8_t kMaxLastByte = 7;

// From here on a frame is taken apart into an arena of its own. A full commit takes some ten blocks
// of it; the first is not much more than a frame of the least size needs.
constexpr std::size_t kLargeFrameBytes = std::size_t{4} * 1024;
constexpr std::size_t kMinBlockBytes = std::size_t{8} * 1024;
constexpr std::size_t kMaxBlockBytes = std::size_t{64} * 1024;

google::protobuf::ArenaOptions Blocks() {
  google::protobuf::ArenaOptions options;
  options.start_block_size = kMinBlockBytes;
  options.max_block_size = kMaxBlockBytes;
  return options;
}

}  // namespace

void FrameParser::Reset(std::span<const Bytes> pieces) {
  pieces_.clear();
  left_bytes_ = 0;
  for (const Bytes piece : pieces) {
    if (piece.empty()) continue;
    pieces_.push_back(piece);
    left_bytes_ += piece.size();
  }
  message_bytes_ = left_bytes_;
  piece_index_ = 0;
  piece_offset_ = 0;
  rest_.Clear();
  rest_index_ = 0;
  arena_.reset();
}

Bytes FrameParser::Contiguous(std::size_t count) const {
  if (count == 0) return {};
  const Bytes piece = pieces_[piece_index_].subspan(piece_offset_);
  return piece.first(std::min(count, piece.size()));
}

void FrameParser::Skip(std::size_t count) {
  left_bytes_ -= count;
  while (count > 0) {
    const std::size_t step = std::min(count, pieces_[piece_index_].size() - piece_offset_);
    count -= step;
    piece_offset_ += step;
    if (piece_offset_ == pieces_[piece_index_].size()) {
      ++piece_index_;
      piece_offset_ = 0;
    }
  }
}

bool FrameParser::ReadLength(std::size_t* length) {
  std::size_t value = 0;
  for (int index = 0; index < kMaxLengthBytes; ++index) {
    if (left_bytes_ == 0) return false;
    const std::uint8_t byte = Contiguous(1)[0];
    Skip(1);
    value |= static_cast<std::size_t>(byte & 0x7F) << (7 * index);
    if (byte < 0x80) {
      if (index == kMaxLengthBytes - 1 && byte > kMaxLastByte) return false;
      *length = value;
      return true;
    }
  }
  return false;
}

Bytes FrameParser::Gather(std::size_t count) {
  const Bytes first = Contiguous(count);
  if (first.size() == count) {
    Skip(count);
    return first;
  }
  gathered_.clear();
  gathered_.reserve(count);
  while (gathered_.size() < count) {
    const Bytes part = Contiguous(count - gathered_.size());
    gathered_.append(reinterpret_cast<const char*>(part.data()), part.size());
    Skip(part.size());
  }
  return {reinterpret_cast<const std::uint8_t*>(gathered_.data()), gathered_.size()};
}

void FrameParser::TakeData(std::size_t count) {
  data_pieces_.clear();
  frame_.data_bytes = count;
  while (count > 0) {
    const Bytes part = Contiguous(count);
    data_pieces_.push_back(part);
    Skip(part.size());
    count -= part.size();
  }
  frame_.data = data_pieces_;
  frame_.control = nullptr;
}

absl::StatusOr<const Frame*> FrameParser::Next() {
  if (const Frame* frame = NextOfRest(); frame != nullptr) return frame;
  if (left_bytes_ == 0) return nullptr;
  if (Contiguous(1)[0] != kFramesTag) return UnusualRest();
  const std::size_t position = message_bytes_ - left_bytes_;
  Skip(1);
  std::size_t frame_bytes = 0;
  if (!ReadLength(&frame_bytes) || frame_bytes > left_bytes_) {
    return MakeError(Reason::kMalformedMessage,
                     Cat("the frame at byte ", position, " of a message of ", message_bytes_,
                         " bytes does not end inside it"));
  }
  // A frame that is one data field and nothing else, as every sane client encodes it.
  if (frame_bytes > 0 && Contiguous(1)[0] == kDataTag) {
    const std::size_t piece_index = piece_index_;
    const std::size_t piece_offset = piece_offset_;
    const std::size_t left_bytes = left_bytes_;
    Skip(1);
    std::size_t data_bytes = 0;
    if (ReadLength(&data_bytes) && left_bytes - left_bytes_ + data_bytes == frame_bytes) {
      TakeData(data_bytes);
      return &frame_;
    }
    piece_index_ = piece_index;
    piece_offset_ = piece_offset;
    left_bytes_ = left_bytes;
  }
  return ControlFrame(frame_bytes);
}

absl::StatusOr<const Frame*> FrameParser::ControlFrame(std::size_t frame_bytes) {
  if (frame_bytes > kMaxControlFrameBytes) {
    return MakeError(Reason::kMessageTooLarge,
                     Cat("a frame of ", frame_bytes, " bytes that is not plain data; at most ",
                         kMaxControlFrameBytes, " are taken"));
  }
  const Bytes encoded = Gather(frame_bytes);
  v1::UploadFrame* control = &control_;
  if (frame_bytes >= kLargeFrameBytes) {
    arena_.emplace(Blocks());
    control = google::protobuf::Arena::CreateMessage<v1::UploadFrame>(&*arena_);
  }
  if (!control->ParseFromArray(encoded.data(), static_cast<int>(encoded.size()))) {
    return MakeError(Reason::kMalformedMessage,
                     Cat("the frame that ends at byte ", message_bytes_ - left_bytes_,
                         " of a message of ", message_bytes_, " bytes is no UploadFrame"));
  }
  frame_ = Frame{};
  if (control->frame_case() != v1::UploadFrame::kData) {
    frame_.control = control;
    return &frame_;
  }
  data_pieces_.assign(1, Bytes(reinterpret_cast<const std::uint8_t*>(control->data().data()),
                               control->data().size()));
  frame_.data = data_pieces_;
  frame_.data_bytes = control->data().size();
  return &frame_;
}

// The message has a field beside `frames`, or an overlong tag: a newer protocol, or garbage.
absl::StatusOr<const Frame*> FrameParser::UnusualRest() {
  const std::size_t position = message_bytes_ - left_bytes_;
  if (left_bytes_ > kMaxControlFrameBytes) {
    return MakeError(Reason::kMalformedMessage,
                     Cat("no frame at byte ", position, " of a message of ", message_bytes_,
                         " bytes, and too many bytes behind it"));
  }
  const Bytes encoded = Gather(left_bytes_);
  if (!rest_.ParseFromArray(encoded.data(), static_cast<int>(encoded.size()))) {
    rest_.Clear();
    return MakeError(Reason::kMalformedMessage,
                     Cat("no UploadRequest from byte ", position, " of a message of ",
                         message_bytes_, " bytes on"));
  }
  return NextOfRest();
}

const Frame* FrameParser::NextOfRest() {
  if (rest_index_ == rest_.frames_size()) return nullptr;
  const v1::UploadFrame& next = rest_.frames(rest_index_++);
  frame_ = Frame{};
  if (next.frame_case() != v1::UploadFrame::kData) {
    frame_.control = &next;
    return &frame_;
  }
  data_pieces_.assign(
      1, Bytes(reinterpret_cast<const std::uint8_t*>(next.data().data()), next.data().size()));
  frame_.data = data_pieces_;
  frame_.data_bytes = next.data().size();
  return &frame_;
}

}  // namespace kerf
