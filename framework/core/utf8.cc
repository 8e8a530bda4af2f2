// SPDX-License-Identifier: Apache-2.0
#include "framework/core/utf8.h"

namespace mirrorflow {
namespace {

// Table 3-7 of the Unicode standard. The range of the second byte excludes overlong forms,
// surrogates and code points above U+10FFFF; the bytes after it are 80..BF.
struct Utf8Row {
  unsigned char first_low, first_high, second_low, second_high;
  size_t length;
};
constexpr Utf8Row kUtf8Rows[] = {
    {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
    {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
    {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

bool Within(char c, unsigned char low, unsigned char high) {
  const auto byte = static_cast<unsigned char>(c);
  return low <= byte && byte <= high;
}

}  // namespace

size_t Utf8CharacterLength(absl::string_view text) {
  if (text.empty()) return 0;
  if (Within(text[0], 0x00, 0x7F)) return 1;
  for (const Utf8Row& row : kUtf8Rows) {
    if (!Within(text[0], row.first_low, row.first_high)) continue;
    if (text.size() < row.length || !Within(text[1], row.second_low, row.second_high)) return 0;
    for (size_t i = 2; i < row.length; ++i) {
      if (!Within(text[i], 0x80, 0xBF)) return 0;
    }
    return row.length;
  }
  return 0;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace mirrorflow
