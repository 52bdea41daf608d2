// Who was not let in by the door, as the audit log tells of it.
#pragma once

#include <string_view>

#include "server/audit/sink.h"
#include "server/listener/turned_away.h"

namespace kerf::audit {

// `identity` and `proof` are who that was, as far as it is known: "" and "none". Null: nobody is to
// be told. Thread-safe; waits for no disk.
void RecordTurnedAway(Sink* sink, const TurnedAway& client, std::string_view identity,
                      std::string_view proof);

}  // namespace kerf::audit
