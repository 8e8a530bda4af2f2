// SPDX-License-Identifier: Apache-2.0
#include "train/formats/npy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/file_kind.h"
#include "framework/core/status.h"
#include "train/formats/npy_header.h"

namespace mirrorflow {
namespace {

void SwapBytes(Tensor& tensor, size_t unit) {
  for (std::byte* at = tensor.raw(); at != tensor.raw() + tensor.bytes(); at += unit) {
    std::reverse(at, at + unit);
  }
}

// Converts `columns` from column-major order (the first dimension is contiguous) to row-major
// order.
absl::StatusOr<Tensor> ToRowMajor(const Tensor& columns) {
  MF_ASSIGN_OR_RETURN(Tensor rows, Tensor::Allocate(columns.dtype(), columns.shape()));
  const size_t size = DataTypeSize(columns.dtype());
  const int rank = columns.shape().rank();
  std::vector<int64_t> stride(rank, 1), index(rank, 0);
  for (int d = 1; d < rank; ++d) stride[d] = stride[d - 1] * columns.shape().dim(d - 1);
  int64_t from = 0;
  for (int64_t to = 0; to < rows.num_elements(); ++to) {
    std::memcpy(rows.raw() + to * size, columns.raw() + from * size, size);
    for (int d = rank - 1; d >= 0; --d) {
      from += stride[d];
      if (++index[d] < columns.shape().dim(d)) break;
      from -= index[d] * stride[d];
      index[d] = 0;
    }
  }
  return rows;
}

// Returns DataLoss for a byte other than 0 or 1, which is undefined behaviour in a C++ bool.
absl::Status CheckBools(const Tensor& tensor) {
  if (tensor.dtype() != DT_BOOL) return absl::OkStatus();
  const std::byte* const end = tensor.raw() + tensor.bytes();
  const std::byte* const bad = std::find_if(static_cast<const std::byte*>(tensor.raw()), end,
                                            [](std::byte b) { return b > std::byte{1}; });
  if (bad == end) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("element ", bad - tensor.raw(),
                                          " is not a valid bool; expected 0 or 1, got ",
                                          std::to_integer<int>(*bad)));
}

// Opens a file and calls `read`. Errors begin with the path. If the file is of another kind, they
// name the kind.
absl::StatusOr<Tensor> Explained(
    absl::string_view path, absl::FunctionRef<absl::StatusOr<Tensor>(const InputFile& file)> read) {
  static constexpr FileKind kKinds[] = {FileKind::kNpy};
  const FileReader reader = {"an npy file", FileReader::Use::kData, kKinds};
  MF_ASSIGN_OR_RETURN(const InputFile file, ExplainFile(InputFile::Open(path), path, reader));
  return ExplainFile(Annotate(read(file), path), path, reader);
}

}  // namespace

absl::StatusOr<Tensor> ReadNpyStream(uint64_t size,
                                     absl::FunctionRef<absl::Status(size_t size, void* out)> read) {
  MF_ASSIGN_OR_RETURN(const NpyArray array, ReadNpyHeader(size, read));
  MF_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(array.element->dtype, array.shape));
  MF_RETURN_IF_ERROR(read(array.bytes(), tensor.raw()));
  if (array.swapped) SwapBytes(tensor, array.element->swapped_bytes);
  MF_RETURN_IF_ERROR(CheckBools(tensor));
  if (array.column_major) return ToRowMajor(tensor);
  return tensor;
}

absl::StatusOr<Tensor> MapNpyPart(const InputFile& file, uint64_t offset, uint64_t size,
                                  std::shared_ptr<const MappedFile>* mapping) {
  uint64_t position = offset;
  MF_ASSIGN_OR_RETURN(const NpyArray array, ReadNpyHeader(size, [&](size_t bytes, void* out) {
                        const uint64_t begin = position;
                        position += bytes;
                        return file.Read(begin, bytes, out);
                      }));
  const uint64_t begin = offset + array.begin;
  if (array.swapped || array.column_major || begin % array.element->swapped_bytes != 0) {
    return Tensor();
  }
  if (*mapping == nullptr) {
    MF_ASSIGN_OR_RETURN(*mapping, MappedFile::Map(file));
  }
  const Tensor tensor =
      Tensor::View(array.element->dtype, array.shape, (*mapping)->data() + begin, *mapping);
  MF_RETURN_IF_ERROR(CheckBools(tensor));
  return tensor;
}

absl::StatusOr<Tensor> ReadNpy(absl::string_view path) {
  return Explained(path, [](const InputFile& file) {
    uint64_t offset = 0;
    return ReadNpyStream(file.size(), [&](size_t size, void* out) {
      const uint64_t begin = offset;
      offset += size;
      return file.Read(begin, size, out);
    });
  });
}

absl::StatusOr<Tensor> MapNpy(absl::string_view path) {
  MF_ASSIGN_OR_RETURN(Tensor tensor, Explained(path, [](const InputFile& file) {
                        std::shared_ptr<const MappedFile> mapping;
                        return MapNpyPart(file, 0, file.size(), &mapping);
                      }));
  if (!tensor.has_value()) return ReadNpy(path);
  return tensor;
}

absl::Status WriteNpy(absl::string_view path, const Tensor& tensor) {
  MF_ASSIGN_OR_RETURN(const std::string header, Annotate(NpyHeader(tensor), path));
  return WriteFileAtomically(
      path,
      {header, absl::string_view(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes())});
}

}  // namespace mirrorflow
