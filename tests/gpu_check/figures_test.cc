// SPDX-License-Identifier: Apache-2.0
//
// Checks on the CUDA fakes that every figure is produced and that the counts are correct.
#include "tests/gpu_check/figures.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fakes/cuda/fake_cuda.h"

namespace mirrorflow {
namespace {

TEST(Figures, EveryFigureIsProduced) {
  ResetFakeCuda();
  const auto figures = MeasureFigures({.product_size = 16,
                                       .updated_bytes = 1 << 16,
                                       .copied_bytes = 1 << 16,
                                       .rounds = 2,
                                       .round_ms = 1});
  ASSERT_TRUE(figures.ok()) << figures.status();
  std::map<std::string, std::vector<double>> by_name;
  for (const Figure& figure : *figures) by_name[figure.name] = figure.values;
  for (const char* const rate : {"product", "update", "copy"}) {
    ASSERT_EQ(by_name[rate].size(), 2) << rate;
    for (const double value : by_name[rate]) EXPECT_GT(value, 0) << rate;
  }
  // A product with its bias and activation, and the products of its two gradients.
  EXPECT_EQ(by_name["layer"], std::vector<double>{3});
  EXPECT_EQ(by_name["capture"].size(), 5);
}

}  // namespace
}  // namespace mirrorflow
