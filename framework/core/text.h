// SPDX-License-Identifier: Apache-2.0
//
// Normalises text files from other systems, which may have a byte order mark, be encoded in UTF-16,
// have lines that end in \r\n or \r, or end with a Ctrl-Z. Readers of text see UTF-8 with lines
// that end in \n. Other characters that some systems treat as line ends (NEL, a form feed) stay;
// StrayControl finds them.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_TEXT_H_
#define MIRRORFLOW_FRAMEWORK_CORE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// The character that ends a DOS text file.
inline constexpr char kCtrlZ = 0x1a;

inline constexpr size_t kLongestByteOrderMark = 3;

// Converts text to UTF-8, chunk by chunk. A byte order mark at the start selects the encoding and
// is dropped; text without one stays unchanged.
class TextDecoder {
 public:
  // Converts the next bytes and appends the text to `out`. `at_end` says whether these are the last
  // bytes. Returns DataLoss, without the path, for a truncated character or an unpaired surrogate.
  absl::Status Decode(absl::string_view bytes, bool at_end, std::string* out);
  // Returns true if Decode passes the bytes through unchanged. Valid only after Decode has received
  // kLongestByteOrderMark bytes or the end of the text.
  bool is_utf8() const { return encoding_ == Encoding::kUtf8; }

 private:
  enum class Encoding { kUnknown, kUtf8, kUtf16Little, kUtf16Big };

  absl::Status DecodeUtf16(bool at_end, std::string* out);

  Encoding encoding_ = Encoding::kUnknown;
  std::string pending_;  // an incomplete character or byte order mark
  uint64_t offset_ = 0;  // of pending_
};

// Returns `text` without the Ctrl-Z that ends a DOS text file, and without the line ends and
// further Ctrl-Zs after it. Returns `text` unchanged if anything else follows.
absl::string_view WithoutCtrlZ(absl::string_view text);

// Names the first control character in `text` ("a form feed", "U+2028"); "" if it has none. The
// Unicode separators U+2028 and U+2029 are included; tabs and the line ends \n and \r are not.
std::string StrayControl(absl::string_view text);

// Returns DataLoss, without the path, if the text contains a zero byte, which indicates binary data
// or UTF-16 without a byte order mark. `offset` is the offset of `text` in its file.
absl::Status CheckNoZeroByte(absl::string_view text, uint64_t offset = 0);

// Returns the contents of a whole text file as UTF-8 with lines that end in \n, or DataLoss without
// the path.
absl::StatusOr<std::string> PlainText(absl::string_view bytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_TEXT_H_
