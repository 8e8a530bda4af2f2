// SPDX-License-Identifier: Apache-2.0
#include "train/data/row_readers.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

Shape RowShape(const Tensor& component) { return Shape(component.shape().dims().subspan(1)); }

class Values final : public RowReader {
 public:
  absl::Status Read(const RowRef& ref, Row* row) const override {
    *row = *ref.value;
    return absl::OkStatus();
  }
};

class Function final : public RowReader {
 public:
  explicit Function(std::function<absl::Status(int64_t, Row*)> read) : read_(std::move(read)) {}

  absl::Status Read(const RowRef& ref, Row* row) const override {
    row->clear();
    return Annotate(read_(ref.id.row, row), absl::StrCat("row ", ref.id.row));
  }

 private:
  const std::function<absl::Status(int64_t, Row*)> read_;
};

class Mapped final : public RowReader {
 public:
  Mapped(RowReaderPtr input, RowFunction function)
      : input_(std::move(input)), function_(std::move(function)) {}

  absl::Status Read(const RowRef& ref, Row* row) const override {
    MF_RETURN_IF_ERROR(input_->Read(ref, row));
    return Annotate(function_(ref.id, row), absl::StrCat("Map() of row ", ref.id.row));
  }

 private:
  const RowReaderPtr input_;
  const RowFunction function_;
};

class Zipped final : public RowReader {
 public:
  explicit Zipped(std::vector<RowReaderPtr> inputs) : inputs_(std::move(inputs)) {}

  absl::Status Read(const RowRef& ref, Row* row) const override {
    row->clear();
    Row part;
    for (const RowReaderPtr& input : inputs_) {
      MF_RETURN_IF_ERROR(input->Read(ref, &part));
      std::move(part.begin(), part.end(), std::back_inserter(*row));
    }
    return absl::OkStatus();
  }
  int64_t row_bytes() const override {
    int64_t bytes = 0;
    for (const RowReaderPtr& input : inputs_) bytes += input->row_bytes();
    return bytes;
  }

 private:
  const std::vector<RowReaderPtr> inputs_;
};

class Concatenated final : public RowReader {
 public:
  explicit Concatenated(std::vector<CountedReader> inputs) : inputs_(std::move(inputs)) {}

  absl::Status Read(const RowRef& ref, Row* row) const override {
    RowRef own = ref;
    size_t i = 0;
    for (; own.id.row >= inputs_[i].rows; ++i) own.id.row -= inputs_[i].rows;
    return inputs_[i].reader->Read(own, row);
  }

 private:
  const std::vector<CountedReader> inputs_;
};

class Windowed final : public RowReader {
 public:
  Windowed(RowReaderPtr input, const WindowRange& range)
      : input_(std::move(input)), range_(range) {}

  absl::Status Read(const RowRef& ref, Row* row) const override {
    std::vector<Row> rows(range_.size);
    for (int64_t i = 0; i < range_.size; ++i) {
      RowRef part = ref;
      part.id.row = ref.id.row * range_.shift + i * range_.stride;
      MF_RETURN_IF_ERROR(input_->Read(part, &rows[i]));
    }
    MF_ASSIGN_OR_RETURN(*row, StackRows(rows));
    return absl::OkStatus();
  }
  int64_t row_bytes() const override { return range_.size * input_->row_bytes(); }

 private:
  const RowReaderPtr input_;
  const WindowRange range_;
};

}  // namespace

absl::StatusOr<int64_t> RowSource::Skip(int64_t count) {
  int64_t skipped = 0;
  for (Row row; skipped < count; ++skipped) {
    MF_ASSIGN_OR_RETURN(const bool more, Next(&row));
    if (!more) break;
  }
  return skipped;
}

absl::Status TensorRows::Read(const RowRef& ref, Row* row) const {
  row->clear();
  for (const Tensor& component : components_) {
    row->push_back(component.Rows(ref.id.row, ref.id.row + 1).Reshaped(RowShape(component)));
  }
  return absl::OkStatus();
}

int64_t TensorRows::row_bytes() const {
  int64_t bytes = 0;
  for (const Tensor& component : components_) {
    bytes +=
        RowShape(component).num_elements() * static_cast<int64_t>(DataTypeSize(component.dtype()));
  }
  return bytes;
}

RowReaderPtr ValueRows() {
  static const auto* const values = new RowReaderPtr(std::make_shared<Values>());
  return *values;
}

RowReaderPtr FunctionRows(std::function<absl::Status(int64_t row, Row*)> read) {
  return std::make_shared<Function>(std::move(read));
}

RowReaderPtr MappedRows(RowReaderPtr input, RowFunction function) {
  return std::make_shared<Mapped>(std::move(input), std::move(function));
}

RowReaderPtr ZippedRows(std::vector<RowReaderPtr> inputs) {
  return std::make_shared<Zipped>(std::move(inputs));
}

RowReaderPtr ConcatenatedRows(std::vector<CountedReader> inputs) {
  return std::make_shared<Concatenated>(std::move(inputs));
}

RowReaderPtr WindowedRows(RowReaderPtr input, const WindowRange& range) {
  return std::make_shared<Windowed>(std::move(input), range);
}

absl::StatusOr<Row> StackRows(absl::Span<const Row> rows) {
  Row stacked;
  const size_t num_components = rows.empty() ? 0 : rows[0].size();
  for (size_t c = 0; c < num_components; ++c) {
    const Tensor& first = rows[0][c];
    std::vector<int64_t> dims = {std::ssize(rows)};
    for (const int64_t dim : first.shape().dims()) dims.push_back(dim);
    MF_ASSIGN_OR_RETURN(Tensor all,
                        Annotate(Tensor::Allocate(first.dtype(), Shape(dims)),
                                 absl::StrCat("component ", c, ": ", rows.size(), " rows of ",
                                              first.TypeString(), " in a window")));
    std::byte* to = all.raw();
    for (size_t i = 0; i < rows.size(); ++i, to += first.bytes()) {
      if (rows[i].size() != num_components || rows[i][c].dtype() != first.dtype() ||
          rows[i][c].shape() != first.shape()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "component ", c, " of row ", i, " of a window: expected ", first.TypeString(), ", got ",
            rows[i].size() != num_components ? absl::StrCat(rows[i].size(), " components")
                                             : rows[i][c].TypeString()));
      }
      if (first.bytes() > 0) std::memcpy(to, rows[i][c].raw(), first.bytes());
    }
    stacked.push_back(std::move(all));
  }
  return stacked;
}

}  // namespace mirrorflow
