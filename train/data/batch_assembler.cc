// SPDX-License-Identifier: Apache-2.0
#include "train/data/batch_assembler.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "train/data/parallel_rows.h"

namespace mirrorflow {
namespace {

// The checksum of a batch covers at most this much of it. Without the limit, every worker of a
// large cluster would read the whole batch. All rows are assumed to be as large as the first row.
constexpr int64_t kRowsOfChecksum = 128;
constexpr int64_t kBytesOfChecksum = int64_t{64} << 20;
// The checksum of the last batch is omitted if more than this many rows precede it: skipping is
// slow, especially across many passes of Repeat().
constexpr int64_t kMaxRowsToSkip = int64_t{1} << 24;

// Copies rows of `from` to `to`, consecutive rows with a single copy.
void Gather(const Tensor& from, size_t row_bytes, absl::Span<const RowRef> rows, std::byte* to) {
  for (size_t i = 0; i < rows.size();) {
    const int64_t first = rows[i].id.row;
    size_t run = 1;
    while (i + run < rows.size() && rows[i + run].id.row == first + static_cast<int64_t>(run)) {
      ++run;
    }
    std::memcpy(to, from.raw() + first * row_bytes, run * row_bytes);
    to += run * row_bytes;
    i += run;
  }
}

// Copies `from` into the corner of `to` at index 0 of every dimension. `to` is an array of shape
// `shape`, which is at least as large.
void CopyInto(const Tensor& from, const Shape& shape, std::byte* to) {
  const size_t size = DataTypeSize(from.dtype());
  const int rank = shape.rank();
  if (from.num_elements() == 0) return;
  if (rank == 0 || from.shape() == shape) {
    std::memcpy(to, from.raw(), from.bytes());
    return;
  }
  const size_t run = from.shape().dim(rank - 1) * size;  // contiguous in both arrays
  std::vector<int64_t> at(rank - 1, 0);
  for (const std::byte* in = from.raw(); in < from.raw() + from.bytes(); in += run) {
    size_t offset = 0;
    for (int d = 0; d < rank - 1; ++d) offset = offset * shape.dim(d) + at[d];
    std::memcpy(to + offset * shape.dim(rank - 1) * size, in, run);
    for (int d = rank - 2; d >= 0 && ++at[d] == from.shape().dim(d); --d) at[d] = 0;
  }
}

class BatchAssembler final : public BatchSource {
 public:
  BatchAssembler(RowReaderPtr reader, std::unique_ptr<RowStream> order, const BatchShard& shard,
                 const AssembleOptions& options)
      : reader_(std::move(reader)),
        order_(std::move(order)),
        shard_(shard),
        padding_(options.padding),
        fingerprint_(options.fingerprint),
        threads_(reader_->tensors() != nullptr ? 1 : options.num_threads) {}

  absl::StatusOr<bool> Next(SourceBatch* batch) override {
    batch->components.clear();  // releases the buffers for reuse
    refs_.clear();
    MF_ASSIGN_OR_RETURN(const bool more, order_->Next(&refs_));
    if (!more) return false;
    if (fingerprint_) {
      MF_RETURN_IF_ERROR(FinishFingerprint(*fingerprint_));
      fingerprint_.reset();
    }
    batch->global_rows = static_cast<int64_t>(refs_.size());
    first_ = FirstRowOf(shard_.first_rank, batch->global_rows, shard_.world_size);
    count_ =
        FirstRowOf(shard_.first_rank + shard_.num_ranks, batch->global_rows, shard_.world_size) -
        first_;
    MF_RETURN_IF_ERROR(reader_->tensors() != nullptr ? CopyTensors(batch) : ReadRows(batch));
    return true;
  }

 private:
  absl::Span<const RowRef> own() const {
    return absl::MakeConstSpan(refs_).subspan(first_, count_);
  }

  // Requires that refs_ holds the rows of the first batch, and that order_ is at the second batch.
  // Leaves both in the same state.
  absl::Status FinishFingerprint(const FingerprintTask& task) {
    MF_RETURN_IF_ERROR(Describe(refs_, &task.fingerprint->first_batch, &task.fingerprint->types));
    // Rows without a value have not been read yet, so they can be skipped without reading.
    const bool random_access = refs_[0].value == nullptr;
    if (!random_access || task.size.value_or(0) < 2) return absl::OkStatus();
    if (*task.size > kMaxRowsToSkip / std::ssize(refs_)) return absl::OkStatus();
    std::vector<RowRef> last;
    MF_RETURN_IF_ERROR(order_->Skip(*task.size - 2).status());
    MF_ASSIGN_OR_RETURN(const bool more, order_->Next(&last));
    std::string types;
    if (more) MF_RETURN_IF_ERROR(Describe(last, &task.fingerprint->last_batch, &types));
    MF_RETURN_IF_ERROR(order_->Start(task.epoch));
    return order_->Skip(1).status();
  }

