// One Upload call of a server that cuts at fixed places, with hooks for lies.
#pragma once

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "client/cpp/testing/fake_server.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// As kerf's client encodes it, which writes the lengths of what it collects with four bytes each.
inline std::size_t EncodedBytes(const v1::UploadRequest& request) {
  if (request.frames_size() == 1 &&
      (request.frames(0).has_commit() || request.frames(0).has_report_stale())) {
    return request.ByteSizeLong();
  }
  std::size_t bytes = 0;
  for (const v1::UploadFrame& frame : request.frames()) {
    const bool is_data = frame.frame_case() == v1::UploadFrame::kData;
    bytes += is_data ? 10 + frame.data().size() : 5 + frame.ByteSizeLong();
  }
  return bytes;
}

struct CuttingServer {
  // Cuts each file into chunks of so many bytes, when it has ended.
  std::size_t chunk_bytes = 4096;
  v1::Verdict verdict = v1::VERDICT_NEW;
  v1::UploadAnswer opened = Opened();
  // May change what is said in answer to the frame.
  std::function<void(const v1::UploadFrame&, v1::UploadResponse&)> lie = [](const auto&, auto&) {};
  std::function<void(const v1::UploadRequest&)> on_message = [](const auto&) {};
  // A message without frames, which says only that the client is there.
  std::function<void()> on_empty_message = [] {};
  // The client has said all; false: the stream is not ended then.
  std::function<bool()> on_half_close = [] { return true; };

  static v1::UploadAnswer Opened() {
    v1::UploadAnswer answer;
    v1::Limits& limits = *answer.mutable_opened()->mutable_limits();
    limits.set_max_message_bytes(4 << 20);
    limits.set_max_uncommitted_chunks(65536);
    limits.set_max_uncommitted_files(16384);
    limits.set_max_commit_entries(4096);
    return answer;
  }

  grpc::Status operator()(grpc::ServerContext& context, client::FakeServer::Stream& stream) const {
    v1::UploadRequest request;
    std::uint64_t file_number = 0;
    std::string content;
    std::uint64_t start_offset = 0;
    while (stream.Read(&request)) {
      on_message(request);
      if (request.frames().empty()) on_empty_message();
      for (const v1::UploadFrame& frame : request.frames()) {
        v1::UploadResponse response;
        if (frame.has_open()) *response.add_answers() = opened;
        if (frame.has_commit()) response.add_answers()->mutable_committed();
        if (frame.has_file_begin()) {
          ++file_number;
          content.clear();
          start_offset = frame.file_begin().start_offset();
        }
        if (frame.frame_case() == v1::UploadFrame::kData) content += frame.data();
        if (frame.has_file_end()) {
          if (!content.empty()) {
            v1::Chunks& chunks = *response.add_answers()->mutable_chunks();
            chunks.set_file_number(file_number);
            Cut(content, start_offset, chunks);
          }
          response.add_answers()->mutable_file_done()->set_file_number(file_number);
        }
        lie(frame, response);
        if (!response.answers().empty()) stream.Write(response);
      }
    }
    return on_half_close() ? grpc::Status::OK : client::FakeServer::StaySilent(context);
  }

 private:
  void Cut(const std::string& content, std::uint64_t start_offset, v1::Chunks& chunks) const {
    for (std::size_t begin = 0; begin < content.size(); begin += chunk_bytes) {
      const std::string bytes = content.substr(begin, chunk_bytes);
      v1::Chunk& chunk = *chunks.add_chunks();
      chunk.set_end_offset(start_offset + begin + bytes.size());
      const Digest digest =
          Fingerprint(DigestAlgorithm::kBlake3,
                      {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
      chunk.set_digest(digest.bytes.data(), DigestSizeBytes(DigestAlgorithm::kBlake3));
      chunk.set_check(XXH3_64bits(bytes.data(), bytes.size()));
      chunk.set_verdict(verdict);
      if (verdict != v1::VERDICT_NEW) chunk.set_locator("place");
    }
  }
};

}  // namespace kerf::agent
