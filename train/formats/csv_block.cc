// SPDX-License-Identifier: Apache-2.0
#include "train/formats/csv_block.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/names.h"
#include "train/formats/decimal.h"

namespace mirrorflow {
namespace {

static_assert(CsvBlock::kPadding >= kDecimalPadding);

bool ParseBool(absl::string_view text, bool* out) {
  const bool yes = text == "1" || absl::EqualsIgnoreCase(text, "true");
  *out = yes;
  return yes || text == "0" || absl::EqualsIgnoreCase(text, "false");
}

// Parses a text that consists of one number, with optional spaces around it.
template <typename T>
bool ParseNumber(absl::string_view text, T* out) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, *out);
  if (next != end || text.empty()) return false;
  if constexpr (std::is_floating_point_v<T>) {
    if (error != std::errc::result_out_of_range) return error == std::errc();
    const double value = std::strtod(std::string(text).c_str(), nullptr);  // 0 or huge
    *out = static_cast<T>(value);
    return std::abs(value) < 1;
  } else {
    return error == std::errc();
  }
}

// Returns whether the text is a number with a decimal comma, like 1,5.
bool HasDecimalComma(absl::string_view text) {
  std::string with_point(text);
  const size_t comma = with_point.find(',');
  if (comma == std::string::npos) return false;
  with_point[comma] = '.';
  double value;
  return ParseNumber(with_point, &value);
}

}  // namespace

void ConvertToFloat(std::byte* data, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t integer;
    std::memcpy(&integer, data + i * sizeof(integer), sizeof(integer));
    const auto value = static_cast<float>(integer);
    std::memcpy(data + i * sizeof(value), &value, sizeof(value));
  }
}

CsvBlock::CsvBlock(const CsvPlan& plan)
    : plan_(plan), scanner_(plan.delimiter), data_(plan.columns.size()) {}

void CsvBlock::MakeFloat(size_t column) {
  if (dtypes_[column] == DT_FLOAT) return;
  ConvertToFloat(data_[column].get(), row_);
  dtypes_[column] = DT_FLOAT;
}

void CsvBlock::Reserve(size_t rows) {
  if (rows <= capacity_) return;
  constexpr size_t kLargestElement = 8;
  for (size_t i = 0; i < data_.size(); ++i) {
    if (dtypes_[i] != DT_INVALID) data_[i].reset(new std::byte[rows * kLargestElement]);
  }
  capacity_ = rows;
}

void CsvBlock::Parse(const char* begin, const char* stop, const char* end,
                     absl::Span<const DataType> dtypes) {
  begin_ = end_ = begin;
  cut_ = false;
  row_ = lines_ = 0;
  bad_.clear();
  dtypes_.assign(dtypes.begin(), dtypes.end());
  if (begin >= stop) return;
  // A record has at least one byte per field, and at least two bytes, because an empty line is not
  // a record.
  Reserve((stop - begin) / std::max<size_t>(plan_.columns.size(), 2) + 1);
  while (end_ < stop && static_cast<int64_t>(bad_.size()) <= plan_.max_bad_records) {
    const int64_t quoted_lines = scanner_.quoted_lines();
    const char* next = scanner_.AfterBlankLine(end_);
    if (next == nullptr) next = ParseRecord(end_, end);
    cut_ = next == nullptr;
    if (cut_) break;
    lines_ += 1 + scanner_.quoted_lines() - quoted_lines;
    end_ = next;
  }
}

