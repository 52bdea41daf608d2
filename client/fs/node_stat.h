// What stat(2) tells, as a node.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "client/fs/node.h"
#include "client/fs/owner_names.h"

namespace kerf::agent {

NodeKind KindOf(mode_t mode);

Timestamp ModifiedOf(const struct stat& status);
NodeIdentity IdentityOf(const struct stat& status);

// Kind, mode, owner, mtime, of files the size, of devices the number. All else but the path becomes
// empty.
void FillFromStat(const struct stat& status, OwnerNames& owners, Node& node);

}  // namespace kerf::agent
