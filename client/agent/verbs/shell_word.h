// For commands that a verb shows.
#pragma once

#include <string>

namespace kerf::agent {

// `text` as one word of a shell's command line.
std::string ShellWord(const std::string& text);

}  // namespace kerf::agent
