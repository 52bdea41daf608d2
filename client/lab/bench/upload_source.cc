#include "client/lab/bench/upload_source.h"

#include <algorithm>
#include <cstring>

#include "kerf/v1/chunking.pb.h"

namespace kerf::bench {
namespace {

// What kerf's own agent names in one message, in bytes of files and in chunks.
constexpr std::size_t kMessageNamedBytes = std::size_t{2} << 20;
constexpr std::size_t kMessageChunks = 512;

}  // namespace

std::optional<grpc::ByteBuffer> SentFile::Next() {
  if (next_message_ == messages_->count()) return std::nullopt;
  return messages_->Message(next_message_++);
}

// As an agent's blocks, each of a message's bytes: the memory is used round and round.
std::optional<std::size_t> SharedFile::FindPlace(std::size_t count) const {
  const std::size_t block_bytes = messages_->message_bytes();
  const std::size_t block_count = offer_->memory().bytes().size() / block_bytes;
  const std::uint64_t first_held = answered_bytes_ / block_bytes;
  const std::uint64_t next = sent_bytes_ / block_bytes;
  if (count == 0 || next - first_held >= block_count) return std::nullopt;
  return static_cast<std::size_t>(next % block_count) * block_bytes;
}

std::optional<grpc::ByteBuffer> SharedFile::Next() {
  if (has_ended_) return std::nullopt;
  const std::span<const std::uint8_t> rest = messages_->file().subspan(sent_bytes_);
  const std::size_t count = std::min(rest.size(), messages_->message_bytes());
  const std::optional<std::size_t> place = FindPlace(count);
  if (count > 0 && !place.has_value()) return std::nullopt;
  v1::UploadRequest message;
  if (!std::exchange(has_begun_, true)) {
    v1::FileBegin& begin = *message.add_frames()->mutable_file_begin();
    begin.set_file_key(kFileKey);
    begin.set_size_hint_bytes(messages_->file().size());
  }
  if (place.has_value()) {
    std::memcpy(offer_->memory().bytes().data() + *place, rest.data(), count);
    v1::SharedData& shared = *message.add_frames()->mutable_shared_data();
    shared.set_offset_bytes(*place);
    shared.set_length_bytes(static_cast<std::uint32_t>(count));
    sent_bytes_ += count;
  }
  if (sent_bytes_ == messages_->file().size()) {
    has_ended_ = true;
    v1::FileEnd& end = *message.add_frames()->mutable_file_end();
    end.set_size_bytes(sent_bytes_);
    end.set_content_hash(messages_->content_hash());
  }
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

NamedFile::NamedFile(const Profile& profile, DigestAlgorithm digest,
                     std::span<const std::uint8_t> file)
    : file_(file), digest_bytes_(DigestSizeBytes(digest)), cutter_(profile, digest) {}

void NamedFile::Cut() {
  chunks_.clear();
  next_chunk_ = 0;
  const auto take = [this](std::span<const client::LocalCutter::Chunk> chunks) {
    chunks_.insert(chunks_.end(), chunks.begin(), chunks.end());
  };
  while (chunks_.empty() && cut_bytes_ < file_.size()) {
    const std::size_t count = std::min(kMessageNamedBytes, file_.size() - cut_bytes_);
    cutter_.Add(file_.subspan(cut_bytes_, count), take);
    cut_bytes_ += count;
    if (cut_bytes_ == file_.size()) cutter_.End(take);
  }
}

std::optional<grpc::ByteBuffer> NamedFile::Next() {
  if (has_ended_) return std::nullopt;
  v1::UploadRequest message;
  if (!has_begun_) {
    has_begun_ = true;
    v1::FileBegin& begin = *message.add_frames()->mutable_file_begin();
    begin.set_file_key(kFileKey);
    begin.set_size_hint_bytes(file_.size());
  }
  if (next_chunk_ == chunks_.size()) Cut();
  if (next_chunk_ < chunks_.size()) {
    v1::ChunkDigests& names = *message.add_frames()->mutable_chunk_digests();
    std::size_t named_bytes = 0;
    for (std::size_t count = 0; count < kMessageChunks && next_chunk_ < chunks_.size(); ++count) {
      const client::LocalCutter::Chunk& chunk = chunks_[next_chunk_];
      if (count > 0 && named_bytes + chunk.length_bytes > kMessageNamedBytes) break;
      named_bytes += chunk.length_bytes;
      names.mutable_digests()->append(reinterpret_cast<const char*>(chunk.digest.bytes.data()),
                                      digest_bytes_);
      names.add_lengths_bytes(chunk.length_bytes);
      recipe_hash_.Add(chunk.digest, digest_bytes_, chunk.length_bytes);
      ++next_chunk_;
    }
  }
  if (next_chunk_ == chunks_.size() && cut_bytes_ == file_.size()) {
    has_ended_ = true;
    v1::FileEnd& end = *message.add_frames()->mutable_file_end();
    end.set_size_bytes(file_.size());
    const Xxh3Digest hash = recipe_hash_.Value();
    end.set_content_hash(hash.data(), hash.size());
  }
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace kerf::bench
