// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/reduced_precision.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr DataType kReduced[] = {DT_HALF, DT_BFLOAT16};

Tensor FromFloats(DataType dtype, const std::vector<float>& values) {
  Tensor tensor = *Tensor::Allocate(dtype, {static_cast<int64_t>(values.size())});
  RoundToReduced(dtype, values.data(), reinterpret_cast<uint16_t*>(tensor.raw()), values.size());
  return tensor;
}

std::vector<float> ToFloats(const Tensor& tensor) {
  std::vector<float> values(tensor.num_elements());
  WidenReduced(tensor.dtype(), reinterpret_cast<const uint16_t*>(tensor.raw()), values.data(),
               tensor.num_elements());
  return values;
}

TEST(ReducedPrecision, EveryNumberRoundTripsThroughFloat) {
  std::vector<uint16_t> all(65536), back(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const DataType dtype : kReduced) {
    std::vector<float> wide(all.size());
    WidenReduced(dtype, all.data(), wide.data(), all.size());
    RoundToReduced(dtype, wide.data(), back.data(), all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const float one = ReducedToFloat(dtype, all[i]);
      EXPECT_EQ(std::isnan(one), std::isnan(wide[i])) << i;
      if (std::isnan(one)) {
        EXPECT_TRUE(std::isnan(ReducedToFloat(dtype, back[i]))) << i;
        EXPECT_TRUE(std::isnan(ReducedToFloat(dtype, ReducedFrom(dtype, one)))) << i;
        continue;
      }
      EXPECT_EQ(std::bit_cast<uint32_t>(one), std::bit_cast<uint32_t>(wide[i])) << i;
      EXPECT_EQ(back[i], all[i]);
      EXPECT_EQ(ReducedFrom(dtype, one), all[i]);
    }
  }
}

// The midpoint of two neighbours rounds to the even one. Any other number between them rounds to
// the nearer one.
TEST(ReducedPrecision, RoundsToNearestWithTiesToEven) {
  for (const DataType dtype : kReduced) {
    const int largest = dtype == DT_HALF ? 0x7bff : 0x7f7f;
    for (int i = 0; i < largest; ++i) {
      const float low = ReducedToFloat(dtype, static_cast<uint16_t>(i)),
                  high = ReducedToFloat(dtype, static_cast<uint16_t>(i + 1));
      const float middle = low + (high - low) / 2;
      const int even = i % 2 == 0 ? i : i + 1;
      const std::vector<float> near = {middle, std::nextafter(middle, low),
                                       std::nextafter(middle, high), -middle};
      const int want[] = {even, i, i + 1, even | 0x8000};
      std::vector<float> eight = near;  // enough values for the vectorized loop
      eight.insert(eight.end(), near.begin(), near.end());
      uint16_t got[8];
      RoundToReduced(dtype, eight.data(), got, 8);
      for (int k = 0; k < 4; ++k) {
        ASSERT_EQ(got[k], want[k]) << "between " << low << " and " << high << ", case " << k;
        ASSERT_EQ(ReducedFrom(dtype, near[k]), want[k]);
      }
      // These double-precision values would round to the midpoint in float, but must be rounded
      // only once.
      const double tie = middle;
      if (tie < std::numeric_limits<float>::min()) continue;
      ASSERT_EQ(ReducedFrom(dtype, tie * (1 - 0x1p-50)), i);
      ASSERT_EQ(ReducedFrom(dtype, tie * (1 + 0x1p-50)), i + 1);
      ASSERT_EQ(ReducedFrom(dtype, -tie * (1 + 0x1p-50)), (i + 1) | 0x8000);
    }
    const uint16_t infinity = dtype == DT_HALF ? 0x7c00 : 0x7f80;
    EXPECT_EQ(ReducedFrom(dtype, std::numeric_limits<float>::max()), infinity);
    EXPECT_EQ(ReducedFrom(dtype, 1e300), infinity);
    EXPECT_EQ(ReducedFrom(dtype, 1e-300), 0);
  }
  EXPECT_EQ(ReducedFrom(DT_HALF, 65519.0f), 0x7bff);
  EXPECT_EQ(ReducedFrom(DT_HALF, 65520.0f), 0x7c00);
}

