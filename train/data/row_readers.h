// SPDX-License-Identifier: Apache-2.0
//
// RowReaders that read rows from tensors, call a function, or combine other readers.
#ifndef MIRRORFLOW_TRAIN_DATA_ROW_READERS_H_
#define MIRRORFLOW_TRAIN_DATA_ROW_READERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "train/data/row.h"

namespace mirrorflow {

// Reads the rows of tensors along their leading dimension, which must be equal in all tensors.
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
// Reads row i by calling `read`, which several threads can call concurrently.
RowReaderPtr FunctionRows(std::function<absl::Status(int64_t row, Row*)> read);
// Applies `function` to each row of `input`.
RowReaderPtr MappedRows(RowReaderPtr input, RowFunction function);
// Reads row i as the concatenated components of row i of each input.
RowReaderPtr ZippedRows(std::vector<RowReaderPtr> inputs);

struct CountedReader {
  RowReaderPtr reader;
  int64_t rows = 0;
};
// Reads the rows of all inputs, one input after another.
RowReaderPtr ConcatenatedRows(std::vector<CountedReader> inputs);

// A window has `size` rows, `stride` apart. The next window starts `shift` rows later.
struct WindowRange {
  int64_t size = 0;
  int64_t shift = 1;
  int64_t stride = 1;

  // Returns how many consecutive input rows a window spans, from its first row to its last.
  int64_t span() const { return (size - 1) * stride + 1; }
};
// Reads row i as the rows of window i of `input`, stacked along a new leading dimension.
RowReaderPtr WindowedRows(RowReaderPtr input, const WindowRange& range);

// Stacks rows along a new leading dimension. They must have equal dtypes and shapes.
absl::StatusOr<Row> StackRows(absl::Span<const Row> rows);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_ROW_READERS_H_
