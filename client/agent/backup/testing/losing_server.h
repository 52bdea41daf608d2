// A server that keeps to the protocol, cuts at every 4,096th byte behind a cut, and ends streams at
// the moments that a test chooses. What it had committed outlives its streams.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/agent/backup/testing/cutting_server.h"
#include "kernels/fingerprint/recipe_hash.h"
#include "kernels/fingerprint/xxh3.h"

namespace kerf::agent {

enum class Moment : std::uint8_t {
  kBeforeOpened,
  kOpened,
  kInData,
  kChunksSent,
  kCommitTaken,
  kCommittedSent,
  kDoneSent,
};
inline constexpr int kMomentCount = 7;

class LosingServer {
 private:
  struct State {
    std::function<grpc::Status(Moment)> choose;
    std::function<bool()> lets_client_cut;
    std::function<std::uint32_t()> choose_max_message_bytes;
    std::mutex mutex;
    std::set<std::string> index;
    std::vector<std::string> faults;
    int stream_count = 0;
    std::uint64_t data_bytes = 0;
  };
  template <typename Read>
  auto Locked(const Read& read) const {
    std::lock_guard lock(state_->mutex);
    return read(*state_);
  }

 public:
  static constexpr std::size_t kChunkBytes = 4096;
  static constexpr std::uint32_t kMaxNamedBytes = 64 * 1024;

  // What a stream that ends there ends with; OK: it goes on. On several streams at once.
  using Choose = std::function<grpc::Status(Moment)>;

  // The second says of each stream whose client would like to cut whether it may, the third how
  // long its messages may be.
  explicit LosingServer(
      Choose choose, std::function<bool()> lets_client_cut = [] { return false; },
      std::function<std::uint32_t()> choose_max_message_bytes = [] { return 4U << 20; })
      : state_(std::make_shared<State>()) {
    state_->choose = std::move(choose);
    state_->lets_client_cut = std::move(lets_client_cut);
    state_->choose_max_message_bytes = std::move(choose_max_message_bytes);
  }

  grpc::Status operator()(grpc::ServerContext& /*context*/,
                          client::FakeServer::Stream& stream) const {
    return Call(*state_, stream).Serve();
  }

  int stream_count() const {
    return Locked([](State& state) { return state.stream_count; });
  }
  std::set<std::string> index() const {
    return Locked([](State& state) { return state.index; });
  }
  // What a client did against the protocol.
  std::vector<std::string> faults() const {
    return Locked([](State& state) { return state.faults; });
  }
  // Data that came, again or not.
  std::uint64_t data_bytes() const {
    return Locked([](State& state) { return state.data_bytes; });
  }

 private:
  class Call {
   public:
    Call(State& state, client::FakeServer::Stream& stream)
        : state_(state), stream_(stream), max_message_bytes_(state.choose_max_message_bytes()) {}

    grpc::Status Serve() {
      {
        std::lock_guard lock(state_.mutex);
        ++state_.stream_count;
      }
      v1::UploadRequest request;
      while (stream_.Read(&request)) {
        if (EncodedBytes(request) > max_message_bytes_) {
          Fault("a message longer than was told");
          return end_;
        }
        for (const v1::UploadFrame& frame : request.frames()) {
          if (!Take(frame)) return end_;
        }
      }
      return grpc::Status::OK;
    }

   private:
    struct File {
      std::uint64_t number = 0;
      std::uint64_t offset = 0;
      std::string uncut;
      std::string all;
      RecipeHash named;
      std::set<std::string> pending;
      bool ended = false;
      bool done = false;
    };

    bool Reaches(Moment moment) {
      end_ = state_.choose(moment);
      return end_.ok();
    }
    bool Fault(const std::string& what) {
      std::lock_guard lock(state_.mutex);
      state_.faults.push_back(what);
      end_ = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, what);
      return false;
    }

    bool Take(const v1::UploadFrame& frame) {
      switch (frame.frame_case()) {
        case v1::UploadFrame::kOpen: {
          if (!Reaches(Moment::kBeforeOpened)) return false;
          v1::UploadResponse response;
          *response.add_answers() = CuttingServer::Opened();
          response.mutable_answers(0)->mutable_opened()->mutable_limits()->set_max_message_bytes(
              max_message_bytes_);
          names_ = frame.open().cutter() != v1::CUTTER_UNSPECIFIED && state_.lets_client_cut();
          if (names_) {
            v1::Opened& opened = *response.mutable_answers(0)->mutable_opened();
            opened.set_cutter(v1::CUTTER_CLIENT);
            opened.mutable_limits()->set_max_named_bytes(kMaxNamedBytes);
          }
          stream_.Write(response);
          return Reaches(Moment::kOpened);
        }
        case v1::UploadFrame::kFileBegin: {
          File& file = files_.emplace_back();
          file.number = ++file_count_;
          file.offset = frame.file_begin().start_offset();
          return file.offset % kChunkBytes == 0 || Fault("begins behind no cut");
        }
        case v1::UploadFrame::kChunkDigests:
          if (!names_) return Fault("names chunks, and nobody has asked");
          return Reaches(Moment::kInData) && Name(files_.back(), frame.chunk_digests());
        case v1::UploadFrame::kData: {
          if (names_) return Fault("bytes, and names were wanted");
          if (!Reaches(Moment::kInData)) return false;
          {
            std::lock_guard lock(state_.mutex);
            state_.data_bytes += frame.data().size();
          }
          files_.back().uncut += frame.data();
          files_.back().all += frame.data();
          return Cut(files_.back());
        }
        case v1::UploadFrame::kFileEnd: {
          File& file = files_.back();
          const std::span<const std::uint8_t> all(
              reinterpret_cast<const std::uint8_t*>(file.all.data()), file.all.size());
          const auto hash = names_ ? file.named.Value() : Xxh3Of128(all);
          if (frame.file_end().content_hash() != std::string(hash.begin(), hash.end())) {
            return Fault("another content");
          }
          if (frame.file_end().size_bytes() != file.offset + file.uncut.size()) {
            return Fault("another size");
          }
          file.ended = true;
          return Cut(file) && SayDone();
        }
        case v1::UploadFrame::kCommit:
          return Commit(frame.commit());
        default:
          return true;
      }
    }

