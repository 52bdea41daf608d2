// What a process is making and nobody can use before it is done: should the process have to end at
// once, it goes.
#pragma once

#include <string>

namespace kerf {

// A file or a folder with all that is in it. Thread-safe, as all of these.
void AddUnfinishedPath(const std::string& path);
// It is done, has another name, or is gone. One that was never added is fine.
void ForgetUnfinishedPath(const std::string& path);
// Removes them all, as far as that is possible, without waiting long for other threads.
void RemoveUnfinishedPaths();

}  // namespace kerf
