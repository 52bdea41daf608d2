// The configuration file: TOML, the keys are the long names of flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace kerf::agent {

// $XDG_CONFIG_HOME/kerf/config.toml or ~/.config/kerf/config.toml; empty if neither is known.
std::string DefaultConfigPath();

// Adds --config (KERF_CONFIG), as base/toml_config.h reads it, to `app`, once all verbs are there.
void AddConfigFile(CLI::App& app);

}  // namespace kerf::agent
