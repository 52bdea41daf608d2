#include "kernels/fingerprint/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/check.h"
#include "kernels/fingerprint/sha256_constants.h"
#include "kernels/fingerprint/sha256_streams.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

// OpenSSL looks an algorithm up by name and allocates a context in every call of its short form,
// which costs as much as hashing a kilobyte: one look-up a process, one context a thread.
void HashByOpenSsl(Bytes bytes, Digest& digest) {
  struct Context {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    Context() = default;
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context() { EVP_MD_CTX_free(context); }
  };
  static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA2-256", nullptr);
  thread_local Context holder;
  unsigned int written = 0;
  KERF_CHECK(sha256 != nullptr && holder.context != nullptr);
  KERF_CHECK(EVP_DigestInit_ex2(holder.context, sha256, nullptr) == 1);
  KERF_CHECK(EVP_DigestUpdate(holder.context, bytes.data(), bytes.size()) == 1);
  KERF_CHECK(EVP_DigestFinal_ex(holder.context, digest.bytes.data(), &written) == 1);
  KERF_CHECK(written == digest.bytes.size());
}

void HashManyByOpenSsl(std::span<const Bytes> chunks, std::span<Digest> digests) {
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    HashByOpenSsl(chunks[index], digests[index]);
  }
}

#if defined(__x86_64__)
using sha256::kBlockBytes;
using sha256::kMaxStreams;

// A chunk on its way through the kernel: its whole blocks where they lie, then its padded end.
class Message {
 public:
  void Start(Bytes bytes, Digest* digest) {
    std::copy(std::begin(sha256::kStart), std::end(sha256::kStart), stream_.words);
    stream_.bytes = bytes.data();
    digest_ = digest;
    block_count_ = bytes.size() / kBlockBytes;
    is_in_tail_ = false;
    const std::size_t rest = bytes.size() % kBlockBytes;
    // The one bit and the length in bits need nine bytes.
    tail_count_ = rest + 9 <= kBlockBytes ? 1 : 2;
    tail_.fill(0);
    if (rest > 0) std::memcpy(tail_.data(), bytes.data() + bytes.size() - rest, rest);
    tail_[rest] = 0x80;
    const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
    for (std::size_t index = 0; index < 8; ++index) {
      tail_[tail_count_ * kBlockBytes - 1 - index] = static_cast<std::uint8_t>(bits >> (8 * index));
    }
    if (block_count_ == 0) EnterTail();
  }

  sha256::Stream* stream() { return &stream_; }
  // Until the next Advance; at least 1.
  std::size_t block_count() const { return block_count_; }

  // So many blocks have been compressed. True if that was the last: the digest is written.
  bool Advance(std::size_t block_count) {
    block_count_ -= block_count;
    if (block_count_ > 0) return false;
    if (!is_in_tail_) {
      EnterTail();
      return false;
    }
    for (std::size_t index = 0; index < digest_->bytes.size(); ++index) {
      digest_->bytes[index] =
          static_cast<std::uint8_t>(stream_.words[index / 4] >> (24 - 8 * (index % 4)));
    }
    return true;
  }

 private:
  void EnterTail() {
    is_in_tail_ = true;
    stream_.bytes = tail_.data();
    block_count_ = tail_count_;
  }

  sha256::Stream stream_;
  Digest* digest_ = nullptr;
  std::size_t block_count_ = 0;
  std::size_t tail_count_ = 0;
  bool is_in_tail_ = false;
  std::array<std::uint8_t, 2 * kBlockBytes> tail_;
};

// As many messages side by side as there are; whenever one ends, the next chunk takes its place.
void HashManyByShaNi(std::span<const Bytes> chunks, std::span<Digest> digests) {
  std::array<Message, kMaxStreams> messages;
  std::array<Message*, kMaxStreams> active;
  std::array<sha256::Stream*, kMaxStreams> streams;
  std::size_t active_count = 0;
  std::size_t next = 0;
  for (; next < chunks.size() && active_count < kMaxStreams; ++next) {
    active[active_count] = &messages[active_count];
    active[active_count++]->Start(chunks[next], &digests[next]);
  }
  while (active_count > 0) {
    std::size_t block_count = active[0]->block_count();
    for (std::size_t index = 0; index < active_count; ++index) {
      streams[index] = active[index]->stream();
      block_count = std::min(block_count, active[index]->block_count());
    }
    sha256::CompressShaNi(streams.data(), active_count, block_count);
    for (std::size_t index = active_count; index-- > 0;) {
      if (!active[index]->Advance(block_count)) continue;
      if (next < chunks.size()) {
        active[index]->Start(chunks[next], &digests[next]);
        ++next;
      } else {
        active[index] = active[--active_count];
      }
    }
  }
}

bool HasShaNi() {
  unsigned int eax = 0;
  unsigned int ebx = 0;
  unsigned int ecx = 0;
  unsigned int edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (ebx & bit_SHA) != 0 && __builtin_cpu_supports("sse4.1");
}
#endif

std::vector<Sha256Backend> FindBackends() {
  std::vector<Sha256Backend> backends;
#if defined(__x86_64__)
  if (HasShaNi()) backends.push_back({"sha-ni", HashManyByShaNi});
#endif
  backends.push_back({"openssl", HashManyByOpenSsl});
  return backends;
}

}  // namespace

std::span<const Sha256Backend> Sha256Backends() {
  static const std::vector<Sha256Backend> backends = FindBackends();
  return backends;
}

}  // namespace kerf
