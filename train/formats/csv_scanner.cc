// SPDX-License-Identifier: Apache-2.0
#include "train/formats/csv_scanner.h"

#include <cstring>

namespace mirrorflow {

CsvScanner::CsvScanner(char delimiter) : delimiter_(delimiter) {
  for (const char c : {delimiter, '"', '\r', '\n', '\0'}) {
    special_[static_cast<unsigned char>(c)] = true;
  }
}

// Returns the field whose text ends at `p`.
CsvField CsvScanner::EndAt(absl::string_view text, const char* p, const char* end) const {
  if (p >= end) return {text, CsvField::End::kCut, p};
  if (*p == delimiter_) return {text, CsvField::End::kDelimiter, p + 1};
  if (const char* next = AfterLine(p)) return {text, CsvField::End::kLine, next};
  if (*p == '\r' && p + 1 == end) return {text, CsvField::End::kCut, p};
  return {"text after the closing quote", CsvField::End::kMalformed, p};
}

CsvField CsvScanner::Next(const char* p, const char* end) {
  if (*p == '"') return NextQuoted(p + 1, end);
  const char* const begin = p;
  for (;; ++p) {
    while (!special_[static_cast<unsigned char>(*p)]) ++p;
    if (p >= end || *p == delimiter_ || *p == '\n') break;
    if (*p == '"') return {"a quote in an unquoted field", CsvField::End::kMalformed, p};
    if (*p == '\r') break;
  }
  return EndAt(absl::string_view(begin, p - begin), p, end);
}

CsvField CsvScanner::NextQuoted(const char* p, const char* end) {
  const char* begin = p;
  const char* const field = p;
  bool escaped = false;
  while (true) {
    const char* const quote = static_cast<const char*>(std::memchr(p, '"', end - p));
    if (quote == nullptr) return {{}, CsvField::End::kCut, end};
    if (quote[1] != '"') {
      for (const char* q = field; q < quote; ++q) quoted_lines_ += AfterLine(q) == q + 1;
      const absl::string_view rest(begin, quote - begin);
      if (!escaped) return EndAt(rest, quote + 1, end);
      unescaped_.append(begin, quote);
      return EndAt(unescaped_, quote + 1, end);
    }
    if (!escaped) unescaped_.clear();
    escaped = true;
    unescaped_.append(begin, quote + 1);  // includes one of the two quotes
    begin = p = quote + 2;
  }
}

const char* CsvScanner::SkipRecord(CsvField field, const char* end, int64_t* count) {
  while (field.end == CsvField::End::kDelimiter) {
    field = Next(field.next, end);
    if (count != nullptr) ++*count;
  }
  if (field.end == CsvField::End::kLine) return field.next;
  if (field.end == CsvField::End::kCut) return nullptr;
  // After a misplaced quote, quotes cannot be paired, so skip to the end of the line.
  for (const char* p = field.next; p < end; ++p) {
    if (*p == '\n' || *p == '\r') return AfterLine(p);
  }
  return nullptr;
}

}  // namespace mirrorflow
