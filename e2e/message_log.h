// The messages of gRPC calls as e2e/releases/recording_proxy.py wrote them down, and a client that
// sends them once more, byte for byte. It knows nothing of what kerf's messages are made of but the
// numbers of their fields, so that a field whose number or type has changed is seen.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kerf::e2e {

struct LoggedEvent {
  enum class Kind { kCall, kSend, kSent, kReceive };

  Kind kind = Kind::kCall;
  int call = 0;
  // kCall: the method; kSend and kReceive: the bytes of the message.
  std::string text;
};

// Ends the test process if the text is not such a log.
std::vector<LoggedEvent> ParseMessageLog(const std::string& text);

struct LoggedCall {
  std::string method;
  // What the server said, as far as it is the same each time. Of an Upload a line for each chunk,
  // chunks first and in the order of the files, and for each other answer; left out is what names
  // the stream, its server and its kernels, how answers shared messages, and the index's epoch,
  // which 0.1.0 does not tell. Of any other call each message. All with the messages' bytes in
  // hexadecimal digits.
  std::vector<std::string> answers;
};

// The calls as they were logged, by their numbers.
std::map<int, LoggedCall> LoggedCalls(const std::vector<LoggedEvent>& events);

// Sends what the log's client sent over `channel`, each message as soon as all has been answered
// that was when it was sent; what the server said. Only calls whose method `wanted` accepts. A
// call that does not end with OK, and an answer that does not come, fail the test.
std::map<int, LoggedCall> ReplayMessageLog(
    const std::vector<LoggedEvent>& events, const std::shared_ptr<grpc::Channel>& channel,
    const std::function<bool(const std::string& method)>& wanted);

}  // namespace kerf::e2e
