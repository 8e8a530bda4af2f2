// SPDX-License-Identifier: Apache-2.0
//
// Fused trees of element-wise ops give the bits of separate ops, whatever the sizes of their blocks
// and however their inputs broadcast.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/fused_ops.h"
#include "tests/support/run_without_pass.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

// Checks that the program runs as one fused op and has the bits of separate ops.
void ExpectFusedWithEqualBits(const PassProgram& program) {
  const auto fused = program.Run(1), separate = program.Run(1, "fuse_elementwise");
  ASSERT_TRUE(fused.ok()) << fused.status();
  ASSERT_TRUE(separate.ok()) << separate.status();
  EXPECT_EQ(fused->Count(ops::kFusedElementwise), 1);
  EXPECT_EQ(separate->Count(ops::kFusedElementwise), 0);
  EXPECT_TRUE(Tensor::Identical(fused->values[0], separate->values[0]));
}

class RandomTree : public PassProgram {
 public:
  // Makes a tree of `num_ops` ops with this shape. Its inputs broadcast to it.
  RandomTree(const Shape& shape, int num_ops, std::mt19937* random)
      : shape_(shape), random_(*random) {
    Output y = Input(/*whole=*/true);
    for (int i = 0; i < num_ops; ++i) y = Apply(y);
    fetches = {y};
  }

 private:
  uint32_t Below(uint32_t n) { return random_() % n; }

  Output Input(bool whole) {
    Shape shape = shape_;
    if (!whole) {
      // Drops leading dimensions, and sets others to 1.
      const int first = static_cast<int>(Below(shape_.rank() + 1));
      shape = Shape();
      for (int d = first; d < shape_.rank(); ++d) shape.AddDim(Below(2) == 0 ? 1 : shape_.dim(d));
    }
    shapes.push_back(shape);
    feeds.push_back(ops::Placeholder(root_, DT_FLOAT, shape));
    return feeds.back();
  }

  Output Apply(const Output& x) {
    const auto other = [&] { return feeds.size() < 9 ? Input(Below(3) == 0) : feeds[Below(9)]; };
    switch (Below(10)) {
      case 0:
        return ops::AddV2(root_, x, other());
      case 1:
        return ops::Sub(root_, other(), x);
      case 2:
        return ops::Mul(root_, x, other());
      case 3:
        return ops::Maximum(root_, x, other());
      case 4:
        return ops::Tanh(root_, x);
      case 5:
        return ops::Sigmoid(root_, ops::Sub(root_, x, other()));
      case 6:
        return ops::Square(root_, x);
      case 7:  // a tree that reads a value twice, with a value of one byte per element
        return ops::SelectV2(root_, ops::Greater(root_, x, other()), x, ops::Neg(root_, x));
      case 8:
        return ops::Cast(root_, ops::Cast(root_, x, DT_DOUBLE), DT_FLOAT);
      default:
        return ops::Rsqrt(root_, ops::AddV2(root_, ops::Square(root_, x), ops::Abs(root_, x)));
    }
  }

  const Scope root_{&graph};
  const Shape shape_;
  std::mt19937& random_;
};

TEST(FusedElementwiseTest, RandomTreesHaveBitsOfSeparateOps) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    Shape shape;
    const int rank = 1 + static_cast<int>(random() % 4);
    for (int d = 0; d < rank; ++d) {
      const int most = rank == 1 ? 20000 : d + 1 == rank ? 3000 : d == 0 ? 20 : 9;
      shape.AddDim(random() % 4 == 0 ? 1 : 1 + static_cast<int64_t>(random()) % most);
    }
    SCOPED_TRACE(absl::StrCat(i, ": ", shape.ToString()));
    ExpectFusedWithEqualBits(RandomTree(shape, 2 + static_cast<int>(random() % 7), &random));
  }
}

TEST(FusedElementwiseTest, EmptyShapeIsComputed) {
  std::mt19937 random(2);
  ExpectFusedWithEqualBits(RandomTree(Shape({3, 0, 5}), 3, &random));
}

}  // namespace
}  // namespace mirrorflow
