// SPDX-License-Identifier: Apache-2.0
//
// CsvBlock: parses a block of CSV records into columns of numbers. Threads can parse different
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
    int64_t line;  // line number in the block, from 0
    std::string what;
  };

  explicit CsvBlock(const CsvPlan& plan);

  // Bytes that must be readable after the terminating 0 byte.
  static constexpr size_t kPadding = 8;

  // Parses the records that begin in [begin, stop). The text ends at `end`, which must point to a 0
  // byte. `dtypes` holds the dtypes of all columns of the file; an inferred int64 can become float.
  // Replaces the results of the previous call.
  void Parse(const char* begin, const char* stop, const char* end,
             absl::Span<const DataType> dtypes);

  // begin() is the start of the parsed text, and end() the first byte after the last complete
  // record.
  const char* begin() const { return begin_; }
  const char* end() const { return end_; }
  // Returns whether the record at end() begins before `stop` but is incomplete.
  bool cut() const { return cut_; }
  int64_t num_rows() const { return row_; }
  int64_t num_lines() const { return lines_; }
  const std::vector<BadRecord>& bad_records() const { return bad_; }

  DataType dtype(size_t column) const { return dtypes_[column]; }
  const std::byte* data(size_t column) const { return data_[column].get(); }
  // Converts the values of an inferred column to float, and parses its later fields as float.
  void MakeFloat(size_t column);

 private:
  void Reserve(size_t rows);
  // Both return the start of the next record, or null if the text ends before the record's end.
  const char* ParseRecord(const char* p, const char* end);
  const char* SkipBad(const CsvField& field, const char* end, std::string what);
  // Stores a field's value. Returns false if the field is not valid for the column.
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

// Converts int64 values to float in place. The floats then occupy the first half of the memory.
void ConvertToFloat(std::byte* data, int64_t count);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_CSV_BLOCK_H_
