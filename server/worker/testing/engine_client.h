// A client of a StreamEngine, without gRPC.
#pragma once

#include <gtest/gtest.h>
#include <xxhash.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory_budget.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/registry.h"
#include "server/session/frame.h"
#include "server/worker/stream_engine.h"

namespace kerf {

inline constexpr const char* kProfile = "fastcdc2020:min=512,avg=2048,max=8192,level=1";

inline Bytes AsBytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// One message of a client.
class RequestSource : public FrameSource {
 public:
  explicit RequestSource(v1::UploadRequest request) : request_(std::move(request)) {}

  absl::StatusOr<const Frame*> Next() override {
    if (next_ == request_.frames_size()) return nullptr;
    const v1::UploadFrame& frame = request_.frames(next_++);
    frame_ = Frame{};
    if (frame.frame_case() != v1::UploadFrame::kData) {
      frame_.control = &frame;
      return &frame_;
    }
    // In two pieces, as slices are.
    const Bytes data = AsBytes(frame.data());
    pieces_ = {data.first(data.size() / 3), data.subspan(data.size() / 3)};
    frame_.data = pieces_;
    frame_.data_bytes = data.size();
    return &frame_;
  }
  std::size_t size_bytes() const override { return request_.ByteSizeLong(); }

 private:
  const v1::UploadRequest request_;
  int next_ = 0;
  Frame frame_;
  std::vector<Bytes> pieces_;
};

// Answers lie here until the test takes them.
class HeldSink : public StreamSink {
 public:
  // A thread that has no business here, such as one that answers for the index.
  std::thread::id forbidden_thread;

  void Send(std::string encoded_answers) override {
    EXPECT_NE(std::this_thread::get_id(), forbidden_thread);
    const std::lock_guard lock(mutex_);
    unsent_ += encoded_answers;
    changed_.notify_all();
  }
  std::size_t unsent_bytes() const override {
    const std::lock_guard lock(mutex_);
    return unsent_.size();
  }
  void ResumeInput() override {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  void Finish(const absl::Status& status) override {
    EXPECT_NE(std::this_thread::get_id(), forbidden_thread);
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(finished_);
    finished_ = true;
    if (!final_.has_value()) final_ = status;
    changed_.notify_all();
  }
  // A Finish of the engine may still come, and changes nothing.
  void EndByTransport() {
    const std::lock_guard lock(mutex_);
    final_ = absl::CancelledError("the client is gone");
  }

  // Takes what is there; whether there was anything.
  bool Take() {
    const std::lock_guard lock(mutex_);
    if (unsent_.empty()) return false;
    v1::UploadResponse response;
    EXPECT_TRUE(response.ParseFromString(unsent_));
    unsent_.clear();
    taken_.MergeFrom(response);
    return true;
  }
  // Waits a moment for something to happen.
  void Pause() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
  std::optional<absl::Status> final_status() const {
    const std::lock_guard lock(mutex_);
    return final_;
  }
  // Once the stream has ended and all is taken.
  const v1::UploadResponse& taken() const { return taken_; }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string unsent_;
  v1::UploadResponse taken_;
  std::optional<absl::Status> final_;
  bool finished_ = false;
};

// A file and where it is to be cut.
struct File {
  std::string content;
  std::vector<std::uint64_t> end_offsets;
};

inline std::vector<File> MakeFiles(Random& random, int count, std::size_t max_bytes,
                                   std::string_view profile = kProfile) {
  const auto chunker = MakeChunker(*ParseProfile(profile));
  std::vector<File> files(static_cast<std::size_t>(count));
  for (File& file : files) {
    file.content.resize(random.Below(max_bytes));
    random.Fill({reinterpret_cast<std::uint8_t*>(file.content.data()), file.content.size()});
    for (std::size_t position = 0; position < file.content.size();) {
      position += chunker->NextCut(AsBytes(file.content).subspan(position));
      file.end_offsets.push_back(position);
    }
  }
  return files;
}

inline v1::Open OpenOf(const std::string& profile, v1::DigestAlgorithm digest_algorithm) {
  v1::Open open;
  open.set_repository("home");
  open.set_profile(profile);
  open.set_digest_algorithm(digest_algorithm);
  open.set_store_epoch(1);
  return open;
}

// All frames of the files, in messages of random size.
inline std::vector<v1::UploadRequest> MakeMessages(
    Random& random, const std::vector<File>& files,
    const v1::Open& open = OpenOf(kProfile, v1::DIGEST_ALGORITHM_XXH3_128)) {
  std::vector<v1::UploadRequest> messages(1);
  *messages.back().add_frames()->mutable_open() = open;
  for (const File& file : files) {
    messages.back().add_frames()->mutable_file_begin();
    for (std::size_t position = 0; position < file.content.size();) {
      if (random.OneIn(3)) messages.emplace_back();
      const std::size_t count =
          random.Between(1, std::min<std::size_t>(40'000, file.content.size() - position));
      messages.back().add_frames()->set_data(file.content.substr(position, count));
      position += count;
    }
    v1::FileEnd& end = *messages.back().add_frames()->mutable_file_end();
    end.set_size_bytes(file.content.size());
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(file.content.data(), file.content.size()));
    end.set_content_hash(hash.digest, sizeof hash.digest);
  }
  return messages;
}

// Runs a stream to its end as a client would, on the calling thread. `disturb` is called now and
// then.
template <typename Disturb>
absl::Status RunUpload(Random& random, const std::vector<File>& files, HeldSink& sink,
                       StreamEngine& engine, Disturb disturb,
                       const v1::Open& open = OpenOf(kProfile, v1::DIGEST_ALGORITHM_XXH3_128)) {
  for (v1::UploadRequest& message : MakeMessages(random, files, open)) {
    if (sink.final_status().has_value()) return *sink.final_status();
    while (!engine.wants_input() && !sink.final_status().has_value()) {
      if (sink.Take()) engine.AnswersTaken();
      sink.Pause();
    }
    engine.Push(std::make_unique<RequestSource>(std::move(message)));
    if (random.OneIn(4) && sink.Take()) engine.AnswersTaken();
    disturb();
  }
  engine.HalfClose();
  while (!sink.final_status().has_value()) {
    if (sink.Take()) engine.AnswersTaken();
    sink.Pause();
  }
  sink.Take();
  return *sink.final_status();
}

}  // namespace kerf
