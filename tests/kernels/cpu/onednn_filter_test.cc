// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn_filter.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

struct Blocks {
  int64_t in;
  int64_t out;
  bool in_is_innermost = false;
};

// Returns a filter [3, 2, in_channels, out_channels] whose dimensions are, from the outermost:
// blocks of output channels, height, width, blocks of input channels.
BlockedFilter FilterOf(int64_t in_channels, int64_t out_channels, const Blocks& blocks) {
  BlockedFilter f = {.height = 3,
                     .width = 2,
                     .in_channels = in_channels,
                     .out_channels = out_channels,
                     .in_block = blocks.in,
                     .out_block = blocks.out,
                     .in_is_innermost = blocks.in_is_innermost};
  f.in_stride = blocks.in * blocks.out;
  f.width_stride = in_channels / blocks.in * f.in_stride;
  f.height_stride = f.width * f.width_stride;
  f.out_stride = f.height * f.height_stride;
  return f;
}

void ExpectCopy(const BlockedFilter& f) {
  ASSERT_TRUE(f.CanCopy());
  std::vector<float> plain(f.height * f.width * f.in_channels * f.out_channels);
  std::iota(plain.begin(), plain.end(), 1.0f);
  const int64_t out_blocks = (f.out_channels + f.out_block - 1) / f.out_block;
  std::vector<float> want(out_blocks * f.out_stride, 0.0f);
  const float* next = plain.data();
  for (int64_t y = 0; y < f.height; ++y) {
    for (int64_t x = 0; x < f.width; ++x) {
      for (int64_t i = 0; i < f.in_channels; ++i) {
        for (int64_t o = 0; o < f.out_channels; ++o) {
          const int64_t in = i % f.in_block, out = o % f.out_block;
          want[y * f.height_stride + x * f.width_stride + i / f.in_block * f.in_stride +
               o / f.out_block * f.out_stride +
               (f.in_is_innermost ? out * f.in_block + in : in * f.out_block + out)] = *next++;
        }
      }
    }
  }
  constexpr float kUntouched = -7;
  std::vector<float> got(want.size() + 1, kUntouched);
  f.Copy(plain.data(), got.data());
  EXPECT_EQ(got.back(), kUntouched);
  got.pop_back();
  EXPECT_EQ(got, want);
}

TEST(BlockedFilterTest, CopiesRows) {
  for (const int64_t block : {8, 16, 32, 48, 64}) {
    for (const int64_t out_channels : {block, 3 * block, block - 1, 2 * block + 5}) {
      SCOPED_TRACE(testing::Message() << block << " of " << out_channels);
      ExpectCopy(FilterOf(/*in_channels=*/7, out_channels, {.in = 1, .out = block}));
    }
  }
}

TEST(BlockedFilterTest, CopiesRowsOfSquareBlocks) {
  ExpectCopy(FilterOf(32, 48, {.in = 16, .out = 16}));
  ExpectCopy(FilterOf(16, 20, {.in = 8, .out = 8}));
}

TEST(BlockedFilterTest, TransposesBlocks) {
  ExpectCopy(FilterOf(32, 48, {.in = 16, .out = 16, .in_is_innermost = true}));
  ExpectCopy(FilterOf(24, 8, {.in = 8, .out = 8, .in_is_innermost = true}));
  ExpectCopy(FilterOf(16, 32, {.in = 8, .out = 16, .in_is_innermost = true}));
}

TEST(BlockedFilterTest, OtherLayoutsAreNotSupported) {
  EXPECT_FALSE(FilterOf(7, 24, {.in = 1, .out = 24}).CanCopy());
  EXPECT_FALSE(FilterOf(20, 16, {.in = 16, .out = 16}).CanCopy());
  EXPECT_FALSE(FilterOf(16, 20, {.in = 16, .out = 16, .in_is_innermost = true}).CanCopy());
  EXPECT_FALSE(FilterOf(16, 16, {.in = 4, .out = 16, .in_is_innermost = true}).CanCopy());
}

TEST(BlockedFilterTest, FilterInOneBlockIsPlain) {
  EXPECT_TRUE(FilterOf(7, 64, {.in = 1, .out = 64}).IsPlain());
  EXPECT_FALSE(FilterOf(7, 63, {.in = 1, .out = 64}).IsPlain());
  EXPECT_FALSE(FilterOf(7, 128, {.in = 1, .out = 64}).IsPlain());
  EXPECT_FALSE(FilterOf(16, 16, {.in = 16, .out = 16, .in_is_innermost = true}).IsPlain());
}

}  // namespace
}  // namespace mirrorflow
