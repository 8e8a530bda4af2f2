// SPDX-License-Identifier: Apache-2.0
#include "train/formats/image.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "train/formats/npz.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

constexpr absl::string_view kFolder = "tests/references/formats/";

std::string Stored(absl::string_view name) {
  std::ifstream in(absl::StrCat(kFolder, name), std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string ErrorOf(absl::string_view bytes, const ImageOptions& options = {},
                    absl::StatusCode code = absl::StatusCode::kDataLoss) {
  const absl::Status status = DecodeImage(bytes, options).status();
  EXPECT_EQ(status.code(), code) << status;
  return std::string(status.message());
}

// images.npz has the pixels by TensorFlow's decoders, "rgb_420.jpg CHANNELS[ RATIO]".
TEST(ImageTest, DecodesSamePixelsAsTensorFlow) {
  const auto expected = ReadNpz(absl::StrCat(kFolder, "images.npz"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_GT(expected->size(), 30u);
  for (const auto& [name, pixels] : *expected) {
    const std::vector<std::string> parts = absl::StrSplit(name, ' ');
    ImageOptions options;
    ASSERT_TRUE(absl::SimpleAtoi(parts[1], &options.channels));
    if (parts.size() > 2) {
      ASSERT_TRUE(absl::SimpleAtoi(parts[2], &options.ratio));
    }
    const auto image = DecodeImage(Stored(parts[0]), options);
    ASSERT_TRUE(image.ok()) << name << ": " << image.status();
    ASSERT_EQ(image->TypeString(), pixels.TypeString()) << name;
    int largest = 0;
    for (int64_t i = 0; i < pixels.num_elements(); ++i) {
      largest = std::max(largest, std::abs(image->data<uint8_t>()[i] - pixels.data<uint8_t>()[i]));
    }
    EXPECT_EQ(largest, 0) << name;
  }
}

TEST(ImageTest, SizeOfHeaderIsThatOfImage) {
  for (const char* name : {"rgb.png", "grey.png", "rgba.png", "grey_alpha.png", "palette.png",
                           "bits.png", "deep.png", "rgb_420.jpg", "grey.jpg", "cmyk.jpg"}) {
    const std::string bytes = Stored(name);
    const auto size = ImageSize(bytes);
    ASSERT_TRUE(size.ok()) << name << ": " << size.status();
    EXPECT_EQ(Shape({size->height, size->width, size->channels}), DecodeImage(bytes)->shape())
        << name;
    EXPECT_TRUE(ImageSize(bytes.substr(0, bytes.size() - 20)).ok()) << name;
  }
}

TEST(ImageTest, GreyHasTheWeightsOfBt601) {
  const Tensor rgb = *DecodePng(Stored("rgb.png"));
  const Tensor grey = *DecodePng(Stored("rgb.png"), {.channels = 1});
  for (int64_t i = 0; i < grey.num_elements(); ++i) {
    const uint8_t* const p = rgb.data<uint8_t>() + 3 * i;
    ASSERT_NEAR(grey.data<uint8_t>()[i], 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2], 0.51);
  }
  EXPECT_EQ(DecodeJpeg(Stored("cmyk.jpg"), {.channels = 1})->shape(), Shape({37, 50, 1}));
}

TEST(ImageTest, ImageTruncatedAtAnyByteIsRejected) {
  for (const char* name : {"rgb.png", "rgb_420.jpg", "progressive.jpg"}) {
    const std::string bytes = Stored(name);
    // The end marker of a JPEG, and a checksum of the empty end of a PNG, carry no pixels.
    for (size_t n = 8; n < bytes.size() - 2; ++n) {
      EXPECT_THAT(ErrorOf(bytes.substr(0, n)), HasSubstr("expected a whole")) << name << " " << n;
    }
  }
  EXPECT_EQ(ErrorOf(Stored("rgb.png").substr(0, 100)),
            "the image is damaged; expected a whole PNG image, got the error 'the image is cut "
            "short'");
  EXPECT_EQ(ErrorOf(Stored("rgb_420.jpg").substr(0, 900)),
            "the image is damaged; expected a whole JPEG image, got the error 'Premature end of "
            "JPEG file'");
}

TEST(ImageTest, ChangedByteNeverGivesWrongPixelsOfPng) {
  const std::string bytes = Stored("grey.png");
  const Tensor pixels = *DecodePng(bytes);
  for (size_t n = 0; n < bytes.size(); ++n) {
    std::string changed = bytes;
    changed[n] ^= 0x20;
    const auto image = DecodePng(changed);
    if (image.ok()) {
      EXPECT_TRUE(Tensor::Identical(*image, pixels)) << n;
    }
  }
}

TEST(ImageTest, BytesAfterJpegAreIgnored) {
  EXPECT_TRUE(DecodeJpeg(Stored("rgb_420.jpg") + "tail").ok());
}

TEST(ImageTest, LargeSizeIsRejectedBeforeAllocation) {
  std::string png = Stored("grey.png");
  png.replace(16, 8, "\x7f\xff\xff\xff\x7f\xff\xff\xff");
  EXPECT_THAT(ErrorOf(png), HasSubstr("CRC"));  // of the header
  std::string jpeg = Stored("grey.jpg");
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x3f\xff\x3f\xff");  // 16383 x 16383
  EXPECT_EQ(ErrorOf(jpeg),
            "the image is cut short; expected at least 262112 bytes of JPEG for "
            "16383 x 16383 pixels, got 465");
  jpeg.replace(frame + 5, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(ErrorOf(jpeg, {}, absl::StatusCode::kDataLoss), HasSubstr("Maximum supported image"));
  for (const char* name : {"grey.png", "grey.jpg"}) {
    EXPECT_EQ(ErrorOf(Stored(name), {.max_pixels = 436}, absl::StatusCode::kResourceExhausted),
              "the image is too large; expected at most 436 pixels, got 19 x 23");
    EXPECT_TRUE(DecodeImage(Stored(name), {.max_pixels = 437}).ok());
  }
}

TEST(ImageTest, OtherFormatsAndOptionsAreRejected) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(ErrorOf("GIF89a", {}, kInvalid),
            "unknown image format; expected PNG or JPEG, got bytes that begin with 'GIF89a'");
  EXPECT_EQ(ImageSize("").status().code(), kInvalid);
  EXPECT_EQ(DecodePng("").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeJpeg("").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ErrorOf(Stored("rgb.png"), {.channels = 2}, kInvalid),
            "invalid number of channels; expected 0, 1 or 3, got 2");
  EXPECT_EQ(ErrorOf(Stored("rgb.png"), {.ratio = 2}, kInvalid),
            "invalid ratio; expected 1 for PNG, got 2");
  EXPECT_EQ(ErrorOf(Stored("grey.jpg"), {.ratio = 3}, kInvalid),
            "invalid ratio; expected 1, 2, 4 or 8, got 3");
}

}  // namespace
}  // namespace mirrorflow
