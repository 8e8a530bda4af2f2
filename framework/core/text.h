// SPDX-License-Identifier: Apache-2.0
//
// Text files as other systems write them: with a byte order mark, in UTF-16, with lines that end in
// \r\n or \r, with a final Ctrl-Z. Readers of text see UTF-8 with lines that end in \n. Other
// characters that may end a line elsewhere (NEL, a form feed) stay; StrayControl finds them.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_TEXT_H_
#define MIRRORFLOW_FRAMEWORK_CORE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// The character that ends a text file of DOS.
inline constexpr char kCtrlZ = 0x1a;

inline constexpr size_t kLongestByteOrderMark = 3;

// Converts a text to UTF-8 in parts. A byte order mark at its start selects the encoding and is
// left out; text without one stays unchanged.
class TextDecoder {
 public:
  // Appends the text of the next bytes to `out`. `at_end`: no more bytes follow. DataLoss, without
  // the path, for a character that is cut short or a surrogate without its pair.
  absl::Status Decode(absl::string_view bytes, bool at_end, std::string* out);
  // True if the bytes are passed on unchanged. Known after kLongestByteOrderMark bytes.
  bool is_utf8() const { return encoding_ == Encoding::kUtf8; }

 private:
  enum class Encoding { kUnknown, kUtf8, kUtf16Little, kUtf16Big };

  absl::Status DecodeUtf16(bool at_end, std::string* out);

  Encoding encoding_ = Encoding::kUnknown;
  std::string pending_;  // bytes that need more to be decoded
  uint64_t offset_ = 0;  // of pending_
};

// Returns `text` without the Ctrl-Z that ends a text file of DOS. Only line ends and others of its
// kind may follow it; they are left out, too.
absl::string_view WithoutCtrlZ(absl::string_view text);

// Returns what the first control character of `text` is ("a form feed", "U+2028"), or "" if it has
// none. The separators of Unicode, U+2028 and U+2029, count; tabs and the ends \n and \r do not.
std::string StrayControl(absl::string_view text);

// DataLoss, without the path, if the text has a byte 0, which is the sign of binary data and of
// UTF-16 without a byte order mark. `offset` is the place of `text` in its file.
absl::Status CheckNoZeroByte(absl::string_view text, uint64_t offset = 0);

// The contents of a whole text file as UTF-8 with lines that end in \n. An error is DataLoss
// without the path.
absl::StatusOr<std::string> PlainText(absl::string_view bytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_TEXT_H_
