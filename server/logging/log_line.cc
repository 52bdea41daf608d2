#include "server/logging/log_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace kerf {
namespace {

// What a program that splits lines at spaces and at '=' reads as one value.
bool IsPlain(std::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char character) {
    return character > ' ' && character <= '~' && character != '"' && character != '=';
  });
}

void AppendQuoted(std::string& line, std::string_view text) {
  line += '"';
  for (const char character : text) {
    if (character == '"' || character == '\\') line += '\\';
    line += character;
  }
  line += '"';
}

std::string OnlyText(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    const std::size_t length = Utf8Length(line);
    const std::string_view sequence = line.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || IsControl(sequence)) {
      text += '?';
    } else {
      text += sequence;
    }
    line.remove_prefix(sequence.size());
  }
  return text;
}

// All in ASCII: in UTF-8 there would be further controls, and further ends of lines.
std::string JsonOf(std::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string TextLineOf(std::string_view message, std::span<const LogField> fields) {
  std::string line;
  if (message.find_first_of("=\"") == std::string_view::npos) {
    line += message;
  } else {
    AppendQuoted(line, message);
  }
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    if (IsPlain(field.value)) {
      line += field.value;
    } else {
      AppendQuoted(line, field.value);
    }
  }
  return OnlyText(line);
}

std::string JsonMembersOf(std::string_view message, std::span<const LogField> fields) {
  std::string members = "\"message\":" + JsonOf(message);
  for (const LogField& field : fields) {
    members += ',' + JsonOf(field.key) + ':' + JsonOf(field.value);
  }
  return members;
}

}  // namespace kerf