  // Sets `types` to the types of the batch's first row, and `checksum` to the batch's checksum.
  absl::Status Describe(const std::vector<RowRef>& batch, std::string* checksum,
                        std::string* types) {
    std::vector<Row> rows(threads_.num_threads());
    MF_RETURN_IF_ERROR(reader_->Read(batch[0], &rows[0]));
    *types = TypesOf(rows[0]);
    TensorChecksum of_rows;
    of_rows.Add(rows[0]);
    int64_t row_bytes = 1;
    for (const Tensor& t : rows[0]) row_bytes += static_cast<int64_t>(t.bytes());
    // All workers with the same rows compute the same count.
    const auto size = std::ssize(batch);
    const int64_t most = std::clamp<int64_t>(kBytesOfChecksum / row_bytes, 1, kRowsOfChecksum);
    const int64_t count = std::min<int64_t>(size, most);
    for (int64_t begin = 1; begin < count; begin += std::ssize(rows)) {
      const int64_t some = std::min<int64_t>(std::ssize(rows), count - begin);
      MF_RETURN_IF_ERROR(threads_.Run(some, [&](int64_t i) {
        return reader_->Read(batch[(begin + i) * size / count], &rows[i]);
      }));
      for (int64_t i = 0; i < some; ++i) of_rows.Add(rows[i]);
    }
    *checksum = absl::StrCat(size, size == 1 ? " row" : " rows", " with ", of_rows.ToString());
    return absl::OkStatus();
  }

  absl::Status CopyTensors(SourceBatch* batch) {
    for (const Tensor& component : *reader_->tensors()) {
      const Shape shape(component.shape().dims().subspan(1));
      MF_ASSIGN_OR_RETURN(std::byte* const to, AddComponent(component.dtype(), shape, batch));
      const size_t row_bytes = shape.num_elements() * DataTypeSize(component.dtype());
      if (row_bytes > 0) Gather(component, row_bytes, own(), to);
    }
    return absl::OkStatus();
  }

  absl::Status ReadRows(SourceBatch* batch) {
    // The first row determines the shapes. If a padded shape depends on the longest row, every
    // worker reads all rows, so that all workers use the same shapes.
    const bool all = padding_ && !padding_->has_fixed_shapes();
    const int64_t first = all || count_ == 0 ? 0 : first_;
    const int64_t count = all ? std::ssize(refs_) : std::max<int64_t>(count_, 1);
    rows_.resize(count);
    const auto read = [&](int64_t i) { return reader_->Read(refs_[first + i], &rows_[i]); };
    if (!padding_) {
      MF_RETURN_IF_ERROR(read(0));
      std::vector<Shape> shapes;
      for (const Tensor& t : rows_[0]) shapes.push_back(t.shape());
      MF_RETURN_IF_ERROR(AddComponents(shapes, batch));
      return threads_.Run(count_, [&](int64_t i) {
        if (i > 0) MF_RETURN_IF_ERROR(read(i));
        MF_RETURN_IF_ERROR(CheckLikeFirst(i, shapes));
        Place(i, i, shapes);
        return absl::OkStatus();
      });
    }
    MF_RETURN_IF_ERROR(threads_.Run(count, read));
    MF_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, PaddedShapes());
    MF_RETURN_IF_ERROR(AddComponents(shapes, batch));
    for (size_t c = 0; c < shapes.size(); ++c) FillWithPadding(c, shapes[c]);
    const int64_t skip = all ? first_ : 0;
    return threads_.Run(count_, [&](int64_t i) {
      Place(skip + i, i, shapes);
      return absl::OkStatus();
    });
  }

  // Adds a component with `count_` rows of this shape, and returns its buffer.
  absl::StatusOr<std::byte*> AddComponent(DataType dtype, const Shape& row, SourceBatch* batch) {
    const size_t c = batch->components.size();
    if (pools_.size() <= c) pools_.resize(c + 1);
    Shape::Dims dims = {count_};
    for (const int64_t dim : row.dims()) dims.push_back(dim);
    const Shape shape{absl::MakeConstSpan(dims)};
    MF_RETURN_IF_ERROR(
        Annotate(shape.Validate(dtype), absl::StrCat("dataset: component ", c, ": ", count_,
                                                     " rows of ", row.ToString(), " in a batch")));
    MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer,
                        pools_[c].Take(shape.num_elements() * DataTypeSize(dtype)));
    std::byte* const data = buffer->data();
    batch->components.push_back(Tensor::View(dtype, shape, data, std::move(buffer)));
    return data;
  }

  // Adds one component for each component of rows_[0], and stores their buffers in buffers_.
  absl::Status AddComponents(absl::Span<const Shape> shapes, SourceBatch* batch) {
    buffers_.clear();
    for (size_t c = 0; c < shapes.size(); ++c) {
      MF_ASSIGN_OR_RETURN(std::byte* const data,
                          AddComponent(rows_[0][c].dtype(), shapes[c], batch));
      buffers_.push_back(data);
    }
    return absl::OkStatus();
  }

