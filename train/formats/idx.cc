// SPDX-License-Identifier: Apache-2.0
#include "train/formats/idx.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/file_kind.h"
#include "framework/core/status.h"
#include "train/formats/gzip_reader.h"

namespace mirrorflow {
namespace {

struct ElementType {
  unsigned char code;
  DataType dtype;
};
constexpr ElementType kElementTypes[] = {
    {0x08, DT_UINT8}, {0x09, DT_INT8},  {0x0B, DT_INT16},
    {0x0C, DT_INT32}, {0x0D, DT_FLOAT}, {0x0E, DT_DOUBLE},
};

template <typename... Parts>
absl::Status Bad(const GzipReader& file, const Parts&... what) {
  return absl::DataLossError(absl::StrCat(file.path(), ": ", what...));
}

absl::Status ReadExactly(GzipReader& file, size_t size, void* out, absl::string_view what) {
  MF_ASSIGN_OR_RETURN(const size_t got, file.Read(size, out));
  if (got == size) return absl::OkStatus();
  return Bad(file, what, " is cut short; expected ", size, " bytes, got ", got);
}

struct Header {
  DataType dtype;
  Shape shape;
};

absl::StatusOr<Header> ReadHeader(GzipReader& file) {
  unsigned char magic[4];
  MF_RETURN_IF_ERROR(ReadExactly(file, sizeof(magic), magic, "the IDX magic"));
  if (magic[0] != 0 || magic[1] != 0) {
    return Bad(file, absl::StrFormat("not an IDX file; expected it to begin with 00 00, got %02x "
                                     "%02x",
                                     magic[0], magic[1]));
  }
  Header header{DT_INVALID, Shape()};
  for (const ElementType& type : kElementTypes) {
    if (type.code == magic[2]) header.dtype = type.dtype;
  }
  if (header.dtype == DT_INVALID) {
    return Bad(file, absl::StrFormat("unknown IDX element type; expected 08, 09, 0b, 0c, 0d or "
                                     "0e, got %02x",
                                     magic[2]));
  }
  if (magic[3] > kMaxRank) {
    return Bad(file, "too many dimensions; expected at most ", kMaxRank, ", got ", magic[3]);
  }
  unsigned char dims[4 * kMaxRank];
  MF_RETURN_IF_ERROR(ReadExactly(file, 4 * magic[3], dims, "the list of IDX dimensions"));
  for (int i = 0; i < magic[3]; ++i) {
    const unsigned char* d = dims + 4 * i;
    header.shape.AddDim(int64_t{d[0]} << 24 | d[1] << 16 | d[2] << 8 | d[3]);
  }
  const absl::Status valid = header.shape.Validate(header.dtype);
  if (!valid.ok()) return Bad(file, "bad IDX dimensions: ", valid.message());
  return header;
}

absl::StatusOr<Tensor> Read(absl::string_view path) {
  MF_ASSIGN_OR_RETURN(std::unique_ptr<GzipReader> file, GzipReader::Open(path));
  MF_ASSIGN_OR_RETURN(const Header header, ReadHeader(*file));
  const size_t element_bytes = DataTypeSize(header.dtype);
  const uint64_t bytes = header.shape.num_elements() * element_bytes;
  const std::string contents = absl::StrCat(DataTypeName(header.dtype), header.shape.ToString());
  if (bytes > file->max_bytes()) {
    return Bad(*file, contents, " is cut short; expected ", bytes,
               " bytes, got a file that holds at most ", file->max_bytes());
  }
  MF_ASSIGN_OR_RETURN(Tensor tensor, Annotate(Tensor::Allocate(header.dtype, header.shape), path));
  MF_RETURN_IF_ERROR(ReadExactly(*file, bytes, tensor.raw(), contents));
  // Reading beyond the data also makes zlib verify the checksum at the end of the stream.
  std::byte beyond;
  MF_ASSIGN_OR_RETURN(const size_t more, file->Read(1, &beyond));
  if (more > 0) {
    return Bad(*file, "bytes after the data; expected the file to end after ", contents, " of ",
               bytes, " bytes");
  }
  for (std::byte* p = tensor.raw(); element_bytes > 1 && p != tensor.raw() + bytes;
       p += element_bytes) {
    std::reverse(p, p + element_bytes);
  }
  return tensor;
}

}  // namespace

absl::StatusOr<Tensor> ReadIdx(absl::string_view path) {
  static constexpr FileKind kKinds[] = {FileKind::kIdx, FileKind::kGzip};
  return ExplainFile(Read(path), path, {"an IDX file", FileReader::Use::kData, kKinds});
}

}  // namespace mirrorflow
