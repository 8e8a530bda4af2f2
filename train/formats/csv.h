// SPDX-License-Identifier: Apache-2.0
//
// Reads CSV files (RFC 4180), plain or gzip, into one tensor per column.
//
//   MF_ASSIGN_OR_RETURN(CsvTable table, ReadCsv("iris.csv", {.columns = {
//       {.name = "petal_length"},
//       {.name = "species", .vocabulary = {"setosa", "versicolor", "virginica"}}}}));
//
// Lines end with \n, \r\n or \r. A field in quotes may contain delimiters, line ends and, doubled,
// quotes. Blank lines and a final Ctrl-Z are ignored, and so are spaces around a number. The text
// is UTF-8 or, with a byte order mark, UTF-16. A header with another control character or line
// separator outside quotes is an error; otherwise, a file with unknown line endings would count as
// empty.
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

// A column to read. The file's header must contain `name` exactly once; without a name, `index`
// counts from 0.
struct CsvColumn {
  std::string name;
  int index = -1;
  // float, double, int32, int64 or bool (0, 1, and true and false in any case). DT_INVALID: int32
  // for a column with a vocabulary; otherwise int64 if all fields of the column are integers, and
  // float if they are numbers.
  DataType dtype = DT_INVALID;
  // The value of a missing field: one that is in CsvOptions::na_values. Without it, a missing field
  // is an error. A column of inferred dtype becomes float if it needs a value like NaN.
  std::optional<double> missing = std::nullopt;
  // If not empty, the field is text, and its value is the position in this list, as int32 or int64.
  std::vector<std::string> vocabulary = {};
  // The value of text that the vocabulary lacks. Without it, such text is an error.
  std::optional<int32_t> unknown = std::nullopt;
};

struct CsvOptions {
  // The first line has the names of the columns. Without it, their names are "0", "1", ….
  bool header = true;
  char delimiter = ',';
  // The columns to return, in this order. Empty: all, with inferred dtypes.
  std::vector<CsvColumn> columns = {};
  // The value of missing fields of the columns that have no `missing`.
  std::optional<double> missing = std::nullopt;
  // Fields that mean a missing value, unless the vocabulary has them: those of pandas.read_csv.
  std::vector<std::string> na_values = {"",         "#N/A", "#N/A N/A", "#NA",    "-1.#IND",
                                        "-1.#QNAN", "-NaN", "-nan",     "1.#IND", "1.#QNAN",
                                        "<NA>",     "N/A",  "NA",       "NULL",   "NaN",
                                        "None",     "n/a",  "nan",      "null"};
  // Leaves out up to this many records that have an invalid field or the wrong number of fields.
  int64_t skip_bad_records = 0;
  // Threads that parse, including the caller's. The result does not depend on it.
  int num_threads = 1;
};

struct CsvTable {
  std::vector<std::string> names;
  std::vector<Tensor> columns;  // each [num_rows]
  int64_t num_rows = 0;
  int64_t num_bad_records = 0;   // left out
  std::string first_bad_record;  // what was wrong with the first of them, with its place
};

// InvalidArgument for options that are invalid or do not fit the header, and for a file of another
// kind, which the error names. DataLoss for a file that is not CSV or has more bad records than
// allowed: `path: line 7, column 'age': what; expected …, got …`, where the lines count from 1. A
// record may have at most 16 MiB.
absl::StatusOr<CsvTable> ReadCsv(absl::string_view path, const CsvOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_CSV_H_
