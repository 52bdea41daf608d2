// The messages of one file on an upload, one behind the other: its bytes, or what its chunks are
// called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "client/cpp/local_cutter.h"
#include "client/lab/bench/messages.h"
#include "grpcpp/support/byte_buffer.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/fingerprint/recipe_hash.h"
#include "kernels/profile.h"

namespace kerf::bench {

// Not thread-safe.
class UploadSource {
 public:
  virtual ~UploadSource() = default;

  // Whether the stream must be one whose client cuts.
  virtual bool cuts() const = 0;
  // Nothing: that was all.
  virtual std::optional<grpc::ByteBuffer> Next() = 0;
};

class SentFile final : public UploadSource {
 public:
  // `messages` must outlive it.
  explicit SentFile(const FileMessages* messages) : messages_(messages) {}

  bool cuts() const override { return false; }
  std::optional<grpc::ByteBuffer> Next() override;

 private:
  const FileMessages* const messages_;
  std::size_t next_message_ = 0;
};

// Cuts and fingerprints as much of the file as the next message names, as `kerf backup --cut local`
// does (docs/spec/protocol.md, "A client that cuts").
class NamedFile final : public UploadSource {
 public:
  // `file` must outlive it.
  NamedFile(const Profile& profile, DigestAlgorithm digest, std::span<const std::uint8_t> file);

  bool cuts() const override { return true; }
  std::optional<grpc::ByteBuffer> Next() override;

 private:
  void Cut();

  const std::span<const std::uint8_t> file_;
  const std::size_t digest_bytes_;
  client::LocalCutter cutter_;
  RecipeHash recipe_hash_;
  std::size_t cut_bytes_ = 0;
  bool has_begun_ = false;
  bool has_ended_ = false;
  // Cut, and from next_chunk_ on not named.
  std::vector<client::LocalCutter::Chunk> chunks_;
  std::size_t next_chunk_ = 0;
};

}  // namespace kerf::bench
