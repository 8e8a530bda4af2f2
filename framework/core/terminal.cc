// SPDX-License-Identifier: Apache-2.0
#include "framework/core/terminal.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/utf8.h"

namespace mirrorflow {
namespace {

bool IsC1(char c) { return (c & 0xe0) == 0x80; }  // 80 to 9F

// Returns the length of the control character at the start of `text`, which is not empty. Returns 0
// if `text` starts with any other character.
size_t ControlLength(absl::string_view text) {
  switch (Utf8CharacterLength(text)) {
    case 0:
      return IsC1(text[0]) ? 1 : 0;
    case 1:
      return absl::ascii_iscntrl(static_cast<unsigned char>(text[0])) ? 1 : 0;
    case 2:
      return text[0] == '\xc2' && IsC1(text[1]) ? 2 : 0;
    default:
      return 0;
  }
}

// Returns the length of the harmless sequence at the start of `text`: SGR, which selects colours
// and other attributes (ESC [ 1;31 m), or EL, which erases within the line (ESC [ K). Returns 0 if
// there is none.
size_t HarmlessLength(absl::string_view text) {
  if (text[0] == '\t' || text[0] == '\n' || text[0] == '\r') return 1;
  if (!absl::StartsWith(text, "\033[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;", 2);
  const bool is_whole = end != absl::string_view::npos && (text[end] == 'm' || text[end] == 'K');
  return is_whole ? end + 1 : 0;
}

constexpr absl::string_view kNoAttributes = "\033[0m";

std::string Escape(absl::string_view text, bool keep_harmless) {
  std::string escaped;
  bool has_attributes = false;  // selected by the line so far
  const auto end_line = [&] {
    if (std::exchange(has_attributes, false)) absl::StrAppend(&escaped, kNoAttributes);
  };
  while (!text.empty()) {
    const size_t harmless = keep_harmless ? HarmlessLength(text) : 0;
    const size_t control = harmless > 0 ? 0 : ControlLength(text);
    const size_t size = std::max({harmless, control, Utf8CharacterLength(text), size_t{1}});
    const absl::string_view part = text.substr(0, size);
    if (harmless > 0 && part == "\n") end_line();
    if (harmless > 1 && part.back() == 'm') {
      has_attributes = part != kNoAttributes && part != "\033[m";
    }
    if (control > 0) {
      absl::StrAppend(&escaped, absl::CEscape(part));
    } else {
      absl::StrAppend(&escaped, part);
    }
    text.remove_prefix(size);
  }
  end_line();
  return escaped;
}

}  // namespace

std::string ForTerminal(absl::string_view line) { return Escape(line, /*keep_harmless=*/false); }

void PrintLine(absl::string_view line) { std::printf("%s\n", ForTerminal(line).c_str()); }

std::string OutputForTerminal(absl::string_view text) {
  return Escape(text, /*keep_harmless=*/true);
}

}  // namespace mirrorflow
