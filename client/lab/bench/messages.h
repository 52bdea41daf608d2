// The messages of an upload, encoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "client/lab/bench/local_cut.h"
#include "client/lab/bench/service_options.h"
#include "grpcpp/support/byte_buffer.h"

namespace kerf::bench {

// Of each file that is sent.
inline constexpr char kFileKey[] = "kerf bench";

// `cuts`: that this side would like to. `token`: of memory that it shares; empty: of none.
grpc::ByteBuffer OpenMessage(const ServiceOptions& options, const std::string& repository,
                             bool cuts = false, const std::string& token = "");

// Of the chunks at these positions in `chunks`, which lie in a store that does not exist.
grpc::ByteBuffer CommitMessage(std::span<const LocalChunk> chunks,
                               std::span<const std::size_t> positions, std::size_t digest_bytes);

// One file as FileBegin, data and FileEnd. The data is sent from where it lies: it must outlive the
// messages and all calls that send them.
class FileMessages {
 public:
  FileMessages(std::span<const std::uint8_t> file, std::uint32_t message_bytes);

  std::size_t count() const { return count_; }
  grpc::ByteBuffer Message(std::size_t index) const;
  std::span<const std::uint8_t> file() const { return file_; }
  // Of file data in one message.
  std::size_t message_bytes() const { return message_bytes_; }
  const std::string& content_hash() const { return content_hash_; }

 private:
  const std::span<const std::uint8_t> file_;
  const std::size_t message_bytes_;
  const std::size_t count_;
  std::string content_hash_;
};

}  // namespace kerf::bench
