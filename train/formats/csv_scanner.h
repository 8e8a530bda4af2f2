// SPDX-License-Identifier: Apache-2.0
//
// CsvScanner: splits CSV text into fields, one at a time.
#ifndef MIRRORFLOW_TRAIN_FORMATS_CSV_SCANNER_H_
#define MIRRORFLOW_TRAIN_FORMATS_CSV_SCANNER_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

struct CsvField {
  enum class End {
    kDelimiter,  // more fields of the record follow
    kLine,       // the last field of the record
    kCut,        // the text ends inside the field
    kMalformed,  // `text` says what is wrong
  };
  absl::string_view text;  // without quotes; valid until the next call
  End end;
  // After the delimiter or line end; for a malformed field, the first wrong character.
  const char* next;
};

class CsvScanner {
 public:
  explicit CsvScanner(char delimiter);

  // Reads the field at `p`. The text ends at `end`, where a 0 byte must follow; it must not contain
  // others.
  CsvField Next(const char* p, const char* end);
  // Returns the start of the record after the one that `field` belongs to, or null if the text ends
  // before it. Unless `count` is null, adds the number of skipped fields, not counting `field`.
  const char* SkipRecord(CsvField field, const char* end, int64_t* count);

  bool IsDelimiter(const char* p) const { return *p == delimiter_; }
  // Returns the text after the line end at `p` (\n, \r\n or \r), or null if there is none. An \r at
  // the end of the text does not count, because it may be the first half of \r\n.
  static const char* AfterLine(const char* p) {
    if (*p == '\n') return p + 1;
    if (*p != '\r' || p[1] == '\0') return nullptr;
    return p[1] == '\n' ? p + 2 : p + 1;
  }
  // AfterLine() for a line that has only spaces and tabs.
  const char* AfterBlankLine(const char* p) const {
    while ((*p == ' ' || *p == '\t') && *p != delimiter_) ++p;
    return AfterLine(p);
  }
  // Line ends inside quotes, over all calls of Next().
  int64_t quoted_lines() const { return quoted_lines_; }

 private:
  CsvField NextQuoted(const char* p, const char* end);
  CsvField EndAt(absl::string_view text, const char* p, const char* end) const;

  const char delimiter_;
  std::array<bool, 256> special_ = {};  // bytes that may end an unquoted field
  std::string unescaped_;
  int64_t quoted_lines_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_CSV_SCANNER_H_
