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

// Every way in which rows and columns can be left over from whole tiles, at any address.
TEST(TransposedProductTest, IsTheProductForAllShapes) {
  constexpr float kAlpha = 0.25f, kUntouched = 7.0f;
  for (const int64_t m : {1, 3, 4, 12, 13, 17, 24, 31}) {
    for (const int64_t n : {1, 3, 4, 15, 32, 33, 47, 64, 71}) {
      for (const int64_t k : {0, 1, 5, 16}) {
        SCOPED_TRACE(testing::Message() << m << " " << n << " " << k);
        const std::vector<float> a = Numbers(k * m + 1, 1), b = Numbers(k * n + 1, 2);
        const TransposedProduct product = {a.data() + 1, b.data() + 1, m, n, k};
        // Half of its rows, then the others.
        const TransposedProduct halves[] = {
            {a.data() + 1, b.data() + 1, m / 2, n, k, m},
            {a.data() + 1 + m / 2, b.data() + 1, m - m / 2, n, k, m}};
        std::vector<float> stored(m * n + 2, kUntouched), updated(m * n + 2, kUntouched);
        product.Store(stored.data() + 1);
        halves[0].Subtract(kAlpha, updated.data() + 1);
        halves[1].Subtract(kAlpha, updated.data() + 1 + m / 2 * n);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double want = 0;
            for (int64_t p = 0; p < k; ++p) want += double{a[1 + p * m + i]} * b[1 + p * n + j];
            ASSERT_NEAR(stored[1 + i * n + j], want, 1e-5);
            ASSERT_NEAR(updated[1 + i * n + j], kUntouched - kAlpha * want, 1e-5);
          }
        }
        for (const std::vector<float>* out : {&stored, &updated}) {
          EXPECT_EQ(out->front(), kUntouched);
          EXPECT_EQ(out->back(), kUntouched);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mirrorflow
