// SPDX-License-Identifier: Apache-2.0
//
// Rows: the elements of a dataset before Batch(), and the types of functions that create, change
// and choose them. Pipeline stages pass on references to rows. A row is read when a stage needs its
// value, at the latest when its batch is assembled.
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

// Identifies a row by its index in the source and by the pass over the source, both from 0. It is
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

// Reads the rows that references identify, and applies the functions of Map(). Several threads can
// call a reader concurrently.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual absl::Status Read(const RowRef& ref, Row* row) const = 0;
  // Returns the row size in bytes if it is the same for all rows and known without reading one;
  // otherwise 0.
  virtual int64_t row_bytes() const { return 0; }
  // If row i is a row of tensors at index i, returns the tensors, so that batches can be copied
  // from them directly.
  virtual const std::vector<Tensor>* tensors() const { return nullptr; }
};

// The function that Map() applies to each row. It changes the row in place. It is a callable
// `absl::Status(Row*)`, or `absl::Status(const RowId&, Row*)` if it also depends on the pass and
// the row index. Several threads can call it concurrently.
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

// A source of rows that is read sequentially, for Dataset::FromSource.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Fills `row` and returns true, or returns false at the end of the source; it is not called after
  // that.
  virtual absl::StatusOr<bool> Next(Row* row) = 0;
  // Skips the next `count` rows, or all that remain, and returns how many it skipped. By default,
  // reads and discards them.
  virtual absl::StatusOr<int64_t> Skip(int64_t count);
};

// Opens a source for a pass. `epoch` is the index of the pass, from 0.
using OpenSource = std::function<absl::StatusOr<std::unique_ptr<RowSource>>(int64_t epoch)>;

// Returns whether Filter() keeps a row.
using RowPredicate = std::function<absl::StatusOr<bool>(const Row&)>;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_ROW_H_
