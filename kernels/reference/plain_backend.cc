#include "kernels/reference/plain_backend.h"

#include "base/check.h"
#include "kernels/reference/reference.h"

namespace kerf {
namespace {

class PlainChunker final : public Chunker {
 public:
  explicit PlainChunker(const Profile& profile) : profile_(profile) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    KERF_CHECK(!bytes.empty());
    return ReferenceNextCut(profile_, bytes);
  }

  std::size_t max_chunk_bytes() const override { return profile_.max_bytes; }

 private:
  const Profile profile_;
};

bool RunsHere() { return true; }

std::unique_ptr<Chunker> Make(const Profile& profile) {
  return std::make_unique<PlainChunker>(profile);
}

}  // namespace

Backend PlainBackend() { return {"plain", RunsHere, Make}; }

}  // namespace kerf
