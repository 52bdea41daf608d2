// The configuration file: TOML, the keys are the long names of flags.
#pragma once

#include <string>

#include "base/cli/command_line.h"

namespace kerf::agent {

// $XDG_CONFIG_HOME/kerf/config.toml or ~/.config/kerf/config.toml; empty if neither is known.
std::string DefaultConfigPath();

// Why `path` cannot be read as a configuration file, and of the default one what to do where it is
// another user's; empty if it can.
std::string RefuseUnreadableConfig(const std::string& path);

// Adds --config (KERF_CONFIG), as base/toml_config.h reads it, to `line`, once all verbs are there.
// A file that is named must be there; the default one need not, but if it is there it counts. With
// `skips_unknown`, settings that the program does not have are let pass.
void AddConfigFile(CommandLine& line, bool skips_unknown);

}  // namespace kerf::agent