    void Judge(File& file, v1::Chunk& chunk) {
      std::lock_guard lock(state_.mutex);
      if (state_.index.contains(chunk.digest())) {
        chunk.set_verdict(v1::VERDICT_DUPLICATE);
        chunk.set_locator("place");
      } else {
        chunk.set_verdict(v1::VERDICT_NEW);
        file.pending.insert(chunk.digest());
      }
    }

    bool Name(File& file, const v1::ChunkDigests& named) {
      v1::UploadResponse response;
      v1::Chunks& chunks = *response.add_answers()->mutable_chunks();
      chunks.set_file_number(file.number);
      if (named.digests().size() != 32 * static_cast<std::size_t>(named.lengths_bytes_size())) {
        return Fault("as many digests as lengths");
      }
      for (int index = 0; index < named.lengths_bytes_size(); ++index) {
        Digest digest;
        named.digests().copy(reinterpret_cast<char*>(digest.bytes.data()), 32,
                             32 * static_cast<std::size_t>(index));
        file.named.Add(digest, 32, named.lengths_bytes(index));
        file.offset += named.lengths_bytes(index);
        v1::Chunk& chunk = *chunks.add_chunks();
        chunk.set_end_offset(file.offset);
        chunk.set_digest(digest.bytes.data(), 32);
        Judge(file, chunk);
      }
      stream_.Write(response);
      return Reaches(Moment::kChunksSent);
    }

    // One chunk always waits for more bytes, as long as there may be some.
    bool Cut(File& file) {
      v1::UploadResponse response;
      v1::Chunks& chunks = *response.add_answers()->mutable_chunks();
      chunks.set_file_number(file.number);
      while (file.uncut.size() > kChunkBytes || (file.ended && !file.uncut.empty())) {
        const std::string bytes = file.uncut.substr(0, kChunkBytes);
        file.uncut.erase(0, bytes.size());
        file.offset += bytes.size();
        v1::Chunk& chunk = *chunks.add_chunks();
        chunk.set_end_offset(file.offset);
        const std::span<const std::uint8_t> span(
            reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
        const Digest digest = Fingerprint(DigestAlgorithm::kBlake3, span);
        chunk.set_digest(digest.bytes.data(), digest.bytes.size());
        chunk.set_check(Xxh3Of64(span));
        Judge(file, chunk);
      }
      if (chunks.chunks().empty()) return true;
      stream_.Write(response);
      return Reaches(Moment::kChunksSent);
    }

    bool Commit(const v1::Commit& commit) {
      if (!Reaches(Moment::kCommitTaken)) return false;
      for (const v1::CommitEntry& entry : commit.entries()) {
        bool is_pending = false;
        for (File& file : files_) is_pending = file.pending.erase(entry.digest()) > 0 || is_pending;
        std::unique_lock lock(state_.mutex);
        const bool is_new = state_.index.insert(entry.digest()).second;
        lock.unlock();
        if (is_new && !is_pending) return Fault("UNKNOWN_DIGEST");
      }
      v1::UploadResponse response;
      response.add_answers()->mutable_committed();
      stream_.Write(response);
      return Reaches(Moment::kCommittedSent) && SayDone();
    }

    bool SayDone() {
      for (File& file : files_) {
        if (file.done || !file.ended || !file.pending.empty()) continue;
        file.done = true;
        v1::UploadResponse response;
        response.add_answers()->mutable_file_done()->set_file_number(file.number);
        stream_.Write(response);
        if (!Reaches(Moment::kDoneSent)) return false;
      }
      return true;
    }

    State& state_;
    client::FakeServer::Stream& stream_;
    const std::uint32_t max_message_bytes_;
    std::deque<File> files_;
    std::uint64_t file_count_ = 0;
    bool names_ = false;
    grpc::Status end_;
  };

  std::shared_ptr<State> state_;
};

}  // namespace kerf::agent
