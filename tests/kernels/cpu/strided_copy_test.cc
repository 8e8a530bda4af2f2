// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using Dim = StridedCopy::Dim;

constexpr DataType kOfEachSize[] = {DT_UINT8, DT_HALF, DT_FLOAT, DT_DOUBLE, DT_COMPLEX128};

// Copies one element at a time, by the definition of StridedCopy.
void CopySlowly(size_t bytes, absl::Span<const Dim> dims, const std::byte* in, std::byte* out) {
  if (dims.empty()) {
    std::memcpy(out, in, bytes);
    return;
  }
  for (int64_t i = 0; i < dims[0].size; ++i) {
    CopySlowly(bytes, dims.subspan(1), in + i * dims[0].in_stride * int64_t(bytes),
               out + i * dims[0].out_stride * int64_t(bytes));
  }
}

// How far an operand with these strides extends below and above its first element.
struct Reach {
  int64_t below = 0;
  int64_t above = 0;
};
Reach ReachOf(absl::Span<const Dim> dims, int64_t Dim::*stride) {
  Reach reach;
  for (const Dim& d : dims) {
    const int64_t last = std::max<int64_t>(d.size - 1, 0) * (d.*stride);
    (last < 0 ? reach.below : reach.above) += std::abs(last);
  }
  return reach;
}

// Compares all output bytes with the definition, including those that must stay unchanged.
void Expect(DataType dtype, const std::vector<Dim>& dims) {
  const Reach in_reach = ReachOf(dims, &Dim::in_stride);
  const Reach out_reach = ReachOf(dims, &Dim::out_stride);
  const size_t size = DataTypeSize(dtype);
  std::vector<std::byte> in((in_reach.below + in_reach.above + 1) * size);
  for (size_t i = 0; i < in.size(); ++i) in[i] = std::byte(i * 7 + i / 251);
  std::vector<std::byte> want((out_reach.below + out_reach.above + 1) * size, std::byte{0xEE});
  std::vector<std::byte> got = want;
  CopySlowly(size, dims, in.data() + in_reach.below * size, want.data() + out_reach.below * size);
  StridedCopy(dtype, dims, in_reach.below, out_reach.below).Run(in.data(), got.data());
  std::string text;
  for (const Dim& d : dims) {
    absl::StrAppend(&text, "{", d.size, ", ", d.in_stride, ", ", d.out_stride, "} ");
  }
  EXPECT_EQ(want, got) << DataTypeName(dtype) << " " << text;
}

TEST(StridedCopy, TransposesMatricesOfWholeAndPartialTiles) {
  for (const DataType dtype : kOfEachSize) {
    for (const int64_t rows : {1, 2, 15, 16, 17, 32, 37}) {
      for (const int64_t columns : {1, 3, 16, 31, 48}) {
        Expect(dtype, {{columns, 1, rows}, {rows, columns, 1}});
        // The matrix is part of a larger one.
        Expect(dtype, {{columns, 1, rows + 5}, {rows, columns + 3, 1}});
      }
    }
  }
}

TEST(StridedCopy, PermutesDimensionsInEveryOrder) {
  const std::vector<int64_t> sizes = {3, 17, 2, 18};
  std::vector<int> perm = {0, 1, 2, 3};
  do {
    std::vector<int64_t> in_strides(4, 1), out_strides(4, 1);
    for (int d = 2; d >= 0; --d) in_strides[d] = in_strides[d + 1] * sizes[d + 1];
    for (int d = 2; d >= 0; --d) out_strides[d] = out_strides[d + 1] * sizes[perm[d + 1]];
    std::vector<Dim> dims;
    for (int d = 0; d < 4; ++d) {
      dims.push_back({sizes[perm[d]], in_strides[perm[d]], out_strides[d]});
    }
    Expect(DT_FLOAT, dims);
  } while (std::next_permutation(perm.begin(), perm.end()));
}

TEST(StridedCopy, RepeatsElementsAndRows) {
  for (const DataType dtype : kOfEachSize) {
    Expect(dtype, {{3, 1, 40}, {40, 0, 1}});
    Expect(dtype, {{3, 0, 40}, {40, 1, 1}});
    Expect(dtype, {{2, 0, 60}, {3, 5, 20}, {4, 0, 5}, {5, 1, 1}});
    Expect(dtype, {{7, 0, 1}});
  }
}

TEST(StridedCopy, CopiesBackwardsAndInSteps) {
  for (const DataType dtype : kOfEachSize) {
    Expect(dtype, {{5, -1, 1}});
    Expect(dtype, {{5, 3, 1}});
    Expect(dtype, {{4, -20, 6}, {6, -2, 1}});
    Expect(dtype, {{4, 6, -20}, {6, 1, -3}});
    Expect(dtype, {{4, 6, 1}, {6, 1, 9}});
  }
}

TEST(StridedCopy, CopiesBoxes) {
  for (const DataType dtype : kOfEachSize) {
    Expect(dtype, {{2, 100, 24}, {4, 20, 6}, {6, 1, 1}});
    Expect(dtype, {{2, 24, 100}, {4, 6, 20}, {6, 1, 1}});
    Expect(dtype, {{1, 9, 9}, {1, 7, 7}});
    Expect(dtype, {});
  }
}

TEST(StridedCopy, CopyOfNoElementsLeavesOutputUnchanged) {
  Expect(DT_FLOAT, {{0, 1, 1}});
  Expect(DT_FLOAT, {{3, 0, 0}, {0, 1, 1}, {4, 5, 6}});
  StridedCopy(DT_FLOAT, {{0, 1, 1}}).Run(nullptr, nullptr);
}

TEST(CopyKernel, DtypeWithoutFixedSizeIsError) {
  EXPECT_THAT(CopyKernel(DT_STRING, {}).status(),
              IsError(absl::StatusCode::kUnimplemented, "no kernel", "dtype string"));
}

}  // namespace
}  // namespace mirrorflow
