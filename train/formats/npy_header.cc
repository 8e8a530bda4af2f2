// SPDX-License-Identifier: Apache-2.0
#include "train/formats/npy_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied unchanged");

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kVersionEnd = 8;              // magic and version
constexpr uint32_t kMaxHeaderBytes = 1 << 16;  // numpy.load accepts 10,000
constexpr size_t kAlignment = 64;              // alignment of the elements in the file
constexpr size_t kGrowthDigits = 21;           // NumPy reserves this space for the first dimension

constexpr NpyElement kKinds[] = {
    {"b1", DT_BOOL, 1},      {"i1", DT_INT8, 1},       {"u1", DT_UINT8, 1},  {"i2", DT_INT16, 2},
    {"u2", DT_UINT16, 2},    {"i4", DT_INT32, 4},      {"u4", DT_UINT32, 4}, {"i8", DT_INT64, 8},
    {"u8", DT_UINT64, 8},    {"f2", DT_HALF, 2},       {"f4", DT_FLOAT, 4},  {"f8", DT_DOUBLE, 8},
    {"c8", DT_COMPLEX64, 4}, {"c16", DT_COMPLEX128, 8}};

struct Header {
  std::string descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
};

// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`: the subset of Python
// literals that a header can contain.
class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view text) : rest_(text) {}

  absl::StatusOr<Header> Parse() {
    Header header;
    MF_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      MF_ASSIGN_OR_RETURN(const std::string key, String());
      MF_RETURN_IF_ERROR(Expect(':'));
      if (key == "descr" && header.descr.empty()) {
        MF_ASSIGN_OR_RETURN(header.descr, Descr());
      } else if (key == "fortran_order" && !header.fortran_order.has_value()) {
        MF_ASSIGN_OR_RETURN(header.fortran_order, Bool());
      } else if (key == "shape" && !header.shape.has_value()) {
        MF_ASSIGN_OR_RETURN(header.shape, Tuple());
      } else {
        return absl::DataLossError(absl::StrCat(
            "header: unknown or repeated key; expected descr, fortran_order and shape, got '",
            Printable(key), "'"));
      }
      if (Take(',')) continue;
      MF_RETURN_IF_ERROR(Expect('}'));
      break;
    }
    if (!absl::StripAsciiWhitespace(rest_).empty()) return Error("nothing after the dict");
    if (header.descr.empty() || !header.fortran_order.has_value() || !header.shape.has_value()) {
      return absl::DataLossError(
          "header: a key is missing; expected descr, fortran_order and shape");
    }
    return header;
  }

 private:
  absl::Status Error(absl::string_view expected) const {
    return absl::DataLossError(absl::StrCat("header: expected ", expected, ", got '",
                                            Printable(rest_.substr(0, 20)), "'"));
  }

  void SkipSpace() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }

  bool Take(char c) {
    SkipSpace();
    return absl::ConsumePrefix(&rest_, absl::string_view(&c, 1));
  }

  absl::Status Expect(char c) {
    return Take(c) ? absl::OkStatus() : Error(absl::StrCat("'", absl::string_view(&c, 1), "'"));
  }

  absl::StatusOr<std::string> String() {
    const char quote = Take('\'') ? '\'' : '"';
    if (quote == '"' && !Take('"')) return Error("a string");
    const size_t end = rest_.find(quote);
    if (end == absl::string_view::npos) return Error("the end of a string");
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  absl::StatusOr<std::string> Descr() {
    SkipSpace();
    if (rest_.empty() || rest_[0] != '[') return String();
    return absl::UnimplementedError("descr: structured dtypes are unsupported; expected one dtype");
  }

  absl::StatusOr<bool> Bool() {
    SkipSpace();
    if (absl::ConsumePrefix(&rest_, "True")) return true;
    if (absl::ConsumePrefix(&rest_, "False")) return false;
    return Error("True or False");
  }

  absl::StatusOr<Shape> Tuple() {
    Shape shape;
    MF_RETURN_IF_ERROR(Expect('('));
    while (!Take(')')) {
      SkipSpace();
      const size_t digits =
          std::find_if_not(rest_.begin(), rest_.end(), absl::ascii_isdigit) - rest_.begin();
      int64_t dim;
      if (!absl::SimpleAtoi(rest_.substr(0, digits), &dim)) return Error("a dimension");
      rest_.remove_prefix(digits);
      if (shape.rank() == kMaxRank) return Error(absl::StrCat("at most ", kMaxRank, " dimensions"));
      shape.AddDim(dim);
      if (Take(',')) continue;
      MF_RETURN_IF_ERROR(Expect(')'));
      break;
    }
    return shape;
  }

  absl::string_view rest_;
};

