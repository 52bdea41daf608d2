#include "client/agent/verbs/shell_word.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"

namespace kerf::agent {

std::string ShellWord(const std::string& text) {
  static constexpr std::string_view kPlain = "%+,-./:=@_";
  const bool is_plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           kPlain.find(c) != std::string_view::npos;
  });
  if (is_plain) return text;
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

}  // namespace kerf::agent
