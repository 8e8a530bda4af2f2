// SPDX-License-Identifier: Apache-2.0
#include "train/formats/csv_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int kMaxThreads = 1024;

template <typename... Parts>
absl::Status Invalid(const Parts&... what) {
  return absl::InvalidArgumentError(absl::StrCat(what...));
}

absl::StatusOr<size_t> Find(const CsvColumn& column, const std::vector<std::string>& names) {
  if (column.name.empty()) {
    if (column.index >= 0 && column.index < static_cast<int64_t>(names.size())) return column.index;
    return Invalid("no such column; expected a name, or an index below ", names.size(),
                   ", got index ", column.index);
  }
  const auto found = std::find(names.begin(), names.end(), column.name);
  if (found == names.end()) {
    return Invalid("no such column; expected one of ", names.size(), " names, got '",
                   Printable(column.name), "'", DidYouMean(column.name, names));
  }
  if (std::find(found + 1, names.end(), column.name) != names.end()) {
    return Invalid(
        "several columns have the same name; select the column by its index; expected a unique "
        "name, got '",
        Printable(column.name), "'");
  }
  return found - names.begin();
}

absl::Status Add(const CsvColumn& column, const CsvOptions& options, size_t position, CsvPlan* to) {
  CsvColumnPlan& plan = to->columns[position];
  const std::string where = absl::StrCat("column '", Printable(plan.name), "': ");
  if (plan.dtype != DT_INVALID) {
    return Invalid(where, "requested twice; expected each column once");
  }
  const bool text = !column.vocabulary.empty();
  plan.inferred = column.dtype == DT_INVALID && !text;
  plan.dtype = column.dtype;
  if (column.dtype == DT_INVALID) plan.dtype = text ? DT_INT32 : DT_INT64;
  const bool integer = plan.dtype == DT_INT32 || plan.dtype == DT_INT64;
  if (!integer &&
      (text || (plan.dtype != DT_FLOAT && plan.dtype != DT_DOUBLE && plan.dtype != DT_BOOL))) {
    return Invalid(where, "unsupported dtype; expected ",
                   text ? "int32 or int64 for a vocabulary" : "float, double, int32, int64 or bool",
                   ", got ", DataTypeName(plan.dtype));
  }
  for (size_t i = 0; i < column.vocabulary.size(); ++i) {
    if (!plan.vocabulary.emplace(column.vocabulary[i], static_cast<int32_t>(i)).second) {
      return Invalid(where, "the vocabulary repeats a word; expected different words, got '",
                     Printable(column.vocabulary[i]), "' twice");
    }
  }
  plan.unknown = column.unknown;
  plan.missing = column.missing.has_value() ? column.missing : options.missing;
  if (plan.missing.has_value() && !plan.inferred && (integer || plan.dtype == DT_BOOL)) {
    const double limit = plan.dtype == DT_INT32 ? 0x1p31 : plan.dtype == DT_INT64 ? 0x1p63 : 2;
    const double least = plan.dtype == DT_BOOL ? 0 : -limit;
    const double value = *plan.missing;
    if (!(std::trunc(value) == value && value >= least && value < limit)) {
      if (column.missing.has_value()) {
        return Invalid(where, "invalid value for missing fields; expected a value of ",
                       DataTypeName(plan.dtype), ", got ", value);
      }
      plan.missing = std::nullopt;
    }
  }
  to->selected.push_back(position);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCsvOptions(const CsvOptions& options) {
  const char d = options.delimiter;
  if (absl::ascii_isalnum(d) || absl::string_view("\"\r\n\0+-.", 7).find(d) != std::string::npos) {
    return Invalid("invalid delimiter; expected a character like ',' or ';', got '",
                   Printable(absl::string_view(&d, 1)), "'");
  }
  if (options.num_threads < 1 || options.num_threads > kMaxThreads) {
    return Invalid("invalid num_threads; expected 1 to ", kMaxThreads, ", got ",
                   options.num_threads);
  }
  if (options.skip_bad_records < 0) {
    return Invalid("invalid skip_bad_records; expected at least 0, got ", options.skip_bad_records);
  }
  return absl::OkStatus();
}

absl::StatusOr<CsvPlan> MakeCsvPlan(const CsvOptions& options,
                                    const std::vector<std::string>& names) {
  CsvPlan plan;
  plan.delimiter = options.delimiter;
  plan.max_bad_records = options.skip_bad_records;
  plan.na_values.insert(options.na_values.begin(), options.na_values.end());
  plan.columns.resize(names.size());
  for (size_t i = 0; i < names.size(); ++i) plan.columns[i].name = names[i];
  for (size_t i = 0; options.columns.empty() && i < names.size(); ++i) {
    MF_RETURN_IF_ERROR(Add(CsvColumn(), options, i, &plan));
  }
  for (const CsvColumn& column : options.columns) {
    MF_ASSIGN_OR_RETURN(const size_t position, Find(column, names));
    MF_RETURN_IF_ERROR(Add(column, options, position, &plan));
  }
  return plan;
}

}  // namespace mirrorflow
