// SPDX-License-Identifier: Apache-2.0
//
// CsvPlan: the validated options of ReadCsv(), resolved to a file's columns.
#ifndef MIRRORFLOW_TRAIN_FORMATS_CSV_PLAN_H_
#define MIRRORFLOW_TRAIN_FORMATS_CSV_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "framework/core/dtype.h"
#include "train/formats/csv.h"

namespace mirrorflow {

// How to parse one column of the file.
struct CsvColumnPlan {
  std::string name;
  DataType dtype = DT_INVALID;  // DT_INVALID if the column is not read
  // Whether the dtype starts as int64 and becomes float at the first other number.
  bool inferred = false;
  std::optional<double> missing;
  absl::flat_hash_map<std::string, int32_t> vocabulary;  // if not empty, fields are text
  std::optional<int32_t> unknown;
};

struct CsvPlan {
  char delimiter;
  std::vector<CsvColumnPlan> columns;  // all columns of the file
  std::vector<size_t> selected;        // indices in `columns` of the result's columns, in order
  absl::flat_hash_set<std::string> na_values;
  int64_t max_bad_records;  // a block stops parsing after one bad record more than this
};

// These functions check the options, and resolve them. Both return InvalidArgument for invalid
// options; the message omits the path. CheckCsvOptions() checks what does not depend on the file,
// and must be called first.
absl::Status CheckCsvOptions(const CsvOptions& options);
absl::StatusOr<CsvPlan> MakeCsvPlan(const CsvOptions& options,
                                    const std::vector<std::string>& names);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_CSV_PLAN_H_
