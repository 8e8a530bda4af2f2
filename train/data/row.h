// SPDX-License-Identifier: Apache-2.0
//
// Rows: the elements of a dataset before Batch(). The stages of a pipeline pass on references to
// rows; a row is read when a stage needs its value, at the latest for its batch.
#ifndef MIRRORFLOW_TRAIN_DATA_ROW_H_
#define MIRRORFLOW_TRAIN_DATA_ROW_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// The components of a row, without the batch dimension.
using Row = std::vector<Tensor>;

// Identifies a row: its number in the source, from 0, and the pass over the source. The identity is
// the same on every worker, and so are random changes that depend on it.
struct RowId {
  int64_t epoch = 0;
  int64_t row = 0;

  friend bool operator==(const RowId&, const RowId&) = default;
};

struct RowRef {
  RowId id;
  std::shared_ptr<const Row> value;  // null until the row is read
};

inline RowRef NewRow(int64_t epoch, int64_t number, Row row) {
  return {{epoch, number}, std::make_shared<const Row>(std::move(row))};
}

// Reads rows by reference and applies the functions of Map(). Several threads call it concurrently.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual absl::Status Read(const RowRef& ref, Row* row) const = 0;
  // The size in bytes of every row, if it is known without reading one; otherwise 0.
  virtual int64_t row_bytes() const { return 0; }
  // If row i is row i of tensors, returns these tensors, from which batches are copied directly.
  virtual const std::vector<Tensor>* tensors() const { return nullptr; }
};

// The function that Map() applies to each row: a callable `absl::Status(Row*)`, or
// `absl::Status(const RowId&, Row*)` if it also depends on the pass and the row number.
class RowFunction {
 public:
  template <typename F>
  requires std::is_invocable_r_v<absl::Status, const F&, Row*> RowFunction(
      F f)  // NOLINT: from a lambda
      : apply_([f = std::move(f)](const RowId&, Row* row) -> absl::Status { return f(row); }) {}
  template <typename F>
  requires std::is_invocable_r_v<absl::Status, const F&, const RowId&, Row*> RowFunction(F f)
      : apply_(std::move(f)) {}  // NOLINT: from a lambda

  absl::Status operator()(const RowId& id, Row* row) const { return apply_(id, row); }

 private:
  std::function<absl::Status(const RowId&, Row*)> apply_;
};

// A source that can only be read sequentially.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Fills `row`. Returns false at the end, after which it is not called again.
  virtual absl::StatusOr<bool> Next(Row* row) = 0;
  // Skips the next `count` rows, or all that remain. Returns how many it skipped. The default reads
  // them.
  virtual absl::StatusOr<int64_t> Skip(int64_t count);
};

// Opens a source for pass `epoch`.
using OpenSource = std::function<absl::StatusOr<std::unique_ptr<RowSource>>(int64_t epoch)>;

// Returns whether Filter() keeps a row.
using RowPredicate = std::function<absl::StatusOr<bool>(const Row&)>;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_ROW_H_
