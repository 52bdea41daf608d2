#include "server/logging/log_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kerf {
namespace {

bool IsControl(char character) {
  return static_cast<unsigned char>(character) < 0x20 || character == 0x7F;
}

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

std::string JsonOf(std::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
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
  std::replace_if(line.begin(), line.end(), IsControl, '?');
  return line;
}

std::string JsonMembersOf(std::string_view message, std::span<const LogField> fields) {
  std::string members = "\"message\":" + JsonOf(message);
  for (const LogField& field : fields) {
    members += ',' + JsonOf(field.key) + ':' + JsonOf(field.value);
  }
  return members;
}

}  // namespace kerf
