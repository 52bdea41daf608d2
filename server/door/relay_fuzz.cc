// A relay between a client and a server: the client sends anything, or keeps the rules; the server
// keeps them but for what the input says: it goes away, resets, or is gone. Whatever happens,
// nothing is held in the end, no byte of a body is another one, and as long as nobody breaks
// anything every call comes to its end.
//
// The input is a list of steps: a byte that says what, and what belongs to it. Behind its last byte
// come as many drawn ones as its second one says, so that short inputs reach far.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "server/door/testing/raw_frames.h"
#include "server/door/testing/relay_world.h"

namespace kerf::door {
namespace {

constexpr std::string_view kPaths[] = {"/echo", "/count", "/early", "/reset", "/hold",
                                       "/part", "/other", "/later", "/hints", "/bare"};
constexpr std::uint32_t kWindows[] = {0, 1, 1'000, 16'384, 65'535, 65'536, 1'000'000, 0x7FFF'FFFF};
constexpr std::size_t kDrawnBytes = 3;

class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes), random_(SeedOf(bytes)) {}
  bool empty() const { return bytes_.empty() && drawn_left_ == 0; }
  void SetDrawn(std::size_t count) { drawn_left_ = count; }
  std::uint8_t Byte() {
    if (bytes_.empty()) {
      if (drawn_left_ == 0) return 0;
      --drawn_left_;
      return static_cast<std::uint8_t>(random_.Next());
    }
    const std::uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  bool Bit() { return (Byte() & 1) != 0; }
  std::string Bytes(std::size_t size) {
    std::string taken;
    while (taken.size() < size && !empty()) taken += static_cast<char>(Byte());
    return taken;
  }
  template <typename T, std::size_t count>
  T OneOf(const T (&values)[count]) {
    return values[Byte() % count];
  }

 private:
  static std::uint64_t SeedOf(std::span<const std::uint8_t> bytes) {
    std::uint64_t seed = bytes.size();
    for (const std::uint8_t byte : bytes) seed = seed * 0x9E37'79B9'7F4A'7C15 + byte + 1;
    return seed;
  }

  std::span<const std::uint8_t> bytes_;
  Random random_;
  std::size_t drawn_left_ = 0;
};

class Play {
 public:
  explicit Play(Input input) : input_(input), world_(OptionsOf(input_)) {
    if (input_.Bit()) world_.SetMaxSharedBytes(0);
    may_break_ = input_.Bit();
  }

  virtual ~Play() = default;

  void Run() {
    while (!input_.empty() && !world_.relay().is_done()) {
      switch (input_.Byte() % 9) {
        case 0:
          if (may_break_ && !world_.servers.empty() && input_.Byte() < 16)
            Break().server().GoAway();
          break;
        case 1:
          if (may_break_ && !world_.servers.empty() && input_.Byte() < 16)
            Break().server().CloseSocket();
          break;
        case 2:
          if (may_break_ && input_.Byte() < 64)
            Break().Pass(std::chrono::milliseconds(input_.Byte() * 500));
          break;
        case 3:
          if (may_break_ && input_.Byte() < 32) Break().takes_connections = input_.Bit();
          break;
        case 4:
          world_.Run();
          break;
        case 5:
          world_.Step();
          break;
        case 6:
          // One of them, or both, does not read for a while.
          world_.moves_client = input_.Byte() < 192;
          world_.moves_servers = input_.Byte() < 192;
          break;
        default:
          Step();
          break;
      }
    }
    world_.moves_client = true;
    world_.moves_servers = true;
    world_.Run();
    End();
    world_.CloseRelay();
    KERF_CHECK(world_.memory().used_bytes() == 0);
    KERF_CHECK(world_.pool().used_bytes() == 0);
  }

 protected:
  virtual void Step() = 0;
  virtual void End() {}
  // From here on calls may end otherwise than they should.
  RelayWorld& Break() {
    is_whole_ = false;
    return world_;
  }

  Input input_;
  RelayWorld world_;
  bool may_break_ = true;
  bool is_whole_ = true;

 private:
  static RelayWorldOptions OptionsOf(Input& input) {
    const std::uint8_t bits = input.Byte();
    return {.memory_bytes = 64 * RelayWorld::kWindowBytes,
            .has_tls = (bits & 16) != 0,
            .has_small_client_socket = (bits & 1) != 0,
            .has_small_server_socket = (bits & 2) != 0,
            .max_ahead_bytes = (bits & 8) != 0 ? 1'000u : 65'536u,
            .server_window_bytes = (bits & 4) != 0 ? 5'000u : 65'535u};
  }
};

class Hostile final : public Play {
 public:
  explicit Hostile(Input input) : Play(input) {
    Break();
    if (world_.has_tls()) Shake();
    Send(RawBeginning());
  }

