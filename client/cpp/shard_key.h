// What a client tells fronts, so that they find the same worker each time: docs/spec/routing.md.
#pragma once

#include <string>
#include <string_view>

namespace kerf::client {

// Of what `name` stands for in a repository: a file, or a stream that carries many. 16 hexadecimal
// digits.
std::string ShardKey(std::string_view repository, std::string_view name);

}  // namespace kerf::client
