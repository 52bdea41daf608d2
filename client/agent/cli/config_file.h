// The configuration file: TOML, the keys are the long names of flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace kerf::agent {

// $XDG_CONFIG_HOME/kerf/config.toml or ~/.config/kerf/config.toml; empty if neither is known.
std::string DefaultConfigPath();

// Adds --config (KERF_CONFIG) to `app`, once all verbs are there. A key outside of any table is a
// flag of `kerf` itself or of every verb that has it; a key in the table of a verb ([backup]) is a
// flag of that verb and goes before the former. A key that nobody has, or that cannot be read, is a
// CLI::ConfigError that names file and line. What is set in the environment is left out of the
// file, because CLI11 itself would let the file go first.
void AddConfigFile(CLI::App& app);

}  // namespace kerf::agent
