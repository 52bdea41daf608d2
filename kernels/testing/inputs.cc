#include "kernels/testing/inputs.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/check.h"
#include "base/random.h"

namespace kerf {
namespace {

using Bytes = std::vector<std::uint8_t>;

void FillAesCtr(Bytes& bytes) {
  static constexpr std::array<std::uint8_t, 16> kKey = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55,
                                                        0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb,
                                                        0xcc, 0xdd, 0xee, 0xff};
  static constexpr std::array<std::uint8_t, 16> kIv = {};
  const std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context(EVP_CIPHER_CTX_new(),
                                                                           EVP_CIPHER_CTX_free);
  KERF_CHECK(context != nullptr);
  KERF_CHECK(
      EVP_EncryptInit_ex(context.get(), EVP_aes_128_ctr(), nullptr, kKey.data(), kIv.data()) == 1);
  int written = 0;
  KERF_CHECK(EVP_EncryptUpdate(context.get(), bytes.data(), &written, bytes.data(),
                               static_cast<int>(bytes.size())) == 1);
  KERF_CHECK(static_cast<std::size_t>(written) == bytes.size());
}

void FillPeriod(Bytes& bytes, std::size_t period) {
  KERF_CHECK(period > 0);
  Random random(period);
  const std::size_t first = std::min(period, bytes.size());
  random.Fill(std::span(bytes).first(first));
  for (std::size_t index = first; index < bytes.size(); ++index) {
    bytes[index] = bytes[index - period];
  }
}

void FillText(Bytes& bytes, std::uint64_t seed) {
  constexpr std::size_t kWords = 512;
  Random random(seed);
  std::vector<std::string> words(kWords);
  for (std::string& word : words) {
    word.resize(random.Between(2, 10));
    for (char& letter : word) letter = static_cast<char>('a' + random.Below(26));
  }
  std::size_t position = 0;
  while (position < bytes.size()) {
    // Small word numbers are more frequent, as in language.
    const std::string& word = words[random.Below(1 + random.Below(kWords))];
    for (std::size_t index = 0; index < word.size() && position < bytes.size(); ++index) {
      bytes[position++] = static_cast<std::uint8_t>(word[index]);
    }
    if (position < bytes.size()) bytes[position++] = random.OneIn(12) ? '\n' : ' ';
  }
}

void FillSparse(Bytes& bytes, std::uint64_t seed) {
  constexpr std::size_t kStrideBytes = 64 * 1024;
  constexpr std::size_t kBlockBytes = 4 * 1024;
  Random random(seed);
  for (std::size_t start = 0; start < bytes.size(); start += kStrideBytes) {
    Bytes block(kBlockBytes);
    random.Fill(block);
    std::copy_n(block.begin(), std::min(kBlockBytes, bytes.size() - start),
                bytes.begin() + static_cast<std::ptrdiff_t>(start));
  }
}

}  // namespace

std::vector<std::uint8_t> MakeInput(std::string_view kind, std::uint64_t seed,
                                    std::size_t size_bytes) {
  Bytes bytes(size_bytes);
  if (kind == "aes-ctr") {
    FillAesCtr(bytes);
  } else if (kind == "random") {
    Random(seed).Fill(bytes);
  } else if (kind == "constant") {
    std::fill(bytes.begin(), bytes.end(), static_cast<std::uint8_t>(seed));
  } else if (kind == "period") {
    FillPeriod(bytes, seed);
  } else if (kind == "ramp") {
    for (std::size_t index = 0; index < size_bytes; ++index) {
      bytes[index] = static_cast<std::uint8_t>(index / (seed + 1));
    }
  } else if (kind == "text") {
    FillText(bytes, seed);
  } else if (kind == "sparse") {
    FillSparse(bytes, seed);
  } else {
    KERF_CHECK(false && "an input kind that exists");
  }
  return bytes;
}

std::vector<InputName> NastyInputs() {
  return {{"aes-ctr", 0},     {"random", 1},      {"text", 1},        {"sparse", 1},
          {"constant", 0x00}, {"constant", 0x0a}, {"constant", 0x20}, {"constant", 0x80},
          {"constant", 0xff}, {"period", 2},      {"period", 3},      {"period", 63},
          {"period", 64},     {"period", 65},     {"period", 4096},   {"ramp", 0},
          {"ramp", 1},        {"ramp", 4095}};
}

}  // namespace kerf
