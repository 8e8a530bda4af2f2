// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/packed_product.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

std::vector<float> Numbers(int64_t n, int seed) {
  std::vector<float> numbers(n);
  for (int64_t i = 0; i < n; ++i) {
    numbers[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i) + seed));
  }
  return numbers;
}

constexpr float kUntouched = 7.0f;

// Compares all bits with those of Product, for operands at unaligned addresses.
void ExpectBitsOfProduct(int64_t m, int64_t n, int64_t k, bool transpose_b) {
  SCOPED_TRACE(testing::Message() << m << " " << n << " " << k << " " << transpose_b);
  const std::vector<float> a = Numbers(m * k + 1, 1), b = Numbers(k * n + 1, 2);
  const std::vector<float> bias = Numbers(n + 1, 3);
  const ProductTerm term = {
      {a.data() + 1, k, 1}, {b.data() + 1, transpose_b ? 1 : n, transpose_b ? k : 1}, k};
  const PackedProduct product = {m, n, k};
  alignas(64) static float packed[1 << 20];
  ASSERT_LE(product.PackedFloats(), 1 << 20);
  product.Pack(term.b, packed);
  for (const float* addend : {static_cast<const float*>(nullptr), bias.data() + 1}) {
    std::vector<float> want(m * n + 2, kUntouched), got = want;
    Product{{&term, 1}, m, n}.Store(want.data() + 1, addend);
    product.Store(a.data() + 1, packed, got.data() + 1, addend);
    ASSERT_EQ(got, want) << (addend != nullptr ? "with bias" : "without bias");
  }
}

TEST(PackedProductTest, HasBitsOfProductForAllRowCounts) {
  for (int64_t m = 1; m <= PackedProduct::kMaxRows; ++m) {
    for (const bool transpose_b : {false, true}) ExpectBitsOfProduct(m, 147, 19, transpose_b);
  }
}

TEST(PackedProductTest, PartsHaveAboutEquallyManyRows) {
  for (int64_t m = 1; m <= 1000; ++m) {
    const int64_t rows = PackedProduct::RowsPerPart(m);
    ASSERT_LE(rows, PackedProduct::kMaxRows);
    const int64_t parts = (m + rows - 1) / rows;
    EXPECT_LT((parts - 1) * PackedProduct::kMaxRows, m) << "fewer parts would do";
    EXPECT_LT(parts * rows - m, parts) << "the last part has too few rows";
  }
}

// The last panel has every possible number of columns.
TEST(PackedProductTest, HasBitsOfProductForAllColumnCounts) {
  for (const int64_t m : {1, 3, 6, 7, 13}) {
    for (int64_t n = 1; n <= 130; ++n) ExpectBitsOfProduct(m, n, 5, false);
  }
}

TEST(PackedProductTest, HasBitsOfProductForSeveralBlocks) {
  for (const int64_t m : {1, 4, 25}) {
    for (const int64_t k : {1, 512, 513, 2600}) {
      ExpectBitsOfProduct(m, 70, k, false);
      ExpectBitsOfProduct(m, 70, k, true);
    }
  }
}

}  // namespace
}  // namespace mirrorflow
