// Messages travel as they are: a compressed one of 4 MiB may unpack to gigabytes, and gRPC unpacks
// before it looks at any limit.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

namespace kerf {

// For every server and every channel of kerf: a compressed message ends its call with
// UNIMPLEMENTED, and is not unpacked.
void RefuseCompression(grpc::ServerBuilder& builder);
void RefuseCompression(grpc::ChannelArguments& arguments);

}  // namespace kerf
