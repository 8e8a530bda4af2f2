// SPDX-License-Identifier: Apache-2.0
#include "framework/core/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"

namespace mirrorflow {

bool Shape::IsFullyDefined() const {
  return !unknown_rank_ &&
         std::all_of(dims_.begin(), dims_.end(), [](int64_t d) { return d != kUnknownDim; });
}

int64_t Shape::num_elements() const {
  MF_CHECK(IsFullyDefined());
  return num_elements_from(0);
}

int64_t Shape::num_elements_before(int axis) const {
  int64_t n = 1;
  for (int d = 0; d < axis; ++d) n *= dim(d);
  return n;
}

int64_t Shape::num_elements_from(int axis) const {
  int64_t n = 1;
  for (int d = axis; d < rank(); ++d) n *= dim(d);
  return n;
}

std::vector<int64_t> Shape::Strides() const {
  std::vector<int64_t> strides(rank());
  for (int d = 0; d < rank(); ++d) strides[d] = num_elements_from(d + 1);
  return strides;
}

absl::Status Shape::Validate(DataType dtype) const {
  if (rank() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank of a shape must be at most ", kMaxRank, ", got ", rank()));
  }
  // A dimension of 0 is treated as 1, because the strides of an empty tensor must also fit.
  int64_t bytes = std::max<int64_t>(DataTypeSize(dtype), 1);
  for (int64_t d : dims_) {
    if (d < kUnknownDim) {
      return absl::InvalidArgumentError(
          absl::StrCat("dimensions must be >= 0, or -1 for unknown, got ", ToString()));
    }
    absl::StatusOr<int64_t> product = CheckedMultiply(bytes, std::max<int64_t>(d, 1));
    if (!product.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the byte size of ", DataTypeName(dtype), ToString(), " overflows"));
    }
    bytes = *product;
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> Shape::MergeWith(const Shape& other) const {
  if (unknown_rank_) return other;
  if (other.unknown_rank_) return *this;
  auto mismatch = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("shapes ", ToString(), " and ", other.ToString(), " are incompatible"));
  };
  if (rank() != other.rank()) return mismatch();
  Shape merged = *this;
  for (int i = 0; i < rank(); ++i) {
    if (dim(i) == kUnknownDim) {
      merged.set_dim(i, other.dim(i));
    } else if (other.dim(i) != kUnknownDim && other.dim(i) != dim(i)) {
      return mismatch();
    }
  }
  return merged;
}

std::string Shape::ToString() const {
  if (unknown_rank_) return "[*]";
  const auto append = [](std::string* out, int64_t dim) {
    absl::StrAppend(out, dim == kUnknownDim ? "?" : absl::StrCat(dim));
  };
  return absl::StrCat("[", absl::StrJoin(dims_, ",", append), "]");
}

absl::StatusOr<int64_t> CheckedMultiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) {
    return absl::InvalidArgumentError(absl::StrCat(a, " * ", b, " overflows"));
  }
  return product;
}

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  if (a.unknown_rank() || b.unknown_rank()) return Shape::UnknownRank();
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const int offset = longer.rank() - shorter.rank();
  Shape out = longer;
  for (int i = 0; i < shorter.rank(); ++i) {
    const int64_t x = longer.dim(offset + i), y = shorter.dim(i);
    int64_t d;
    if (x == 1) {
      d = y;
    } else if (y == 1 || x == y) {
      d = x;
    } else if (x == kUnknownDim) {
      d = y;  // y > 1: x is 1 or y
    } else if (y == kUnknownDim) {
      d = x;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("shapes ", a.ToString(), " and ", b.ToString(),
                                                     " do not broadcast against each other"));
    }
    out.set_dim(offset + i, d);
  }
  return out;
}

}  // namespace mirrorflow
