#include "server/edge/received_message.h"

#include <grpc/byte_buffer.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kerf/v1/chunking.pb.h"

namespace kerf {
namespace {

// Whether this thread is in the one call of gRPC's that brings the context which bytes want when
// they go back to gRPC's quota.
thread_local int destroying_count = 0;

}  // namespace
}  // namespace kerf

// The linker puts the first in the second's place (BUILD), and chose the names.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" void __real_grpc_byte_buffer_destroy(grpc_byte_buffer* buffer);
extern "C" void __wrap_grpc_byte_buffer_destroy(grpc_byte_buffer* buffer) {
  ++kerf::destroying_count;
  __real_grpc_byte_buffer_destroy(buffer);
  --kerf::destroying_count;
}
// NOLINTEND(bugprone-reserved-identifier)

namespace kerf {
namespace {

// How often gRPC was given the bytes of a slice back, and how often where it cannot take them.
struct Returns {
  std::atomic<int> count{0};
  std::atomic<int> without_context_count{0};
};

struct Lent {
  std::string bytes;
  Returns* returns;
};

// As slices that arrive: whoever holds them last runs what gives their bytes back.
grpc::Slice Lend(std::string bytes, Returns* returns) {
  auto* const lent = new Lent{std::move(bytes), returns};
  const auto give_back = [](void* given) {
    const std::unique_ptr<Lent> own(static_cast<Lent*>(given));
    ++own->returns->count;
    if (destroying_count == 0) ++own->returns->without_context_count;
  };
  return {lent->bytes.data(), lent->bytes.size(), give_back, lent};
}

// A message of some files in slices of slice_bytes.
grpc::ByteBuffer Receive(std::size_t slice_bytes, std::size_t* slice_count, Returns* returns) {
  v1::UploadRequest request;
  for (int number = 0; number < 3; ++number) {
    request.add_frames()->mutable_file_begin()->set_file_key("a file");
    request.add_frames()->set_data(std::string(10'000, 'x'));
    request.add_frames()->mutable_file_end();
  }
  const std::string bytes = request.SerializeAsString();
  std::vector<grpc::Slice> slices;
  for (std::size_t at = 0; at < bytes.size(); at += slice_bytes) {
    slices.push_back(Lend(bytes.substr(at, slice_bytes), returns));
  }
  *slice_count = slices.size();
  return {slices.data(), slices.size()};
}

// kerfd's own threads drop messages, at any moment: read, read in part, or not at all.
TEST(ReceivedMessage, ItsBytesGoBackInACallOfGrpcs) {
  for (const int read_count : {0, 2, 9}) {
    for (const std::size_t slice_bytes : {std::size_t{1'000}, std::size_t{100'000}}) {
      Returns returns;
      std::size_t slice_count = 0;
      auto message = std::make_unique<ReceivedMessage>();
      {
        grpc::ByteBuffer buffer = Receive(slice_bytes, &slice_count, &returns);
        ASSERT_TRUE(message->Take(&buffer));
        EXPECT_FALSE(buffer.Valid());
        buffer.Clear();
      }
      EXPECT_EQ(returns.count, 0) << "it holds them";
      std::thread([dropped = std::move(message), read_count]() mutable {
        for (int count = 0; count < read_count; ++count) {
          const auto frame = dropped->Next();
          ASSERT_TRUE(frame.ok()) << frame.status();
          ASSERT_NE(*frame, nullptr);
        }
        dropped = nullptr;
      }).join();
      EXPECT_EQ(returns.count, static_cast<int>(slice_count));
      EXPECT_EQ(returns.without_context_count, 0);
    }
  }
}

// What the test above would see, were the slices the last.
TEST(ReceivedMessage, ASliceThatIsTheLastBringsNoContext) {
  Returns returns;
  std::size_t slice_count = 0;
  std::vector<grpc::Slice> slices;
  {
    const grpc::ByteBuffer buffer = Receive(1'000, &slice_count, &returns);
    ASSERT_TRUE(buffer.Dump(&slices).ok());
  }
  slices.clear();
  EXPECT_EQ(returns.without_context_count, static_cast<int>(slice_count));
}

}  // namespace
}  // namespace kerf
