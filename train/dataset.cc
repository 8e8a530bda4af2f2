// SPDX-License-Identifier: Apache-2.0
#include "train/dataset.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "train/prefetch.h"

namespace mirrorflow {
namespace {

// Copies rows of `from` to `to`; a run of consecutive rows is one copy.
void Gather(const Tensor& from, size_t row_bytes, absl::Span<const int64_t> rows, std::byte* to) {
  for (size_t i = 0; i < rows.size();) {
    size_t run = 1;
    while (i + run < rows.size() && rows[i + run] == rows[i] + static_cast<int64_t>(run)) ++run;
    std::memcpy(to, from.raw() + rows[i] * row_bytes, run * row_bytes);
    to += run * row_bytes;
    i += run;
  }
}

class GatheringSource final : public BatchSource {
 public:
  GatheringSource(std::shared_ptr<const std::vector<Tensor>> components,
                  std::unique_ptr<RowStream> order, const BatchShare& share)
      : components_(std::move(components)),
        order_(std::move(order)),
        share_(share),
        pools_(components_->size()) {}

  absl::StatusOr<bool> Next(SourceBatch* batch) override {
    batch->components.clear();  // first, so that its buffers can be reused
    rows_.clear();
    if (!order_->Next(&rows_)) return false;
    batch->global_rows = static_cast<int64_t>(rows_.size());
    const auto first_of = [&](int rank) {
      return FirstRowOf(rank, batch->global_rows, share_.world_size);
    };
    const int64_t first = first_of(share_.first_rank);
    const int64_t end = first_of(share_.first_rank + share_.num_ranks);
    const absl::Span<const int64_t> own = absl::MakeConstSpan(rows_).subspan(first, end - first);
    for (size_t i = 0; i < components_->size(); ++i) {
      const Tensor& component = (*components_)[i];
      Shape shape = component.shape();
      shape.set_dim(0, 1);
      const size_t row_bytes = shape.num_elements() * DataTypeSize(component.dtype());
      shape.set_dim(0, own.size());
      MF_RETURN_IF_ERROR(shape.Validate(component.dtype()));
      MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, pools_[i].Take(own.size() * row_bytes));
      if (row_bytes > 0) Gather(component, row_bytes, own, buffer->data());
      std::byte* data = buffer->data();
      batch->components.push_back(Tensor::View(component.dtype(), shape, data, std::move(buffer)));
    }
    return true;
  }

 private:
  const std::shared_ptr<const std::vector<Tensor>> components_;
  const std::unique_ptr<RowStream> order_;
  const BatchShare share_;
  std::vector<BufferPool> pools_;  // one per component
  std::vector<int64_t> rows_;      // of the whole batch
};

class FailedSource final : public BatchSource {
 public:
  explicit FailedSource(absl::Status status) : status_(std::move(status)) {}
  absl::StatusOr<bool> Next(SourceBatch* batch) override {
    batch->components.clear();
    return status_;
  }

 private:
  const absl::Status status_;
};

absl::Status CheckComponents(const std::vector<Tensor>& components) {
  if (components.empty()) {
    return absl::InvalidArgumentError(
        "dataset: no components; expected at least one tensor, got none");
  }
  for (size_t i = 0; i < components.size(); ++i) {
    const Tensor& t = components[i];
    if (!t.has_value() || t.shape().rank() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dataset: component ", i, " has no rows; expected a tensor of rank 1 or more, got ",
          t.has_value() ? absl::StrCat("a scalar ", DataTypeName(t.dtype())) : "no value"));
    }
    if (t.shape().dim(0) != components[0].shape().dim(0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dataset: components differ in number of rows; expected ", components[0].shape().dim(0),
          " as in component 0 ", components[0].shape().ToString(), ", got ", t.shape().dim(0),
          " in component ", i, " ", t.shape().ToString()));
    }
  }
  return absl::OkStatus();
}

int64_t MemoryOfThisMachine() { return sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE); }

// The largest number of rows of a batch that fits in memory. A row needs its bytes in each
// component and its row number.
int64_t MostRows(const std::vector<Tensor>& components) {
  int64_t row_bytes = sizeof(int64_t);
  for (const Tensor& component : components) {
    Shape row = component.shape();
    row.set_dim(0, 1);
    row_bytes += row.num_elements() * static_cast<int64_t>(DataTypeSize(component.dtype()));
  }
  return MemoryOfThisMachine() / row_bytes;
}

}  // namespace

Dataset Dataset::FromTensors(std::vector<Tensor> components) {
  Dataset d;
  d.status_ = CheckComponents(components);
  if (d.status_.ok()) d.size_ = components[0].shape().dim(0);
  d.components_ = std::make_shared<const std::vector<Tensor>>(std::move(components));
  return d;
}

