// Who a user is that the system has told of by his number.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace kerf {

// Whether the number says nobody in particular: in a user namespace (user_namespaces(7)) all users
// who have none there are told of by one and the same, the overflow uid, mostly 65534. Also true of
// that number where nobody can tell whether there are such users. Thread-safe.
bool MayBeAnybody(uid_t user);

// The same by what /proc/sys/kernel/overflowuid and /proc/self/uid_map say; empty: they cannot be
// read. For tests.
bool MayBeAnybody(uid_t user, std::string_view overflow_uid, std::string_view uid_map);

// Of one who may, behind what names him.
inline constexpr std::string_view kMayBeAnybody =
    ", by whom this user namespace names all users that have no number in it: nobody can tell who "
    "that is";

}  // namespace kerf
