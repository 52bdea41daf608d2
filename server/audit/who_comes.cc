#include "server/audit/who_comes.h"

#include "server/access/identity.h"
#include "server/audit/turned_away.h"
#include "server/listener/turned_away.h"

namespace kerf::audit {

void AskWhoComes(const access::Gate* gate, Sink* sink, TransportLimits* limits) {
  limits->asks_who = !gate->is_open();
  limits->max_connections_of = [gate](const SeenClient& seen) {
    return gate->MaxConnectionsOf(seen);
  };
  limits->on_turned_away = [gate, sink](const TurnedAway& client) {
    const access::Identity seen = gate->Seen(client.seen);
    RecordTurnedAway(sink, client, seen.name, NameOf(seen.proof));
  };
}

}  // namespace kerf::audit
