// SPDX-License-Identifier: Apache-2.0
#include "framework/core/tensor.h"

#include <sys/sysinfo.h>

#include <cstdint>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(BufferTest, MemoryIsAlignedAndZeroedAtAnySize) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{65}, size_t{3} << 20}) {
    const auto buffer = Buffer::Allocate(bytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ((*buffer)->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->data()) % kBufferAlignment, 0u);
    for (size_t i = 0; i < bytes; i += 4093) ASSERT_EQ((*buffer)->data()[i], std::byte{0});
  }
}

TEST(BufferTest, FailedAllocationIsResourceExhausted) {
  const auto buffer = Buffer::Allocate(std::numeric_limits<size_t>::max() - 10);
  EXPECT_THAT(buffer.status(), IsError(absl::StatusCode::kResourceExhausted, "cannot allocate",
                                       "expected at most "));
}

// A system that overcommits would grant the allocation and kill the process on the first write.
TEST(BufferTest, RejectsMoreThanMemoryAndSwap) {
  struct sysinfo info;
  ASSERT_EQ(sysinfo(&info), 0);
  const size_t all = (info.totalram + info.totalswap) * info.mem_unit;
  const auto buffer = Buffer::Allocate(all + (size_t{1} << 30));
  EXPECT_THAT(buffer.status(), IsError(absl::StatusCode::kResourceExhausted, "expected at most "));
}

TEST(AlignUpTest, RoundsUpToNextMultiple) {
  EXPECT_EQ(AlignUp(0), 0u);
  EXPECT_EQ(AlignUp(1), 64u);
  EXPECT_EQ(AlignUp(64), 64u);
  EXPECT_EQ(AlignUp(9, 8), 16u);
}

TEST(TensorTest, AllocateReturnsZeros) {
  const auto tensor = Tensor::Allocate(DT_INT32, {2, 3});
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->bytes(), 24u);
  EXPECT_THAT(tensor->flat<int32_t>(), Each(0));
}

TEST(TensorTest, AllocateRejectsUnknownAndTooLargeShapes) {
  EXPECT_THAT(Tensor::Allocate(DT_FLOAT, {2, -1}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "fully defined", "got [2,?]"));
  EXPECT_THAT(Tensor::Allocate(DT_FLOAT, Shape::UnknownRank()).status(),
              IsError(absl::StatusCode::kInvalidArgument, "fully defined", "got [*]"));
  EXPECT_THAT(Tensor::Allocate(DT_FLOAT, {int64_t{1} << 40, int64_t{1} << 40}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "overflows"));
  // This exceeds the address space, so it fails under every overcommit setting.
  EXPECT_THAT(Tensor::Allocate(DT_FLOAT, {int64_t{1} << 58}).status(),
              IsError(absl::StatusCode::kResourceExhausted, "1152921504606846976 bytes"));
}

TEST(TensorTest, AllocateRejectsDtypesWithoutFixedSize) {
  EXPECT_THAT(Tensor::Allocate(DT_STRING, {}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "dtype string"));
  EXPECT_THAT(Tensor::Allocate(DT_INVALID, {}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "dtype invalid"));
}

TEST(TensorTest, DefaultConstructedTensorHasNoValue) {
  EXPECT_FALSE(Tensor().has_value());
  EXPECT_TRUE(Tensor::Scalar<float>(0).has_value());
}

TEST(TensorTest, TensorHoldsValuesItIsConstructedFrom) {
  EXPECT_EQ(Tensor::Scalar<int64_t>(7).scalar<int64_t>(), 7);
  EXPECT_THAT(Tensor::Vector<float>({1, 2}).flat<float>(), ElementsAre(1, 2));
  const Tensor matrix = Tensor::Of<uint8_t>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(matrix.shape(), Shape({2, 2}));
  EXPECT_THAT(matrix.flat<uint8_t>(), ElementsAre(1, 2, 3, 4));
}

TEST(TensorDeathTest, DiesWhenReadAsAnotherType) {
  EXPECT_DEATH((void)Tensor::Scalar<float>(1).data<double>(), "double elements.*float\\[\\]");
}

