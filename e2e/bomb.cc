#include "e2e/bomb.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>

#include "base/check.h"

namespace grpc::internal {

// gRPC's own name for who may look into its ByteBuffer: there is no public way to send a message
// that is packed already.
class GrpcByteBufferPeer {
 public:
  static void Set(ByteBuffer& buffer, grpc_byte_buffer* content) { buffer.set_buffer(content); }
};

}  // namespace grpc::internal

namespace kerf::e2e {
namespace {

// After the header and the first codes, eight codes of 13 bits each are the same bytes again.
constexpr std::size_t kUnlikeBytes = 16;
constexpr std::size_t kPeriodBytes = 13;

// Bits from each byte's lowest on, as deflate wants them.
class BitWriter {
 public:
  explicit BitWriter(std::string& out) : out_(out) {}

  // The first bit of a code is its highest.
  void Code(unsigned code, int bit_count) {
    for (int bit = bit_count - 1; bit >= 0; --bit) Bit((code >> bit) & 1);
  }
  void Bit(unsigned bit) {
    byte_ |= bit << filled_;
    if (++filled_ < 8) return;
    out_ += static_cast<char>(byte_);
    byte_ = 0;
    filled_ = 0;
  }

 private:
  std::string& out_;
  unsigned byte_ = 0;
  int filled_ = 0;
};

std::string HeaderOf(grpc_compression_algorithm algorithm) {
  if (algorithm == GRPC_COMPRESS_GZIP) return {"\x1f\x8b\x08\0\0\0\0\0\0\xff", 10};
  KERF_CHECK(algorithm == GRPC_COMPRESS_DEFLATE);
  return "\x78\x9c";
}

}  // namespace

grpc::ByteBuffer MakeBomb(grpc_compression_algorithm algorithm, std::size_t packed_bytes) {
  std::string packed = HeaderOf(algorithm);
  BitWriter bits(packed);
  // The last block, with the fixed codes: one zero, then "258 bytes as the one before" for ever. It
  // has no end, which nobody knows before all of it is unpacked.
  for (const unsigned bit : {1u, 1u, 0u}) bits.Bit(bit);
  bits.Code(0b00110000, 8);
  while (packed.size() < kUnlikeBytes + kPeriodBytes) {
    bits.Code(0b11000101, 8);
    bits.Code(0, 5);
  }
  while (packed.size() < packed_bytes) packed += packed[packed.size() - kPeriodBytes];
  const grpc::Slice slice(packed);
  grpc_slice content = slice.c_slice();
  grpc::ByteBuffer bomb;
  grpc::internal::GrpcByteBufferPeer::Set(
      bomb, grpc_raw_compressed_byte_buffer_create(&content, 1, algorithm));
  grpc_slice_unref(content);
  return bomb;
}

}  // namespace kerf::e2e
