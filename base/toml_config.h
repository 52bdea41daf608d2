// The settings file of both programs, as CLI11 takes it.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace kerf {

// For app.config_formatter, once all options and verbs are there; `app` outlives it. The file is
// TOML, its keys are the long names of flags. A key outside of any table is a flag of the program
// itself or of every verb that has it; a key in the table of a verb ([backup]) is a flag of that
// verb and goes before the former. A key that nobody has, or that cannot be read, is a
// CLI::ConfigError that names file and line; so is a file of more than 1 MiB. What is set in the
// environment (Option::envname) is left out, because CLI11 itself would let the file go first.
// With kSkip, keys that nobody has are left out: the file is another program's, too.
enum class UnknownSettings { kRefuse, kSkip };
std::shared_ptr<CLI::Config> MakeTomlConfig(const CLI::App& app,
                                            UnknownSettings unknown = UnknownSettings::kRefuse);

}  // namespace kerf