  // Copies rows_[from] to row `to` of the batch, and releases rows_[from].
  void Place(int64_t from, int64_t to, absl::Span<const Shape> shapes) {
    for (size_t c = 0; c < shapes.size(); ++c) {
      const Tensor& t = rows_[from][c];
      CopyInto(t, shapes[c], buffers_[c] + to * shapes[c].num_elements() * DataTypeSize(t.dtype()));
    }
    if (from > 0) rows_[from].clear();  // keep the first row for its dtypes
  }

  absl::Status CheckLikeFirst(int64_t i, absl::Span<const Shape> shapes) const {
    const Row& row = rows_[i];
    MF_RETURN_IF_ERROR(CheckComponents(i));
    for (size_t c = 0; c < shapes.size(); ++c) {
      if (row[c].shape() == shapes[c]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("dataset: row ", refs_[first_ + i].id.row, ", component ", c, ": expected ",
                       rows_[0][c].TypeString(), " as in the first row of its batch, got ",
                       row[c].TypeString(), "; use PaddedBatch() for rows of different shapes"));
    }
    return absl::OkStatus();
  }

  // Checks the number and the dtypes of the components of rows_[i].
  absl::Status CheckComponents(int64_t i) const {
    const Row& row = rows_[i];
    if (row.size() != rows_[0].size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("dataset: wrong number of components in a row; expected ", rows_[0].size(),
                       " components as in the first row of its batch, got ", row.size()));
    }
    for (size_t c = 0; c < row.size(); ++c) {
      if (row[c].dtype() == rows_[0][c].dtype()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("dataset: component ", c, " of a row has the wrong dtype; expected ",
                       rows_[0][c].TypeString(), " as in the first row of its batch, got ",
                       row[c].TypeString()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Shape>> PaddedShapes() const {
    const size_t components = rows_[0].size();
    const std::vector<Shape>& wanted = padding_->padded_shapes;
    if (!wanted.empty() && wanted.size() != components) {
      return absl::InvalidArgumentError(absl::StrCat("PaddedBatch(): expected ", components,
                                                     " padded shapes, one per component, got ",
                                                     wanted.size()));
    }
    std::vector<Shape> shapes;
    for (size_t c = 0; c < components; ++c) {
      shapes.push_back(wanted.empty() ? Shape::UnknownDims(rows_[0][c].shape().rank()) : wanted[c]);
    }
    std::vector<Shape> padded = shapes;
    for (int64_t i = 0; i < std::ssize(rows_); ++i) {
      MF_RETURN_IF_ERROR(CheckComponents(i));
      for (size_t c = 0; c < components; ++c) {
        const Shape& got = rows_[i][c].shape();
        bool fits = got.rank() == shapes[c].rank();
        for (int d = 0; fits && d < got.rank(); ++d) {
          const bool free = shapes[c].dim(d) == kUnknownDim;
          if (free) padded[c].set_dim(d, std::max(padded[c].dim(d), got.dim(d)));
          fits = free || got.dim(d) <= shapes[c].dim(d);
        }
        if (fits) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            "PaddedBatch(): component ", c, " of a row does not fit; expected at most ",
            shapes[c].ToString(), ", got ", got.ToString()));
      }
    }
    return padded;
  }

  void FillWithPadding(size_t c, const Shape& shape) {
    const size_t size = DataTypeSize(rows_[0][c].dtype());
    const size_t bytes = count_ * shape.num_elements() * size;
    const auto& values = padding_->padding_values;
    if (c >= values.size() || !values[c].has_value()) {
      std::memset(buffers_[c], 0, bytes);
      return;
    }
    for (size_t at = 0; at < bytes; at += size) {
      std::memcpy(buffers_[c] + at, values[c].raw(), size);
    }
  }

  const RowReaderPtr reader_;
  const std::unique_ptr<RowStream> order_;
  const BatchShard shard_;
  const std::optional<Padding> padding_;
  std::optional<FingerprintTask> fingerprint_;  // empty once complete
  ParallelRows threads_;
  std::vector<BufferPool> pools_;  // one per component
  // The current batch:
  std::vector<RowRef> refs_;  // rows of all workers
  int64_t first_ = 0;         // the shard is refs_[first_, first_ + count_)
  int64_t count_ = 0;
  std::vector<Row> rows_;  // the rows read so far
  std::vector<std::byte*> buffers_;
};

}  // namespace

std::unique_ptr<BatchSource> AssembleBatches(RowReaderPtr reader, std::unique_ptr<RowStream> order,
                                             const BatchShard& shard,
                                             const AssembleOptions& options) {
  return std::make_unique<BatchAssembler>(std::move(reader), std::move(order), shard, options);
}

}  // namespace mirrorflow