absl::StatusOr<const NpyElement*> KindOf(absl::string_view descr) {
  const char order = descr[0];
  const absl::string_view kind = descr.substr(1);
  for (const NpyElement& known : kKinds) {
    const bool fits = known.swapped_bytes == 1 ? order == '|' : order == '<' || order == '>';
    if (known.descr == kind && fits) return &known;
  }
  return absl::UnimplementedError(
      absl::StrCat("descr: unsupported element type; expected bool, an integer, float or "
                   "complex type such as '<f4', got '",
                   Printable(descr), "'"));
}

}  // namespace

absl::StatusOr<NpyArray> ReadNpyHeader(
    uint64_t size, absl::FunctionRef<absl::Status(size_t size, void* out)> read) {
  auto too_short = [&](uint64_t expected) {
    return absl::DataLossError(
        absl::StrCat("the file is too short; expected at least ", expected, " bytes, got ", size));
  };
  char start[kVersionEnd] = {};
  if (size < kVersionEnd) return too_short(kVersionEnd);
  MF_RETURN_IF_ERROR(read(kVersionEnd, start));
  if (absl::string_view(start, kMagic.size()) != kMagic) {
    return absl::DataLossError(
        absl::StrCat("not an npy file; expected it to begin with \\x93NUMPY, got '",
                     Printable(absl::string_view(start, kMagic.size())), "'"));
  }
  const int major = static_cast<unsigned char>(start[6]);
  if (major < 1 || major > 3) {
    return absl::UnimplementedError(
        absl::StrCat("unsupported npy format version; expected 1 to 3, got ", major));
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  uint32_t length = 0;
  if (size < kVersionEnd + length_bytes) return too_short(kVersionEnd + length_bytes);
  MF_RETURN_IF_ERROR(read(length_bytes, &length));
  const uint64_t data_begin = kVersionEnd + length_bytes + length;
  if (length > kMaxHeaderBytes) {
    return absl::DataLossError(absl::StrCat("the header is too long; expected at most ",
                                            kMaxHeaderBytes, " bytes, got ", length));
  }
  if (size < data_begin) return too_short(data_begin);
  std::string text(length, '\0');
  MF_RETURN_IF_ERROR(read(length, text.data()));

  MF_ASSIGN_OR_RETURN(const Header header, HeaderParser(text).Parse());
  MF_ASSIGN_OR_RETURN(const NpyElement* kind, KindOf(header.descr));
  const absl::Status valid = header.shape->Validate(kind->dtype);
  if (!valid.ok()) return absl::DataLossError(absl::StrCat("shape: ", valid.message()));
  const NpyArray array{kind, *header.shape, header.descr[0] == '>',
                       *header.fortran_order && header.shape->rank() > 1, data_begin};
  if (size - data_begin != array.bytes()) {
    return absl::DataLossError(absl::StrCat("wrong size for ", DataTypeName(kind->dtype),
                                            array.shape.ToString(), "; expected ", array.bytes(),
                                            " bytes, got ", size - data_begin));
  }
  return array;
}

absl::StatusOr<std::string> NpyHeader(const Tensor& tensor) {
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const NpyElement& k) { return k.dtype == tensor.dtype(); });
  if (kind == std::end(kKinds)) {
    return absl::UnimplementedError(
        absl::StrCat("NumPy has no ", DataTypeName(tensor.dtype()),
                     "; expected bool, an integer, float or complex type"));
  }
  const int rank = tensor.shape().rank();
  std::string header =
      absl::StrCat("{'descr': '", kind->swapped_bytes == 1 ? "|" : "<", kind->descr,
                   "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(tensor.shape().dims(), ", "), rank == 1 ? ",), }" : "), }");
  // Reserve space for the first dimension to grow in place, then pad by 1 to kAlignment bytes.
  if (rank > 0) header.append(kGrowthDigits - absl::StrCat(tensor.shape().dim(0)).size(), ' ');
  header.append(kAlignment - (kVersionEnd + 2 + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  std::string length(2, '\0');
  for (int i = 0; i < 2; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return absl::StrCat(kMagic, absl::string_view("\x01\x00", 2), length, header);
}

}  // namespace mirrorflow
