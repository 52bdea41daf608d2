// How a line of the log is written, behind its time and level.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/logging/logging.h"

namespace kerf {

// MESSAGE KEY=VALUE...: a value with anything but letters, digits and simple signs stands between
// quotation marks, and so does a message with '=' or a quotation mark in it, which may be a peer's
// words: a program that reads fields finds none in it. Control characters and
// what is not UTF-8 are replaced.
std::string TextLineOf(std::string_view message, std::span<const LogField> fields);

// "message":"...","KEY":"VALUE"...: members of a JSON object, in ASCII.
std::string JsonMembersOf(std::string_view message, std::span<const LogField> fields);

}  // namespace kerf
