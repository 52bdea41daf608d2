// What is text, and what only looks like it.
#pragma once

#include <cstddef>
#include <string_view>

namespace kerf {

// Length of the valid UTF-8 sequence at the front; 0 if there is none. `text` is not empty.
std::size_t Utf8Length(std::string_view text);

// That the sequence, a valid one, steers a terminal (U+0000 to U+001F, U+007F to U+009F), or is the
// end of a line for some who read lines (U+2028, U+2029).
bool IsControl(std::string_view sequence);

}  // namespace kerf
