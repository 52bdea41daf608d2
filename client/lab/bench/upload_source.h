// The messages of one file on an upload, one behind the other: its bytes, where they lie, or what
// its chunks are called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "client/cpp/local_cutter.h"
#include "client/cpp/memory_offer.h"
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
  // Of the memory that the server must have taken; empty: of none.
  virtual std::string token() const { return ""; }
  // Nothing: that was all, or there is more once more is answered.
  virtual std::optional<grpc::ByteBuffer> Next() = 0;
  // All up to here.
  virtual void Answered(std::uint64_t /*end_offset*/) {}
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

// Copies as much of the file as one message has into memory that the server sees, as a read would
// do, and says where (docs/spec/protocol.md, "Memory that both see").
class SharedFile final : public UploadSource {
 public:
  // `messages`, which are not sent, must outlive it.
  SharedFile(const FileMessages* messages, std::shared_ptr<client::MemoryOffer> offer)
      : messages_(messages), offer_(std::move(offer)) {}

  bool cuts() const override { return false; }
  std::string token() const override { return offer_->token(); }
  std::optional<grpc::ByteBuffer> Next() override;
  void Answered(std::uint64_t end_offset) override { answered_bytes_ = end_offset; }

 private:
  // Where what follows goes; nothing: all is full of what is not answered.
  std::optional<std::size_t> FindPlace(std::size_t count) const;

  const FileMessages* const messages_;
  const std::shared_ptr<client::MemoryOffer> offer_;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t answered_bytes_ = 0;
  bool has_begun_ = false;
  bool has_ended_ = false;
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
