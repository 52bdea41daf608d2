#include "server/edge/testing/slices.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "server/edge/frame_parser.h"

namespace kerf {

ParsedMessage ParseSliced(Bytes message, std::size_t piece_bytes) {
  std::vector<std::unique_ptr<std::uint8_t[]>> memory;
  std::vector<Bytes> pieces;
  while (!message.empty()) {
    const Bytes piece = message.first(std::min(piece_bytes, message.size()));
    memory.push_back(std::make_unique<std::uint8_t[]>(piece.size()));
    std::copy(piece.begin(), piece.end(), memory.back().get());
    pieces.emplace_back(memory.back().get(), piece.size());
    message = message.subspan(piece.size());
  }
  FrameParser parser;
  parser.Reset(pieces);
  ParsedMessage parsed;
  while (true) {
    const absl::StatusOr<const Frame*> next = parser.Next();
    if (!next.ok()) {
      parsed.status = next.status();
      return parsed;
    }
    const Frame* const frame = *next;
    if (frame == nullptr) return parsed;
    if (frame->control != nullptr) {
      *parsed.request.add_frames() = *frame->control;
      continue;
    }
    std::string* const data = parsed.request.add_frames()->mutable_data();
    for (const Bytes part : frame->data) {
      data->append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    KERF_CHECK(data->size() == frame->data_bytes);
  }
}

}  // namespace kerf
