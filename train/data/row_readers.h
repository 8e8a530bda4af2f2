// SPDX-License-Identifier: Apache-2.0
//
// How the rows of a dataset are read: from tensors, by a function, or by combining other readers.
#ifndef MIRRORFLOW_TRAIN_DATA_ROW_READERS_H_
#define MIRRORFLOW_TRAIN_DATA_ROW_READERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "train/data/row.h"

namespace mirrorflow {

// The rows of tensors along their leading dimension, which must be equal in all of them.
class TensorRows final : public RowReader {
 public:
  explicit TensorRows(std::vector<Tensor> components) : components_(std::move(components)) {}

  absl::Status Read(const RowRef& ref, Row* row) const override;
  int64_t row_bytes() const override;

  const std::vector<Tensor>* tensors() const override { return &components_; }

 private:
  const std::vector<Tensor> components_;
};

using RowReaderPtr = std::shared_ptr<const RowReader>;

// Reads rows whose values a stage has already read (RowRef::value).
RowReaderPtr ValueRows();
// Row i is filled by `read`. Several threads call it concurrently.
RowReaderPtr FunctionRows(std::function<absl::Status(int64_t row, Row*)> read);
// Applies `function` to each row of `input`.
RowReaderPtr MappedRows(RowReaderPtr input, RowFunction function);
// Row i is the concatenation of the components of row i of all inputs.
RowReaderPtr ZippedRows(std::vector<RowReaderPtr> inputs);

struct CountedReader {
  RowReaderPtr reader;
  int64_t rows = 0;
};
// The rows of all inputs, one input after another.
RowReaderPtr ConcatenatedRows(std::vector<CountedReader> inputs);

// The rows of a window: `size` rows, `stride` apart. The next window starts `shift` rows later.
struct WindowRange {
  int64_t size = 0;
  int64_t shift = 1;
  int64_t stride = 1;

  // The number of rows from the first to the last of a window.
  int64_t span() const { return (size - 1) * stride + 1; }
};
// Row i is window i of the rows of `input`, stacked along a new leading dimension.
RowReaderPtr WindowedRows(RowReaderPtr input, const WindowRange& range);

// Stacks rows of equal dtypes and shapes along a new leading dimension.
absl::StatusOr<Row> StackRows(absl::Span<const Row> rows);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_ROW_READERS_H_
