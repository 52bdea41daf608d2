#include "base/rpc/refuse_compression.h"

#include <grpc/compression.h>
#include <grpc/impl/codegen/compression_types.h>

namespace kerf {
namespace {

// Whoever names another algorithm in a call's metadata is refused.
constexpr int kIdentityAlone = 1 << GRPC_COMPRESS_NONE;
// What unpacks is left out altogether: nothing hangs on what is looked at first, the message or the
// metadata.
constexpr int kNeverUnpack = 0;

}  // namespace

void RefuseCompression(grpc::ServerBuilder& builder) {
  for (int algorithm = GRPC_COMPRESS_NONE + 1; algorithm < GRPC_COMPRESS_ALGORITHMS_COUNT;
       ++algorithm) {
    builder.SetCompressionAlgorithmSupportStatus(static_cast<grpc_compression_algorithm>(algorithm),
                                                 false);
  }
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, kNeverUnpack);
}

void RefuseCompression(grpc::ChannelArguments& arguments) {
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kIdentityAlone);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, kNeverUnpack);
}

}  // namespace kerf
