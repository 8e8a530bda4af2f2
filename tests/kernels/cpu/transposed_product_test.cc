// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/transposed_product.h"

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

constexpr float kAlpha = 0.25f, kUntouched = 7.0f;

// What is made of the product of these sizes, at odd addresses, in all ways.
void ExpectProduct(int64_t m, int64_t n, int64_t k) {
  SCOPED_TRACE(testing::Message() << m << " " << n << " " << k);
  const std::vector<float> a = Numbers(k * m + 1, 1), b = Numbers(k * n + 1, 2);
  const TransposedProduct product = {a.data() + 1, b.data() + 1, m, n, k};
  // Half of its rows, then the others.
  const TransposedProduct halves[] = {{a.data() + 1, b.data() + 1, m / 2, n, k, m},
                                      {a.data() + 1 + m / 2, b.data() + 1, m - m / 2, n, k, m}};
  std::vector<float> stored(m * n + 2, kUntouched), updated(m * n + 2, kUntouched);
  std::vector<float> pieced(m * n + 2, kUntouched), scratch(TransposedProduct::PieceFloats());
  product.Store(stored.data() + 1);
  halves[0].Subtract(kAlpha, updated.data() + 1);
  halves[1].Subtract(kAlpha, updated.data() + 1 + m / 2 * n);
  product.ForEachPiece(scratch.data(), [&](int64_t at, const float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) pieced[1 + at + i] -= values[i];
  });
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double want = 0;
      for (int64_t p = 0; p < k; ++p) want += double{a[1 + p * m + i]} * b[1 + p * n + j];
      const double error = 1e-5 + 1e-7 * static_cast<double>(k);
      ASSERT_NEAR(stored[1 + i * n + j], want, error);
      ASSERT_NEAR(updated[1 + i * n + j], kUntouched - kAlpha * want, error);
      ASSERT_NEAR(pieced[1 + i * n + j], kUntouched - want, error);
    }
  }
  for (const std::vector<float>* out : {&stored, &updated, &pieced}) {
    EXPECT_EQ(out->front(), kUntouched);
    EXPECT_EQ(out->back(), kUntouched);
  }
}

// Every way in which rows and columns can be left over from whole tiles.
TEST(TransposedProductTest, IsTheProductForAllShapes) {
  for (const int64_t m : {1, 3, 4, 12, 13, 17, 24, 31}) {
    for (const int64_t n : {1, 3, 4, 15, 32, 33, 47, 64, 71}) {
      for (const int64_t k : {0, 1, 5, 16}) ExpectProduct(m, n, k);
    }
  }
}

// Several blocks of columns, the last one narrow; and more rows than are copied together.
TEST(TransposedProductTest, IsTheProductOfWideMatrices) {
  ExpectProduct(13, 2048 + 21, 3);
  ExpectProduct(17, 700, 100);
  ExpectProduct(14, 131, 512);
  ExpectProduct(29, 150, 513);
}

}  // namespace
}  // namespace mirrorflow
