// SPDX-License-Identifier: Apache-2.0
//
// Reads CSV files (RFC 4180), plain or gzip, into one tensor per column.
//
//   MF_ASSIGN_OR_RETURN(CsvTable table, ReadCsv("iris.csv", {.columns = {
//       {.name = "petal_length"},
//       {.name = "species", .vocabulary = {"setosa", "versicolor", "virginica"}}}}));
//
// Lines end with \n, \r\n or \r. A quoted field can contain delimiters, line ends and, if doubled,
// quotes. Blank lines, a final Ctrl-Z and spaces around numbers are ignored. The text is UTF-8 or,
// with a byte order mark, UTF-16. A header with any other control character or line separator
// outside quotes is an error: its lines may end in a way that this reader does not know, and the
// file would look empty.
#ifndef MIRRORFLOW_TRAIN_FORMATS_CSV_H_
#define MIRRORFLOW_TRAIN_FORMATS_CSV_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// A column to read. The file's header must contain `name` exactly once. If `name` is empty,
// `index`, which counts from 0, selects the column.
struct CsvColumn {
  std::string name;
  int index = -1;
  // float, double, int32, int64 or bool (0 or 1, or true or false in upper or lower case).
  // DT_INVALID means an inferred dtype: int32 for a column with a vocabulary; otherwise int64 if
  // all fields of the column are integers, and float if they are numbers.
  DataType dtype = DT_INVALID;
  // The value for missing fields, which are those in CsvOptions::na_values. If unset, a missing
  // field is an error. A column of inferred dtype becomes float if a missing field needs a value
  // that is not an integer, such as NaN.
  std::optional<double> missing = std::nullopt;
  // If not empty, fields are text. A field's value is its index in this list, as int32 or int64.
  std::vector<std::string> vocabulary = {};
  // The value for text that is not in the vocabulary. If unset, such text is an error.
  std::optional<int32_t> unknown = std::nullopt;
};

struct CsvOptions {
  // Whether the first line has the column names. If not, the names are "0", "1", ….
  bool header = true;
  char delimiter = ',';
  // The columns to return, in this order. If empty, returns all columns, with inferred dtypes.
  std::vector<CsvColumn> columns = {};
  // The value for missing fields of columns without their own `missing`.
  std::optional<double> missing = std::nullopt;
  // Fields that represent a missing value, unless they are in the column's vocabulary. The default
  // is the list of pandas.read_csv.
  std::vector<std::string> na_values = {"",         "#N/A", "#N/A N/A", "#NA",    "-1.#IND",
                                        "-1.#QNAN", "-NaN", "-nan",     "1.#IND", "1.#QNAN",
                                        "<NA>",     "N/A",  "NA",       "NULL",   "NaN",
                                        "None",     "n/a",  "nan",      "null"};
  // Skips up to this many records with an invalid field or a wrong number of fields.
  int64_t skip_bad_records = 0;
  // The number of parsing threads, including the caller's. The result does not depend on it.
  int num_threads = 1;
};

struct CsvTable {
  std::vector<std::string> names;
  std::vector<Tensor> columns;  // each [num_rows]
  int64_t num_rows = 0;
  int64_t num_bad_records = 0;   // how many were skipped
  std::string first_bad_record;  // what is wrong with the first skipped record, and where it is
};

// Reads the whole file. Returns NotFound if it does not exist; InvalidArgument for options that are
// invalid or do not match the header, and for a file of another format, which the error names; and
// DataLoss for a file that is not CSV or has more bad records than allowed: `path: line 7, column
// 'age': what; expected …, got …`. Lines count from 1. A record can have at most 16 MiB.
absl::StatusOr<CsvTable> ReadCsv(absl::string_view path, const CsvOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_CSV_H_
