#include "kernels/fingerprint/xxh3.h"

#include <vector>

namespace kerf {
namespace {

std::vector<const xxh3::Target*> FindTargets() {
  std::vector<const xxh3::Target*> targets;
#if defined(__x86_64__)
  // These also ask whether the system saves the registers.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) targets.push_back(&xxh3::kAvx512);
  if (__builtin_cpu_supports("avx2")) targets.push_back(&xxh3::kAvx2);
#endif
  targets.push_back(&xxh3::kBaseline);
  return targets;
}

const xxh3::Target& Fastest() {
  static const xxh3::Target& fastest = *Xxh3Targets().front();
  return fastest;
}

}  // namespace

std::span<const xxh3::Target* const> Xxh3Targets() {
  static const std::vector<const xxh3::Target*> targets = FindTargets();
  return targets;
}

std::uint64_t Xxh3Of64(std::span<const std::uint8_t> bytes) {
  return Fastest().hash_64(bytes.data(), bytes.size());
}

Xxh3Digest Xxh3Of128(std::span<const std::uint8_t> bytes) {
  Xxh3Digest digest;
  Fastest().hash_128(bytes.data(), bytes.size(), digest.data());
  return digest;
}

Xxh3Stream::Xxh3Stream() : target_(Fastest()), state_(std::make_unique<xxh3::State>()) { Reset(); }

void Xxh3Stream::Reset() { target_.reset(state_.get()); }

void Xxh3Stream::Update(std::span<const std::uint8_t> bytes) {
  target_.update(state_.get(), bytes.data(), bytes.size());
}

Xxh3Digest Xxh3Stream::Digest() const {
  Xxh3Digest digest;
  target_.digest(state_.get(), digest.data());
  return digest;
}

}  // namespace kerf
