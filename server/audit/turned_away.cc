#include "server/audit/turned_away.h"

#include <string>

#include "base/request_id.h"
#include "server/audit/record.h"

namespace kerf::audit {

void RecordTurnedAway(Sink* sink, const TurnedAway& client, std::string_view identity,
                      std::string_view proof) {
  if (sink == nullptr) return;
  const std::int64_t unix_ms = sink->options().wall_clock_ms();
  if (!client.is_call) {
    sink->PutTurnedAway(EventMembers(unix_ms, "connection",
                                     {{"identity", std::string(identity)},
                                      {"proof", std::string(proof)},
                                      {"peer", client.peer},
                                      {"outcome", client.outcome},
                                      {"message", client.message},
                                      {"worker", sink->options().worker}},
                                     {}),
                        client.outcome);
    return;
  }
  Record record{.unix_ms = unix_ms,
                .identity = std::string(identity),
                .proof = std::string(proof),
                .peer = client.peer,
                .outcome = client.outcome,
                .message = client.message,
                .worker = sink->options().worker};
  // Without the slash that all begin with; more of it is not shown.
  record.method = client.method.substr(client.method.starts_with('/') ? 1 : 0, kMaxTextBytes + 1);
  if (IsRequestId(client.request_id)) record.request_id = client.request_id;
  sink->PutTurnedAway(MembersOf(record), client.outcome);
}

}  // namespace kerf::audit
