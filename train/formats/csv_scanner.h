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
    kMalformed,  // `text` describes the error
  };
  absl::string_view text;  // without quotes; valid until the next call
  End end;
  // Points past the delimiter or line end, or to the first wrong character of a malformed field.
  const char* next;
};

class CsvScanner {
 public:
  explicit CsvScanner(char delimiter);

  // Reads the field at `p`. The text ends at `end`, which must point to a 0 byte; the text must not
  // contain other 0 bytes.
  CsvField Next(const char* p, const char* end);
  // Returns the start of the record that follows `field`'s record, or null if the text ends before
  // it. Unless `count` is null, adds to it the number of skipped fields, not counting `field`.
  const char* SkipRecord(CsvField field, const char* end, int64_t* count);

  bool IsDelimiter(const char* p) const { return *p == delimiter_; }
  // Returns the text after the line end at `p` (\n, \r\n or \r), or null if there is none. An \r at
  // the end of the text does not count, because it may be the first half of \r\n.
  static const char* AfterLine(const char* p) {
    if (*p == '\n') return p + 1;
    if (*p != '\r' || p[1] == '\0') return nullptr;
    return p[1] == '\n' ? p + 2 : p + 1;
  }
  // Like AfterLine(), but also skips spaces and tabs before the line end.
  const char* AfterBlankLine(const char* p) const {
    while ((*p == ' ' || *p == '\t') && *p != delimiter_) ++p;
    return AfterLine(p);
  }
  // Returns how many line ends inside quotes all calls of Next() have read.
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