 private:
  // Over TLS what is sealed is kept until the socket takes it: else nothing behind it would be
  // understood.
  void Send(std::string_view bytes) {
    if (session_ == nullptr) return SendRaw(world_.client_socket(), bytes);
    if (!bytes.empty()) SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size()));
    SendSealed();
  }
  void SendSealed() {
    if (world_.client_socket() < 0) return;
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(sealed_, &bytes);
    const ssize_t sent =
        send(world_.client_socket(), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
    std::vector<char> gone(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    if (!gone.empty()) BIO_read(sealed_, gone.data(), static_cast<int>(gone.size()));
    ERR_clear_error();
  }
  void Shake() {
    session_ = world_.NewClientSession();
    BIO* const in = BIO_new(BIO_s_mem());
    sealed_ = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(session_.get(), in, sealed_);
    for (int turn = 0; turn < 8; ++turn) {
      SSL_do_handshake(session_.get());
      SendSealed();
      world_.Run();
      std::array<char, 16'384> got;
      const ssize_t size = recv(world_.client_socket(), got.data(), got.size(), 0);
      if (size > 0) BIO_write(in, got.data(), static_cast<int>(size));
    }
    KERF_CHECK(SSL_is_init_finished(session_.get()) == 1);
  }
  // What TLS has beside data, and what it should not have.
  void StepTls() {
    if (session_ == nullptr) return;
    switch (input_.Byte() % 4) {
      case 0:
        SSL_key_update(session_.get(),
                       input_.Bit() ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED);
        SSL_do_handshake(session_.get());
        break;
      case 1:
        if (input_.Byte() < 16) SSL_shutdown(session_.get());
        break;
      case 2:
        if (input_.Byte() < 16) SendRaw(world_.client_socket(), input_.Bytes(input_.Byte()));
        break;
      default:
        // Small records.
        for (int count = input_.Byte(); count > 0; --count) Send("x");
        break;
    }
    SendSealed();
  }

  void Step() override {
    // One of the last ones, for what follows each other to be of one call; sometimes any.
    const std::uint8_t which = input_.Byte();
    const std::uint32_t stream =
        which < 32 ? which : begun_ - std::min<std::uint32_t>(begun_ - 1, which % 4 / 2 * 2);
    switch (input_.Byte() % 13) {
      case 12:
        StepTls();
        break;
      case 0: {
        // Any frame, whose header is whole: else next to nothing would come behind the first. What
        // most likely ends the connection is rare.
        if (input_.Byte() >= 48) break;
        const std::uint8_t type = input_.Byte() % 11;
        const std::uint8_t flags = input_.Byte();
        Send(RawFrame(type, flags, stream, input_.Bytes(input_.Byte())));
        break;
      }
      case 1:
        if (input_.Byte() < 16) Send(input_.Bytes(input_.Byte()));
        break;
      case 2:
        Send(RawResetOf(stream, input_.Byte() % 14));
        break;
      case 3:
        Send(RawFrame(kRawWindowUpdate, 0, input_.Bit() ? stream : 0,
                      RawNumber(which < 32 ? input_.OneOf(kWindows) : 10'000, 4)));
        break;
      case 4:
        // Of all streams, at once.
        Send(RawFrame(kRawSettings, 0, 0, RawNumber(4, 2) + RawNumber(input_.OneOf(kWindows), 4)));
        break;
      case 5: {
        const std::uint8_t padding = input_.Byte();
        const std::string payload = static_cast<char>(padding) + std::string(input_.Byte(), 'd') +
                                    std::string(input_.Bit() ? padding : 0, '\0');
        Send(RawFrame(kRawData, kRawPadded | (input_.Byte() & kRawEndStream), stream, payload));
        break;
      }
      case 6:
        Send(RawFrame(kRawData, 0, stream, std::string(input_.Byte() * 64u, 'D')));
        break;
      case 7:
        Read();
        break;
      case 8:
        if (input_.Byte() < 8) world_.CloseClientSocket();
        break;
      default:
        if (which >= 32) begun_ += 2;
        Send(RawRequest(which < 32 ? which : begun_, input_.OneOf(kPaths), input_.Byte() < 64));
        break;
    }
  }

  TlsSession session_;
  BIO* sealed_ = nullptr;
  // The stream of the last request.
  std::uint32_t begun_ = 1;

  void Read() {
    std::array<char, 4096> bytes;
    if (world_.client_socket() < 0) return;
    for (int count = input_.Byte(); count > 0; --count) {
      if (recv(world_.client_socket(), bytes.data(), bytes.size(), 0) <= 0) break;
      world_.Step();
    }
  }
};

class Honest final : public Play {
 public:
  explicit Honest(Input input) : Play(input) {
    static constexpr std::uint32_t kClientWindows[] = {65'535, 5'000, 65'535, 1'000'000};
    world_.AddClient(input_.OneOf(kClientWindows));
  }

 private:
  // Byte for byte what any other place of this or another call has not.
  static std::string BodyOf(std::int32_t stream, std::size_t from, std::size_t size) {
    std::string body(size, '\0');
    std::uint64_t at = from;
    for (char& byte : body) {
      byte = static_cast<char>((at * 0x9E37'79B9'7F4A'7C15 + static_cast<std::uint64_t>(stream)) >>
                               (at % 7 * 8));
      ++at;
    }
    return body;
  }

  void SendMore(std::int32_t stream, std::size_t size, bool is_last) {
    if (world_.client->call(stream).is_closed || world_.client->call(stream).is_whole) return;
    world_.client->Send(stream, BodyOf(stream, sent_[stream], size), is_last);
    sent_[stream] += size;
  }

  void Step() override {
    H2Peer& client = *world_.client;
    if (!client.is_open()) return;
    const std::int32_t stream = 1 + 2 * (input_.Byte() % 16);
    switch (input_.Byte() % 8) {
      case 0:
      case 1:
      case 2: {
        const std::string path(input_.OneOf(kPaths));
        const std::int32_t begun = client.Call(path, "", false);
        if (begun < 0) break;
        paths_[begun] = path;
        SendMore(begun, input_.Byte() * (input_.Byte() < 64 ? 400u : 10u), input_.Bit());
        break;
      }
      case 3:
        if (may_break_ && client.has_call(stream) && input_.Byte() < 64) {
          Break().client->Reset(stream, input_.Byte() % 14);
        }
        break;
      case 4:
        if (may_break_ && input_.Byte() < 16) Break().client->SetTaking(input_.Bit());
        break;
      case 5:
        if (may_break_ && input_.Byte() < 8) Break().client->CloseSocket();
        break;
      default:
        if (client.has_call(stream)) SendMore(stream, input_.Byte(), input_.Bit());
        break;
    }
  }

  void End() override {
    H2Peer& client = *world_.client;
    for (const auto& [stream, size] : sent_) {
      if (client.is_open()) SendMore(stream, 0, true);
    }
    world_.Run();
    for (const auto& [stream, path] : paths_) Check(path, client.call(stream), stream);
  }

  // What has come is what was sent; all of it, where nothing was broken and all was taken.
  void Check(const std::string& path, const PeerCall& call, std::int32_t stream) {
    const std::size_t sent_bytes = sent_.at(stream);
    if (path == "/echo") {
      KERF_CHECK(call.body.size() <= sent_bytes);
      KERF_CHECK(call.body == BodyOf(stream, 0, call.body.size()));
      if (call.TrailerOf("path") == "echo") KERF_CHECK(call.body.size() == sent_bytes);
    }
    const bool is_refused = call.HeaderOf("grpc-status") == "8";
    if (!is_whole_ || is_refused || path == "/hold" || path == "/later") return;
    KERF_CHECK(call.is_closed);
    if (path == "/echo") KERF_CHECK(call.TrailerOf("path") == "echo");
    if (path == "/part") KERF_CHECK(call.body == std::string(100'000, 'b'));
    if (path == "/count" || path == "/hints") {
      KERF_CHECK(call.TrailerOf("bytes") == std::to_string(sent_bytes));
      KERF_CHECK(call.HeaderOf(":status") == "200");
    }
  }

  // What was sent of each call, and where it went.
  std::map<std::int32_t, std::size_t> sent_;
  std::map<std::int32_t, std::string> paths_;
};

}  // namespace
}  // namespace kerf::door

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kerf::door::Input input({data, size});
  const bool is_honest = input.Bit();
  input.SetDrawn(input.Byte() * kerf::door::kDrawnBytes);
  if (is_honest) {
    kerf::door::Honest(input).Run();
  } else {
    kerf::door::Hostile(input).Run();
  }
  return 0;
}