const char* CsvBlock::ParseRecord(const char* p, const char* end) {
  const size_t last = plan_.columns.size() - 1;
  for (size_t i = 0;; ++i) {
    // Most fields are common numbers, which can be parsed without searching for the end of the
    // field.
    const char* after = nullptr;
    switch (plan_.columns[i].vocabulary.empty() ? dtypes_[i] : DT_INVALID) {
      case DT_FLOAT:
        after = ParseUsualFloat(p, &Cell<float>(i));
        break;
      case DT_DOUBLE:
        after = ParseUsualFloat(p, &Cell<double>(i));
        break;
      case DT_INT32:
        after = ParseInteger(p, &Cell<int32_t>(i));
        break;
      case DT_INT64:
        after = ParseInteger(p, &Cell<int64_t>(i));
        break;
      default:
        break;
    }
    if (after != nullptr) {
      if (i < last && scanner_.IsDelimiter(after)) {
        p = after + 1;
        continue;
      }
      if (i == last) {
        if (const char* const next = CsvScanner::AfterLine(after)) {
          ++row_;
          return next;
        }
      }
    }
    const CsvField field = scanner_.Next(p, end);
    if (field.end == CsvField::End::kCut) return nullptr;
    if (field.end == CsvField::End::kMalformed) {
      return SkipBad(field, end,
                     absl::StrCat("column '", Printable(plan_.columns[i].name), "': not CSV; ",
                                  "expected a field of RFC 4180, got ", field.text));
    }
    const bool at_end = field.end == CsvField::End::kLine;
    if (at_end != (i == last)) {
      int64_t count = static_cast<int64_t>(i) + 1;
      const char* const next = scanner_.SkipRecord(field, end, &count);
      return SkipBad({{}, next != nullptr ? CsvField::End::kLine : CsvField::End::kCut, next}, end,
                     absl::StrCat("wrong number of fields; expected ", last + 1, ", got ", count));
    }
    if (dtypes_[i] != DT_INVALID && !Store(i, field.text)) {
      return SkipBad(field, end, Complaint(i, field.text));
    }
    if (at_end) {
      ++row_;
      return field.next;
    }
    p = field.next;
  }
}

const char* CsvBlock::SkipBad(const CsvField& field, const char* end, std::string what) {
  const char* const next = scanner_.SkipRecord(field, end, nullptr);
  if (next != nullptr) bad_.push_back({lines_, std::move(what)});
  return next;
}

bool CsvBlock::Store(size_t i, absl::string_view text) {
  const CsvColumnPlan& column = plan_.columns[i];
  if (column.vocabulary.empty()) {
    return IsMissing(text) ? StoreMissing(i) : StoreNumber(i, text);
  }
  const auto found = column.vocabulary.find(text);
  if (found == column.vocabulary.end() && IsMissing(text)) return StoreMissing(i);
  const std::optional<int32_t> index =
      found != column.vocabulary.end() ? found->second : column.unknown;
  if (!index.has_value()) return false;
  if (dtypes_[i] == DT_INT32) {
    Cell<int32_t>(i) = *index;
  } else {
    Cell<int64_t>(i) = *index;
  }
  return true;
}

bool CsvBlock::IsMissing(absl::string_view text) const {
  return plan_.na_values.contains(absl::StripAsciiWhitespace(text));
}

bool CsvBlock::StoreMissing(size_t i) {
  const std::optional<double>& value = plan_.columns[i].missing;
  if (!value.has_value()) return false;
  if (plan_.columns[i].inferred && std::trunc(*value) != *value) MakeFloat(i);
  return DispatchDataType(
      dtypes_[i],
      [&](auto tag) {
        Cell<typename decltype(tag)::type>(i) = static_cast<typename decltype(tag)::type>(*value);
        return true;
      },
      false);
}

bool CsvBlock::StoreNumber(size_t i, absl::string_view text) {
  switch (dtypes_[i]) {
    case DT_FLOAT:
      return ParseNumber(text, &Cell<float>(i));
    case DT_DOUBLE:
      return ParseNumber(text, &Cell<double>(i));
    case DT_INT32:
      return ParseNumber(text, &Cell<int32_t>(i));
    case DT_BOOL:
      return ParseBool(absl::StripAsciiWhitespace(text), &Cell<bool>(i));
    default:
      break;
  }
  if (ParseNumber(text, &Cell<int64_t>(i))) return true;
  float value;
  if (!plan_.columns[i].inferred || !ParseNumber(text, &value)) return false;
  MakeFloat(i);
  Cell<float>(i) = value;
  return true;
}

std::string CsvBlock::Complaint(size_t i, absl::string_view text) const {
  const CsvColumnPlan& column = plan_.columns[i];
  std::string what, expected;
  if (!column.vocabulary.empty() && !IsMissing(text)) {
    what = "text that is not in the vocabulary";
    expected = absl::StrCat("one of its ", column.vocabulary.size(), " words");
  } else {
    what = IsMissing(text) ? "missing field" : "invalid field";
    expected = column.inferred ? "a number" : std::string(DataTypeName(dtypes_[i]));
  }
  const bool has_comma = column.vocabulary.empty() && HasDecimalComma(text);
  return absl::StrCat("column '", Printable(column.name), "': ", what, "; expected ", expected,
                      has_comma ? " with a decimal point" : "", ", got '", Printable(text), "'",
                      has_comma ? " with a decimal comma" : "");
}

}  // namespace mirrorflow
