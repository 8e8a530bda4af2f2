// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/product.h"

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

// Checks all of Product's functions for these sizes, with operands at unaligned addresses.
void ExpectProduct(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  SCOPED_TRACE(testing::Message() << m << " " << n << " " << k << " " << transpose_a << " "
                                  << transpose_b);
  const std::vector<float> a = Numbers(k * m + 1, 1), b = Numbers(k * n + 1, 2);
  const std::vector<float> bias = Numbers(n + 1, 3);
  const StridedMatrix left = {a.data() + 1, transpose_a ? 1 : k, transpose_a ? m : 1};
  const StridedMatrix right = {b.data() + 1, transpose_b ? 1 : n, transpose_b ? k : 1};
  const ProductTerm term = {left, right, k};
  const Product product = {{&term, 1}, m, n};
  // These terms compute the first half of the rows and then the second half.
  StridedMatrix lower = left;
  lower.data += m / 2 * left.row_step;
  const ProductTerm terms[] = {{left, right, k}, {lower, right, k}};
  // These terms sum over a third of k, over nothing, and over the rest of k.
  StridedMatrix left_rest = left, right_rest = right;
  left_rest.data += k / 3 * left.column_step;
  right_rest.data += k / 3 * right.row_step;
  const ProductTerm parts[] = {
      {left, right, k / 3}, {left, right, 0}, {left_rest, right_rest, k - k / 3}};

  std::vector<float> stored(m * n + 2, kUntouched), biased = stored, updated = stored;
  std::vector<float> pieced = stored, in_parts = stored, scratch(Product::PieceFloats());
  product.Store(stored.data() + 1);
  product.Store(biased.data() + 1, bias.data() + 1);
  Product{{terms, 1}, m / 2, n}.Subtract(kAlpha, updated.data() + 1);
  Product{{terms + 1, 1}, m - m / 2, n}.Subtract(kAlpha, updated.data() + 1 + m / 2 * n);
  Product{parts, m, n}.Store(in_parts.data() + 1);
  product.ForEachPiece(scratch.data(), [&](int64_t at, const float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) pieced[1 + at + i] -= values[i];
  });
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double want = 0;
      for (int64_t p = 0; p < k; ++p) {
        want += double{left.data[i * left.row_step + p * left.column_step]} *
                right.data[p * right.row_step + j * right.column_step];
      }
      const double error = 1e-5 + 1e-6 * static_cast<double>(k);
      const int64_t at = 1 + i * n + j;
      ASSERT_NEAR(stored[at], want, error);
      ASSERT_NEAR(biased[at], want + bias[1 + j], error);
      ASSERT_NEAR(updated[at], kUntouched - kAlpha * want, error);
      ASSERT_NEAR(pieced[at], kUntouched - want, error);
      ASSERT_EQ(in_parts[at], stored[at]);
    }
  }
  for (const std::vector<float>* out : {&stored, &biased, &updated, &pieced, &in_parts}) {
    EXPECT_EQ(out->front(), kUntouched);
    EXPECT_EQ(out->back(), kUntouched);
  }
}

void ExpectProducts(int64_t m, int64_t n, int64_t k) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) ExpectProduct(m, n, k, transpose_a, transpose_b);
  }
}

// The shapes cover every possible remainder of rows and columns after whole tiles.
TEST(ProductTest, MatchesDefinitionForAllShapes) {
  for (const int64_t m : {1, 3, 4, 12, 13, 17, 24, 31}) {
    for (const int64_t n : {1, 3, 4, 15, 32, 33, 47, 64, 71}) {
      for (const int64_t k : {0, 1, 5, 16}) ExpectProducts(m, n, k);
    }
  }
}

// The shapes cover several blocks of columns (the last one is narrow) and several blocks of k and
// of rows.
TEST(ProductTest, MatchesDefinitionForLargeMatrices) {
  ExpectProducts(13, 2048 + 21, 3);
  ExpectProducts(17, 700, 100);
  ExpectProducts(14, 131, 512);
  ExpectProducts(29, 150, 513);
  ExpectProducts(149, 33, 1024);
}

// k exceeds kMaxDepthOfPieces, and the last pass is shorter than the others.
TEST(ProductTest, AccumulatesDeepProductInSeveralPasses) {
  const int64_t k = 2600, m = 7, n = 19;
  const std::vector<float> a = Numbers(m * k, 1), b = Numbers(k * n, 2), bias = Numbers(n, 3);
  const ProductTerm term = {{a.data(), k, 1}, {b.data(), n, 1}, k};
  std::vector<float> stored(m * n), subtracted(m * n, kUntouched);
  Product{{&term, 1}, m, n}.Store(stored.data(), bias.data());
  Product{{&term, 1}, m, n}.Subtract(kAlpha, subtracted.data());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double want = 0;
      for (int64_t p = 0; p < k; ++p) want += double{a[i * k + p]} * b[p * n + j];
      ASSERT_NEAR(stored[i * n + j], want + bias[j], 1e-3);
      ASSERT_NEAR(subtracted[i * n + j], kUntouched - kAlpha * want, 1e-3);
    }
  }
}

// Replicas that divide a batch must compute the same bits as a single replica.
TEST(ProductTest, BitsOfRowDoNotDependOnOtherRows) {
  const int64_t m = 29, n = 75, k = 530;
  const std::vector<float> a = Numbers(m * k, 1), b = Numbers(k * n, 2);
  const ProductTerm all = {{a.data(), k, 1}, {b.data(), n, 1}, k};
  std::vector<float> together(m * n), alone(n);
  Product{{&all, 1}, m, n}.Store(together.data());
  for (int64_t i = 0; i < m; ++i) {
    const ProductTerm row = {{a.data() + i * k, k, 1}, {b.data(), n, 1}, k};
    Product{{&row, 1}, 1, n}.Store(alone.data());
    for (int64_t j = 0; j < n; ++j) ASSERT_EQ(alone[j], together[i * n + j]) << i << " " << j;
  }
}

}  // namespace
}  // namespace mirrorflow
