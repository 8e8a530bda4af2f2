// SPDX-License-Identifier: Apache-2.0
//
// Rows: the elements of a dataset before Batch(). A pipeline passes references to rows through its
// stages; a row is read where a stage needs its value, at the latest when a batch is made.
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

// Names a row: its number in the source, from 0, and the pass over the source. It is the same on
// every worker, so that random changes keyed by it are, too.
struct RowId {
  int64_t epoch = 0;
  int64_t row = 0;

  friend bool operator==(const RowId&, const RowId&) = default;
};

struct RowRef {
  RowId id;
  std::shared_ptr<const Row> value;  // null until it is read
};

inline RowRef NewRow(int64_t epoch, int64_t number, Row row) {
  return {{epoch, number}, std::make_shared<const Row>(std::move(row))};
}

// Reads rows by reference, with the functions of Map() applied. Several threads call it at once.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual absl::Status Read(const RowRef& ref, Row* row) const = 0;
  // The bytes of every row, if they are known without reading one.
  virtual int64_t row_bytes() const { return 0; }
  // If row i is row i of tensors, these tensors, from which batches are copied directly.
  virtual const std::vector<Tensor>* tensors() const { return nullptr; }
};

// Function that Map() applies to each row, a callable `absl::Status(Row*)`, or `absl::Status(const
// RowId&, Row*)` for one that also depends on the pass and the number of the row.
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

// A source that can be read only from its beginning to its end.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Fills `row`. Returns false at the end, and is not called again after that.
  virtual absl::StatusOr<bool> Next(Row* row) = 0;
  // Skips `count` rows, or all that are left. Returns how many it has skipped. By default it reads
  // them.
  virtual absl::StatusOr<int64_t> Skip(int64_t count);
};

// Opens a source for the pass `epoch`.
using OpenSource = std::function<absl::StatusOr<std::unique_ptr<RowSource>>(int64_t epoch)>;

// Whether Filter() keeps a row.
using RowPredicate = std::function<absl::StatusOr<bool>(const Row&)>;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_ROW_H_
