// SPDX-License-Identifier: Apache-2.0
//
// CsvBlock: parses a block of CSV records into columns of numbers. Several threads parse different
// blocks of a text concurrently.
#ifndef MIRRORFLOW_TRAIN_FORMATS_CSV_BLOCK_H_
#define MIRRORFLOW_TRAIN_FORMATS_CSV_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "train/formats/csv_plan.h"
#include "train/formats/csv_scanner.h"

namespace mirrorflow {

class CsvBlock {
 public:
  struct BadRecord {
    int64_t line;  // in the block, from 0
    std::string what;
  };

  explicit CsvBlock(const CsvPlan& plan);

  // Bytes that must be readable after the terminating 0 byte.
  static constexpr size_t kPadding = 8;

  // Parses the records that begin in [begin, stop). The text ends at `end`, where a 0 byte must
  // follow. `dtypes` has the dtypes of all columns of the file; an inferred int64 may become float.
  // Replaces the results of the previous call.
  void Parse(const char* begin, const char* stop, const char* end,
             absl::Span<const DataType> dtypes);

  // The first byte after the last complete record.
  const char* begin() const { return begin_; }
  const char* end() const { return end_; }
  // Whether the record at end() begins before `stop` but is incomplete.
  bool cut() const { return cut_; }
  int64_t num_rows() const { return row_; }
  int64_t num_lines() const { return lines_; }
  const std::vector<BadRecord>& bad_records() const { return bad_; }

  DataType dtype(size_t column) const { return dtypes_[column]; }
  const std::byte* data(size_t column) const { return data_[column].get(); }
  // Converts the values of an inferred column, and parses its later fields as float.
  void MakeFloat(size_t column);

 private:
  void Reserve(size_t rows);
  // Both return the start of the next record, or null if the text ends before it.
  const char* ParseRecord(const char* p, const char* end);
  const char* SkipBad(const CsvField& field, const char* end, std::string what);
  // Stores the value of a field. Returns false if it is not a value of the column's type.
  bool Store(size_t column, absl::string_view text);
  bool IsMissing(absl::string_view text) const;
  bool StoreMissing(size_t column);
  bool StoreNumber(size_t column, absl::string_view text);
  std::string Complaint(size_t column, absl::string_view text) const;
  template <typename T>
  T& Cell(size_t column) {
    return reinterpret_cast<T*>(data_[column].get())[row_];
  }

  const CsvPlan& plan_;
  CsvScanner scanner_;
  std::vector<DataType> dtypes_;
  std::vector<std::unique_ptr<std::byte[]>> data_;
  size_t capacity_ = 0;  // rows
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  bool cut_ = false;
  int64_t row_ = 0;
  int64_t lines_ = 0;
  std::vector<BadRecord> bad_;
};

// Converts int64 values to float in place; the floats occupy the first half of the memory.
void ConvertToFloat(std::byte* data, int64_t count);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_CSV_BLOCK_H_
