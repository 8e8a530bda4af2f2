// SPDX-License-Identifier: Apache-2.0
//
// Tests MaxPool on more channels than the cases in tests/references have, to cover the vectorized
// code.
#include "ops/max_pool.h"

#include <cmath>
#include <limits>
#include <tuple>

#include "framework/graph/shape_inference.h"
#include "framework/runtime/evaluate_node.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/control.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

constexpr int64_t kChannels = 75;  // more than two vectors of bytes

struct Window {
  int64_t size;
  int64_t stride;
  const char* padding;
};

Tensor Evaluate(Output output, std::vector<Tensor> inputs, const Scope& scope) {
  EXPECT_TRUE(scope.ok()) << scope.status();
  auto outputs = EvaluateNode(*output.node, inputs, {scope.shape(output)}, CpuKernels());
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return (*outputs)[0];
}

Tensor Pool(const Tensor& images, const Window& w) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, images.dtype(), images.shape());
  return Evaluate(
      ops::MaxPool(scope, x, {1, w.size, w.size, 1}, {1, w.stride, w.stride, 1}, w.padding),
      {images}, scope);
}

Tensor PoolGrad(const Tensor& images, const Tensor& largest, const Tensor& dy, const Window& w) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, images.dtype(), images.shape());
  const Output y = ops::Placeholder(scope, images.dtype(), largest.shape());
  const Output g = ops::Placeholder(scope, images.dtype(), dy.shape());
  return Evaluate(ops::MaxPoolGrad(scope, x, y, g, {1, w.size, w.size, 1},
                                   {1, w.stride, w.stride, 1}, w.padding),
                  {images, largest, dy}, scope);
}

// Returns integers from 0 to 4, which leads to ties.
Tensor SmallNumbers(DataType dtype, const Shape& shape, Random* random) {
  Tensor tensor = *Tensor::Allocate(dtype, shape);
  DispatchDataType(
      dtype,
      [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (T& x : tensor.flat<T>()) x = static_cast<T>(random->Below(5));
        return 0;
      },
      0);
  return tensor;
}

class MaxPoolChannels : public ::testing::TestWithParam<std::tuple<DataType, Window>> {};

// The reference is a pool of each channel alone, which does not use the vectorized code.
TEST_P(MaxPoolChannels, MatchesResultsOfSingleChannels) {
  const auto& [dtype, window] = GetParam();
  Random random(4);
  const Tensor images = SmallNumbers(dtype, {2, 7, 6, kChannels}, &random);
  const Tensor largest = Pool(images, window);
  const Tensor dy = SmallNumbers(dtype, largest.shape(), &random);
  const Tensor dx = PoolGrad(images, largest, dy, window);
  for (int64_t c = 0; c < kChannels; ++c) {
    auto channel = [c](const Tensor& t) { return SliceAlong(t, 3, c, c + 1); };
    const Tensor image = channel(images), one = Pool(image, window);
    ASSERT_EQ(Difference(one, channel(largest), {}), "") << "channel " << c;
    ASSERT_EQ(Difference(PoolGrad(image, one, channel(dy), window), channel(dx), {}), "")
        << "gradient of channel " << c;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, MaxPoolChannels,
    ::testing::Combine(::testing::Values(DT_FLOAT, DT_DOUBLE, DT_INT32, DT_INT64, DT_UINT8),
                       ::testing::Values(Window{2, 2, "VALID"}, Window{2, 2, "SAME"},
                                         Window{3, 2, "SAME"}, Window{3, 1, "VALID"},
                                         Window{2, 3, "VALID"})),
    [](const auto& info) {
      const Window& w = std::get<1>(info.param);
      return absl::StrCat(DataTypeName(std::get<0>(info.param)), "_", w.size, "_", w.stride, "_",
                          w.padding);
    });

// A window with a NaN pixel must give NaN. Otherwise, the loss would look finite.
TEST(MaxPool, ResultIsNaNIfAnyPixelIsNaN) {
  for (int64_t pixel = 0; pixel < 4; ++pixel) {
    for (const int64_t c : {int64_t{0}, kChannels - 1}) {
      Tensor images = *Tensor::Allocate(DT_FLOAT, {1, 2, 2, kChannels});
      images.data<float>()[pixel * kChannels + c] = std::numeric_limits<float>::quiet_NaN();
      const Tensor largest = Pool(images, {2, 2, "VALID"});
      for (int64_t i = 0; i < kChannels; ++i) {
        EXPECT_EQ(std::isnan(largest.data<float>()[i]), i == c) << "pixel " << pixel;
      }
    }
  }
}

}  // namespace
}  // namespace mirrorflow
