// What a restore is told to leave out of a snapshot that others may have made up.
#pragma once

#include <cstdint>
#include <optional>

#include "client/fs/node.h"

namespace kerf::agent {

struct RestoreRestrictions {
  // Leaves out what lets whoever runs a file, or writes into a directory, act as somebody else:
  // set-id bits, and attributes of the namespaces that only root may write (file capabilities,
  // labels of security modules). Of directories too: what is made in one gets its group.
  bool no_set_id = false;
  // Leaves out character and block devices.
  bool no_devices = false;
  // The most that may be written: content, holes aside, extended attributes and targets of
  // symlinks. Entries themselves have no limit: the store has each of them, whole.
  std::optional<std::uint64_t> max_bytes;
};

// Takes the rights away that no_set_id is about; false if the node has none of them.
bool RemoveSetId(Node& node);

bool IsDevice(const Node& node);

// What the node takes of max_bytes, which is never less than what is written: whoever made it up
// may have named any numbers. Nothing for a further name of a file.
std::uint64_t WrittenBytes(const Node& node);

// Takes the bytes off what is left; false, and none is left, if they are more.
bool TakeBytes(std::uint64_t bytes, std::uint64_t& left_bytes);

}  // namespace kerf::agent
