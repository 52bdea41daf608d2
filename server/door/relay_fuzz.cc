// A relay between a client that sends anything and a server that keeps the rules but for what the
// input says: it goes away, resets, or is gone. Whatever happens, nothing is held in the end.
//
// The input is a list of steps: a byte that says what, and what belongs to it.
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/door/testing/relay_world.h"

namespace kerf::door {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::string_view kPaths[] = {"/echo", "/count", "/early", "/reset",
                                       "/hold", "/big",   "/other"};

class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  std::span<const std::uint8_t> Bytes(std::size_t size) {
    const auto taken = bytes_.first(std::min(size, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

void SendRaw(RelayWorld& world, std::string_view bytes) {
  if (world.client_socket() < 0) return;
  static_cast<void>(send(world.client_socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

// A frame whose header is whole: else next to nothing would come behind the first.
void SendFrame(RelayWorld& world, Input& input) {
  const std::uint8_t type = input.Byte() % 11;
  const std::uint8_t flags = input.Byte();
  const std::uint8_t stream = input.Byte() % 16;
  const auto payload = input.Bytes(input.Byte());
  std::string frame = {
      0, 0, static_cast<char>(payload.size()), static_cast<char>(type), static_cast<char>(flags), 0,
      0, 0, static_cast<char>(stream)};
  frame.append(payload.begin(), payload.end());
  SendRaw(world, frame);
}

// A request by the static table and plain literals.
void SendRequest(RelayWorld& world, Input& input) {
  const std::uint8_t stream = input.Byte() % 16;
  const std::string_view path = kPaths[input.Byte() % std::size(kPaths)];
  std::string block = "\x83\x86";
  block += std::string("\x04") + static_cast<char>(path.size()) + std::string(path);
  block += std::string("\x01\x01h", 3);
  std::string frame = {
      0, 0, static_cast<char>(block.size()), 1, static_cast<char>(4 | (input.Byte() & 1)), 0,
      0, 0, static_cast<char>(stream)};
  SendRaw(world, frame + block);
}

void RunOnce(Input input) {
  const bool is_honest = (input.Byte() & 1) != 0;
  RelayWorld world(64 * RelayWorld::kWindowBytes);
  if (is_honest) {
    world.AddClient();
  } else {
    SendRaw(world, kPreface);
    SendRaw(world, std::string("\0\0\0\4\0\0\0\0\0", 9));
  }
  while (!input.empty() && !world.relay().is_done()) {
    switch (input.Byte() % 12) {
      case 0:
        is_honest ? static_cast<void>(world.Step()) : SendFrame(world, input);
        break;
      case 1:
      case 2:
        if (!is_honest) {
          SendRequest(world, input);
        } else if (world.client->is_open()) {
          const bool is_whole = (input.Byte() & 1) != 0;
          const std::string_view path = kPaths[input.Byte() % std::size(kPaths)];
          world.client->Call(path, std::string(input.Byte() * 400u, 'x'), is_whole);
        }
        break;
      case 3:
        if (is_honest && world.client->call_count() > 0) {
          const std::int32_t stream = 1 + 2 * (input.Byte() % 8);
          if (world.client->has_call(stream)) world.client->Reset(stream, input.Byte() % 14);
        }
        break;
      case 4:
        if (is_honest) {
          const std::int32_t stream = 1 + 2 * (input.Byte() % 8);
          if (world.client->has_call(stream) && !world.client->call(stream).is_closed) {
            world.client->Send(stream, std::string(input.Byte(), 'y'), (input.Byte() & 1) != 0);
          }
        }
        break;
      case 5:
        if (!world.servers.empty()) world.server().GoAway();
        break;
      case 6:
        if (!world.servers.empty() && input.Byte() < 32) world.server().CloseSocket();
        break;
      case 7:
        world.Pass(std::chrono::milliseconds(input.Byte() * 500));
        break;
      case 8:
        world.takes_connections = (input.Byte() & 1) != 0;
        break;
      case 9:
        if (is_honest) world.client->SetTaking((input.Byte() & 1) != 0);
        break;
      case 10: {
        const auto bytes = input.Bytes(input.Byte());
        if (!is_honest) SendRaw(world, std::string(bytes.begin(), bytes.end()));
        break;
      }
      default:
        world.Run();
        break;
    }
  }
  world.Run();
  world.CloseRelay();
  KERF_CHECK(world.memory().used_bytes() == 0);
  KERF_CHECK(world.pool().used_bytes() == 0);
}

}  // namespace
}  // namespace kerf::door

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kerf::door::RunOnce(kerf::door::Input({data, size}));
  return 0;
}