Dataset Dataset::Shuffle(uint64_t seed) const {
  if (!size_) {
    return WithError("Shuffle() of an endless dataset; expected a dataset that ends, got Repeat()");
  }
  // Each element needs a row number, a begin offset and a position in the order, which may not fit
  // in memory after a huge Repeat().
  constexpr int64_t kBytesOfElement = 3 * sizeof(int64_t);
  if (const int64_t most = MemoryOfThisMachine() / kBytesOfElement; *size_ > most) {
    return WithError(
        absl::StrCat("Shuffle() of more elements than fit in memory; expected at most ", most,
                     " elements, got ", *size_));
  }
  return With(
      [seed](std::unique_ptr<RowStream> input) { return ShuffleRows(std::move(input), seed); },
      size_);
}

Dataset Dataset::Batch(int64_t rows, BatchOptions options) const {
  if (rows <= 0) {
    return WithError(absl::StrCat("Batch() size out of range; expected at least 1, got ", rows));
  }
  if (batched_) return WithError("Batch() after Batch(); expected rows, got batches");
  // A batch is never larger than the dataset, but a preceding Repeat() can make that any size.
  const int64_t largest = size_ ? std::min(*size_, rows) : rows;
  const int64_t most = status_.ok() ? MostRows(*components_) : 0;
  if (status_.ok() && largest > most) {
    return WithError(absl::StrCat("Batch() of more rows than fit in memory; expected at most ",
                                  most, " rows, got ", largest));
  }
  std::optional<int64_t> size = size_;
  if (size) size = *size / rows + (!options.drop_remainder && *size % rows != 0 ? 1 : 0);
  Dataset d = With(
      [rows, options](std::unique_ptr<RowStream> input) {
        return BatchRows(std::move(input), rows, options.drop_remainder);
      },
      size);
  d.batched_ = true;
  return d;
}

Dataset Dataset::Repeat(int64_t count) const {
  if (count < 0 && count != kForever) {
    return WithError(absl::StrCat("Repeat() count out of range; expected 0 or more, got ", count));
  }
  std::optional<int64_t> size = size_;
  if (size_ && *size_ > 0) {
    const absl::StatusOr<int64_t> total = CheckedMultiply(*size_, std::max<int64_t>(count, 0));
    size = total.ok() ? *total : std::numeric_limits<int64_t>::max();
    if (count == kForever) size = std::nullopt;
  } else if (count == 0) {
    size = 0;
  }
  return With(
      [count](std::unique_ptr<RowStream> input) { return RepeatRows(std::move(input), count); },
      size);
}

Dataset Dataset::Take(int64_t count) const {
  if (count < 0) {
    return WithError(absl::StrCat("Take() count out of range; expected 0 or more, got ", count));
  }
  return With(
      [count](std::unique_ptr<RowStream> input) { return TakeRows(std::move(input), count); },
      size_ ? std::min(*size_, count) : count);
}

Dataset Dataset::Skip(int64_t count) const {
  if (count < 0) {
    return WithError(absl::StrCat("Skip() count out of range; expected 0 or more, got ", count));
  }
  std::optional<int64_t> size = size_;
  if (size) size = std::max<int64_t>(*size - count, 0);
  return With(
      [count](std::unique_ptr<RowStream> input) { return SkipRows(std::move(input), count); },
      size);
}

Dataset Dataset::Prefetch(int batches) const {
  constexpr int kMax = 1 << 16;
  if (batches < 0 || batches > kMax) {
    return WithError(
        absl::StrCat("Prefetch() out of range; expected 0 to ", kMax, " batches, got ", batches));
  }
  Dataset d = *this;
  d.prefetch_ = batches;
  return d;
}

std::optional<int64_t> Dataset::size() const { return status_.ok() ? size_ : std::nullopt; }

std::unique_ptr<BatchSource> Dataset::MakeIterator(int64_t epoch, const BatchShare& share) const {
  if (!status_.ok()) return std::make_unique<FailedSource>(status_);
  std::unique_ptr<RowStream> order = AllRows((*components_)[0].shape().dim(0));
  for (const Stage& stage : stages_) order = stage(std::move(order));
  order->Start(epoch);
  std::unique_ptr<BatchSource> source =
      std::make_unique<GatheringSource>(components_, std::move(order), share);
  return prefetch_ > 0 ? mirrorflow::Prefetch(std::move(source), prefetch_) : std::move(source);
}

Dataset Dataset::With(Stage stage, std::optional<int64_t> size) const {
  Dataset d = *this;
  d.stages_.push_back(std::move(stage));
  d.size_ = size;
  return d;
}

Dataset Dataset::WithError(absl::string_view message) const {
  Dataset d = *this;
  if (d.status_.ok()) d.status_ = absl::InvalidArgumentError(absl::StrCat("dataset: ", message));
  return d;
}

}  // namespace mirrorflow
