// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "train/summary/tensor_summary.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

// Decodes a PNG of any pixel format to RGBA.
std::vector<int> Decode(const std::string& bytes) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) << png.message;
  png.format = PNG_FORMAT_RGBA;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(png));
  EXPECT_TRUE(png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr)) << png.message;
  return std::vector<int>(pixels.begin(), pixels.end());
}

proto::Summary::Image Encode(const Tensor& image, absl::string_view data_format) {
  absl::StatusOr<proto::Summary::Image> encoded = ImageSummary(image, data_format);
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  return encoded.value_or(proto::Summary::Image());
}

absl::Status ErrorOf(const Tensor& image, absl::string_view data_format) {
  return ImageSummary(image, data_format).status();
}

TEST(ImageSummaryTest, KeepsEveryPixelWithAnyNumberOfChannels) {
  const proto::Summary::Image rgb =
      Encode(Tensor::Of<uint8_t>({1, 2, 3}, {255, 0, 0, 10, 20, 30}), "HWC");
  EXPECT_EQ(rgb.height(), 1);
  EXPECT_EQ(rgb.width(), 2);
  EXPECT_EQ(rgb.colorspace(), 3);
  EXPECT_THAT(Decode(rgb.encoded_image_string()), ElementsAre(255, 0, 0, 255, 10, 20, 30, 255));
  const proto::Summary::Image rgba =
      Encode(Tensor::Of<uint8_t>({2, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), "HWC");
  EXPECT_EQ(rgba.height(), 2);
  EXPECT_EQ(rgba.colorspace(), 4);
  EXPECT_THAT(Decode(rgba.encoded_image_string()), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(Decode(Encode(Tensor::Of<uint8_t>({1, 1, 2}, {7, 9}), "HWC").encoded_image_string()),
              ElementsAre(7, 7, 7, 9));
  EXPECT_THAT(Decode(Encode(Tensor::Of<uint8_t>({1, 2}, {7, 9}), "HW").encoded_image_string()),
              ElementsAre(7, 7, 7, 255, 9, 9, 9, 255));
}

TEST(ImageSummaryTest, ReadsChannelsFirst) {
  const Tensor planes = Tensor::Of<uint8_t>({3, 1, 2}, {1, 2, 3, 4, 5, 6});
  const proto::Summary::Image image = Encode(planes, "CHW");
  EXPECT_EQ(image.width(), 2);
  EXPECT_EQ(image.colorspace(), 3);
  EXPECT_THAT(Decode(image.encoded_image_string()), ElementsAre(1, 3, 5, 255, 2, 4, 6, 255));
}

TEST(ImageSummaryTest, ScalesClipsAndRoundsFloatingElements) {
  const Tensor image = Tensor::Of<float>({1, 6}, {-1, 0, 0.5, 1, 7, NAN});
  const std::vector<int> pixels = Decode(Encode(image, "HW").encoded_image_string());
  std::vector<int> grey;
  for (size_t i = 0; i < pixels.size(); i += 4) grey.push_back(pixels[i]);
  EXPECT_THAT(grey, ElementsAre(0, 0, 128, 255, 255, 0));
}

TEST(ImageSummaryTest, ErrorsNameBadShapeFormatAndDtype) {
  const Tensor rgb = Tensor::Of<uint8_t>({1, 2, 3}, {0, 0, 0, 0, 0, 0});
  EXPECT_THAT(ErrorOf(rgb, "NHWC"),
              IsError(absl::StatusCode::kInvalidArgument, "HWC, CHW or HW", "got 'NHWC'"));
  EXPECT_THAT(ErrorOf(rgb, "HW"),
              IsError(absl::StatusCode::kInvalidArgument, "2 dimensions", "got uint8[1,2,3]"));
  EXPECT_THAT(ErrorOf(Tensor::Of<uint8_t>({1, 1, 5}, {0, 0, 0, 0, 0}), "HWC"),
              IsError(absl::StatusCode::kInvalidArgument, "channels", "got 5", "uint8[1,1,5]"));
  EXPECT_THAT(ErrorOf(Tensor::Of<uint8_t>({0, 2, 1}, {}), "HWC"),
              IsError(absl::StatusCode::kInvalidArgument, "got uint8[0,2,1]"));
  EXPECT_THAT(ErrorOf(Tensor::Of<int32_t>({1, 1}, {0}), "HW"),
              IsError(absl::StatusCode::kInvalidArgument, "[0, 1]", "got int32[1,1]"));
  EXPECT_THAT(ErrorOf(Tensor(), "HW"),
              IsError(absl::StatusCode::kInvalidArgument, "image", "got no value"));
}

}  // namespace
}  // namespace mirrorflow