TEST(ReducedPrecision, LargeIntegersAreRoundedOnce) {
  const int64_t tie = (int64_t{1} << 62) + (int64_t{1} << 54);
  EXPECT_EQ(ReducedFrom(DT_BFLOAT16, tie), 0x5e80);
  EXPECT_EQ(ReducedFrom(DT_BFLOAT16, tie + 1), 0x5e81);
  EXPECT_EQ(ReducedFrom(DT_BFLOAT16, -tie - 1), 0xde81);
  EXPECT_EQ(ReducedFrom(DT_BFLOAT16, std::numeric_limits<int64_t>::min()), 0xdf00);
}

TEST(ReducedPrecision, OpIsComputedInFloatAndRoundedOnce) {
  for (const DataType dtype : kReduced) {
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root, dtype, {3}), y = ops::Placeholder(root, dtype, {3});
    const Output sum = ops::AddV2(root, x, y);
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    const Tensor a = FromFloats(dtype, {1, 300, -1}), b = FromFloats(dtype, {0.001f, 0.3f, 1});
    const auto got = EvaluateNode(*sum.node, {a, b}, {Shape({3})}, CpuKernels());
    ASSERT_TRUE(got.ok()) << got.status();
    std::vector<float> want = ToFloats(a);
    for (int i = 0; i < 3; ++i) want[i] += ToFloats(b)[i];
    EXPECT_TRUE(Tensor::Identical((*got)[0], FromFloats(dtype, want)));
  }
}

// A sum of ones would stop at 2048 in half precision, and at 256 in bfloat16.
TEST(ReducedPrecision, SumsAreAccumulatedInFloat) {
  for (const DataType dtype : kReduced) {
    Graph graph;
    const Scope root(&graph);
    const Output sum =
        ops::Sum(root, ops::Placeholder(root, dtype, {4096}), ops::VectorConst(root, {0}));
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    const auto got = EvaluateNode(
        *sum.node, {FromFloats(dtype, std::vector<float>(4096, 1)), Tensor::Vector<int32_t>({0})},
        {Shape()}, CpuKernels());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(ToFloats((*got)[0]), std::vector<float>{4096});
  }
}

TEST(ReducedPrecision, UniformNumbersStayBelowOne) {
  for (const DataType dtype : kReduced) {
    Graph graph;
    const Scope root(&graph);
    const Output uniform = ops::RandomUniform(root, ops::VectorConst(root, {100000}), dtype);
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    const auto got = EvaluateNode(*uniform.node, {Tensor::Vector<int32_t>({100000})},
                                  {Shape({100000})}, CpuKernels());
    ASSERT_TRUE(got.ok()) << got.status();
    double sum = 0;
    for (const float number : ToFloats((*got)[0])) {
      ASSERT_GE(number, 0);
      ASSERT_LT(number, 1);
      sum += number;
    }
    EXPECT_NEAR(sum / 100000, 0.5, 0.01);
  }
}

TEST(ReducedPrecision, OpWithoutFloatKernelIsUnimplemented) {
  Graph graph;
  const Scope root(&graph);
  const Output sum = ops::AddV2(root, ops::Placeholder(root, DT_FLOAT, {1}),
                                ops::Placeholder(root, DT_FLOAT, {1}));
  KernelRegistry kernels;
  kernels.SetFallback("CPU", CreateInFloat);
  kernels.Register("AddV2", "CPU", [](const KernelContext& c) -> absl::StatusOr<KernelPlan> {
    return UnsupportedDataType(c.input_dtype(0));
  });
  const Tensor one = Tensor::Vector<float>({1});
  const auto got = EvaluateNode(*sum.node, {one, one}, {Shape({1})}, kernels);
  EXPECT_THAT(got.status(), IsError(absl::StatusCode::kUnimplemented, "dtype"));
}

}  // namespace
}  // namespace mirrorflow