TEST(TensorDeathTest, DiesWhenValuesDoNotFillShape) {
  EXPECT_DEATH(Tensor::Of<float>({3}, {1, 2}), "float\\[3\\].*expected 3, got 2");
}

TEST(TensorTest, CopySharesMemoryAndCloneDoesNot) {
  Tensor original = Tensor::Vector<float>({1, 2});
  const Tensor copy = original;
  const Tensor clone = *original.Clone();
  original.flat<float>()[0] = 9;
  EXPECT_EQ(copy.flat<float>()[0], 9);
  EXPECT_EQ(clone.flat<float>()[0], 1);
  EXPECT_FALSE(Tensor().Clone()->has_value());
}

TEST(TensorTest, CopyOfInlineScalarHasItsOwnValue) {
  const Tensor original = Tensor::InlineScalar(DT_FLOAT);
  original.data<float>()[0] = 1;
  const Tensor copy = original;
  original.data<float>()[0] = 2;
  EXPECT_EQ(copy.scalar<float>(), 1);
  EXPECT_EQ(original.Clone()->scalar<float>(), 2);
  EXPECT_TRUE(Tensor::Identical(copy, Tensor::Scalar<float>(1)));
  EXPECT_TRUE(Tensor::FitsInline(DT_INT64));
  EXPECT_FALSE(Tensor::FitsInline(DT_RESOURCE));
}

TEST(TensorTest, RowsAreAViewAlongLeadingDimension) {
  const Tensor tensor = Tensor::Of<int32_t>({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor rows = tensor.Rows(1, 3);
  EXPECT_EQ(rows.shape(), Shape({2, 2}));
  EXPECT_THAT(rows.flat<int32_t>(), ElementsAre(3, 4, 5, 6));
  tensor.flat<int32_t>()[2] = 30;
  EXPECT_EQ(rows.flat<int32_t>()[0], 30);
  EXPECT_EQ(tensor.Rows(2, 2).shape(), Shape({0, 2}));
}

TEST(TensorDeathTest, DiesForRowsOutOfRange) {
  EXPECT_DEATH(Tensor::Vector<float>({1, 2}).Rows(1, 3), "\\[1, 3\\).* float\\[2\\]");
}

TEST(TensorTest, ReshapedTensorSharesMemory) {
  const Tensor tensor = Tensor::Of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor flat = tensor.Reshaped({6});
  EXPECT_EQ(flat.raw(), tensor.raw());
  EXPECT_EQ(flat.shape(), Shape({6}));
}

TEST(TensorTest, ViewKeepsOwnerAlive) {
  auto owner = std::make_shared<std::vector<float>>(2, 5.0f);
  const std::weak_ptr<std::vector<float>> watch = owner;
  {
    const Tensor view =
        Tensor::View(DT_FLOAT, {2}, reinterpret_cast<std::byte*>(owner->data()), owner);
    owner.reset();
    EXPECT_THAT(view.flat<float>(), ElementsAre(5, 5));
  }
  EXPECT_TRUE(watch.expired());
}

TEST(TensorTest, IdenticalComparesBitsShapeAndDtype) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(Tensor::Identical(Tensor::Scalar(nan), Tensor::Scalar(nan)));
  EXPECT_FALSE(Tensor::Identical(Tensor::Scalar(0.0f), Tensor::Scalar(-0.0f)));
  EXPECT_FALSE(Tensor::Identical(Tensor::Scalar(0.0f), Tensor::Vector<float>({0.0f})));
  EXPECT_FALSE(Tensor::Identical(Tensor::Scalar<int32_t>(0), Tensor::Scalar(0.0f)));
  EXPECT_TRUE(Tensor::Identical(Tensor(), Tensor()));
}

TEST(IntegersOfTest, ReadsOnlyInt32AndInt64) {
  EXPECT_THAT(*IntegersOf(Tensor::Vector<int32_t>({1, -2})), ElementsAre(1, -2));
  EXPECT_THAT(*IntegersOf(Tensor::Scalar<int64_t>(3)), ElementsAre(3));
  EXPECT_THAT(IntegersOf(Tensor::Scalar(1.0f)).status(),
              IsError(absl::StatusCode::kInvalidArgument, "got float"));
}

}  // namespace
}  // namespace mirrorflow
