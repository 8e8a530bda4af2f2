// SPDX-License-Identifier: Apache-2.0
//
// Tests updates of flat ranges. An element's new bits must not depend on the range that contains
// it, because a bucket's variables are updated in pieces that depend on the number of replicas.
#include "kernels/cpu/update.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

constexpr int64_t kSize = 1003;

template <typename T>
struct State {
  std::vector<T> var, slot, slot2, grad;

  explicit State(uint64_t seed) {
    Random random(seed);
    for (std::vector<T>* v : {&var, &slot, &slot2, &grad}) {
      for (int64_t i = 0; i < kSize; ++i) v->push_back(static_cast<T>(random.Uniform(-1, 1)));
    }
    for (T& x : slot2) x = std::abs(x);  // second moments are not negative
  }
  bool operator==(const State& other) const {
    auto same = [](const std::vector<T>& a, const std::vector<T>& b) {
      return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
    };
    return same(var, other.var) && same(slot, other.slot) && same(slot2, other.slot2);
  }
};

template <typename T>
class UpdateTest : public ::testing::Test {
 protected:
  // `apply(state, first, n)` updates the n elements that start at `first`.
  template <typename Apply>
  void ExpectTheSameInAnyPieces(Apply apply) {
    State<T> whole(1);
    const State<T> before = whole;
    apply(whole, 0, kSize);
    EXPECT_FALSE(whole == before);
    for (const int64_t piece : {1, 3, 8, 17, 64, 500}) {
      State<T> pieces(1);
      for (int64_t first = 0; first < kSize; first += piece) {
        apply(pieces, first, std::min(piece, kSize - first));
      }
      EXPECT_TRUE(pieces == whole) << "pieces of " << piece;
    }
  }
  template <typename Update>
  void ExpectTheSameOfOneSlot(const Update& update) {
    ExpectTheSameInAnyPieces(
        [&](State<T>& s, int64_t i, int64_t n) { update(&s.var[i], &s.slot[i], &s.grad[i], n); });
  }
  template <typename Update>
  void ExpectTheSameOfTwoSlots(const Update& update) {
    ExpectTheSameInAnyPieces([&](State<T>& s, int64_t i, int64_t n) {
      update(&s.var[i], &s.slot[i], &s.slot2[i], &s.grad[i], n);
    });
  }
};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(UpdateTest, Types);

TYPED_TEST(UpdateTest, GradientDescentDoesNotDependOnPieces) {
  const GradientDescent<TypeParam> update{.alpha = TypeParam(0.3)};
  this->ExpectTheSameInAnyPieces(
      [&](State<TypeParam>& s, int64_t i, int64_t n) { update(&s.var[i], &s.grad[i], n); });
}

TYPED_TEST(UpdateTest, MomentumDoesNotDependOnPieces) {
  const TypeParam lr(0.3), momentum(0.9);
  this->ExpectTheSameOfOneSlot(Momentum<TypeParam, false>{.lr = lr, .momentum = momentum});
  this->ExpectTheSameOfOneSlot(Momentum<TypeParam, true>{.lr = lr, .momentum = momentum});
}

TYPED_TEST(UpdateTest, KerasMomentumDoesNotDependOnPieces) {
  const TypeParam lr(0.3), momentum(0.9);
  this->ExpectTheSameOfOneSlot(KerasMomentum<TypeParam, false>{.lr = lr, .momentum = momentum});
  this->ExpectTheSameOfOneSlot(KerasMomentum<TypeParam, true>{.lr = lr, .momentum = momentum});
}

TYPED_TEST(UpdateTest, AdagradDoesNotDependOnPieces) {
  const Adagrad<TypeParam, true> update{.lr = TypeParam(0.3), .epsilon = TypeParam(1e-7)};
  this->ExpectTheSameInAnyPieces([&](State<TypeParam>& s, int64_t i, int64_t n) {
    update(&s.var[i], &s.slot2[i], &s.grad[i], n);
  });
}

TYPED_TEST(UpdateTest, RmsPropDoesNotDependOnPieces) {
  const RmsProp<TypeParam> update{.lr = TypeParam(0.3),
                                  .rho = TypeParam(0.9),
                                  .momentum = TypeParam(0.8),
                                  .epsilon = TypeParam(1e-7)};
  this->ExpectTheSameInAnyPieces([&](State<TypeParam>& s, int64_t i, int64_t n) {
    update(&s.var[i], &s.slot2[i], &s.slot[i], &s.grad[i], n);
  });
}

TYPED_TEST(UpdateTest, AdamDoesNotDependOnPieces) {
  auto make = [](auto adam) {
    adam.beta1_power = TypeParam(0.81);
    adam.beta2_power = TypeParam(0.998);
    adam.lr = TypeParam(0.01);
    adam.beta1 = TypeParam(0.9);
    adam.beta2 = TypeParam(0.999);
    adam.epsilon = TypeParam(1e-7);
    return adam;
  };
  this->ExpectTheSameOfTwoSlots(make(Adam<TypeParam, false>()));
  this->ExpectTheSameOfTwoSlots(make(Adam<TypeParam, true>()));
}

}  // namespace
}  // namespace mirrorflow
