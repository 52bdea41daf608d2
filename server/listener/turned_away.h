// Whom the door has not let in, in the words of logs.
#pragma once

#include <string>

#include "server/listener/client_peer.h"

namespace kerf {

struct TurnedAway {
  // As PeerOf has it.
  std::string peer;
  // As far as its connection says it; of a connection that was not taken, nothing.
  SeenClient seen = {};
  // One of its calls was refused, and not its connection.
  bool is_call = false;
  // Of the call, with the slash: as the client has sent it, which may be anything. Empty: nobody
  // knows.
  std::string method = {};
  std::string request_id = {};
  // What a call was answered: a reason of server/errors. Of a connection why it was not taken, as
  // kerf_door_connections_ended_total has it.
  std::string outcome = {};
  // For people.
  std::string message = {};
};

}  // namespace kerf
