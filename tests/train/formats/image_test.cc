// SPDX-License-Identifier: Apache-2.0
#include "train/formats/image.h"

#include <malloc.h>
#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/process_memory.h"
#include "train/formats/npz.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kFolder = "tests/references/formats/";

std::string Stored(absl::string_view name) {
  std::ifstream in(absl::StrCat(kFolder, name), std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::Status ErrorOf(absl::string_view bytes, const ImageOptions& options = {}) {
  return DecodeImage(bytes, options).status();
}

// images.npz has the pixels that TensorFlow's decoders return. Its arrays are named after the file
// and the options: "rgb_420.jpg CHANNELS[ RATIO]".
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

TEST(ImageTest, GreyUsesTheWeightsOfBt601) {
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
    // The last two bytes do not matter: they are a JPEG's end marker, or part of the checksum of a
    // PNG's empty end chunk.
    for (size_t n = 8; n < bytes.size() - 2; ++n) {
      EXPECT_THAT(ErrorOf(bytes.substr(0, n)),
                  IsError(absl::StatusCode::kDataLoss, "expected a whole"))
          << name << " " << n;
    }
  }
  EXPECT_THAT(ErrorOf(Stored("rgb.png").substr(0, 100)),
              IsError(absl::StatusCode::kDataLoss, "PNG", "cut short"));
  EXPECT_THAT(ErrorOf(Stored("rgb_420.jpg").substr(0, 900)),
              IsError(absl::StatusCode::kDataLoss, "JPEG", "Premature end"));
}

TEST(ImageTest, ChangedByteInPngNeverGivesWrongPixels) {
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
  EXPECT_THAT(ErrorOf(png),
              IsError(absl::StatusCode::kDataLoss, "CRC"));  // the header chunk's checksum
  std::string jpeg = Stored("grey.jpg");
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\x3f\xff\x3f\xff");  // 16383 x 16383
  EXPECT_THAT(ErrorOf(jpeg),
              IsError(absl::StatusCode::kDataLoss, "262112 bytes of JPEG", "got 465"));
  jpeg.replace(frame + 5, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(ErrorOf(jpeg), IsError(absl::StatusCode::kDataLoss, "Maximum supported image"));
  for (const char* name : {"grey.png", "grey.jpg"}) {
    EXPECT_THAT(ErrorOf(Stored(name), {.max_pixels = 436}),
                IsError(absl::StatusCode::kResourceExhausted, "436 pixels", "got 19 x 23"));
    EXPECT_TRUE(DecodeImage(Stored(name), {.max_pixels = 437}).ok());
  }
}

// Returns EXIF data in which the orientation follows another entry.
std::string Exif(int orientation, bool big_endian) {
  const auto number = [&](uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) {
      text += static_cast<char>(value >> 8 * (big_endian ? bytes - 1 - i : i));
    }
    return text;
  };
  const auto entry = [&](int tag, int value) {
    return number(tag, 2) + number(3, 2) + number(1, 4) + number(value, 2) + number(0, 2);
  };
  return (big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) + number(2, 2) +
         entry(0x0100, 9) + entry(0x0112, orientation) + number(0, 4);
}

std::string BigEndian(uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes; i-- > 0;) text += static_cast<char>(value >> 8 * i);
  return text;
}

std::string Chunk(absl::string_view type, absl::string_view data) {
  const std::string chunk = absl::StrCat(type, data);
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size());
  return BigEndian(data.size(), 4) + chunk + BigEndian(crc, 4);
}

// Adds chunks to a PNG image: after its header or, if `late` is true, before its end.
std::string WithChunks(const std::string& png, absl::string_view chunks, bool late) {
  const size_t place = late ? png.size() - 12 : 33;
  return absl::StrCat(png.substr(0, place), chunks, png.substr(place));
}

// Adds EXIF data to an image: after the first marker of a JPEG, or to a PNG as WithChunks does.
std::string WithExif(const std::string& image, const std::string& exif, bool late = false) {
  if (image[0] == '\xff') {
    const std::string segment = std::string("Exif\0\0", 6) + exif;
    return image.substr(0, 2) + "\xff\xe1" + BigEndian(segment.size() + 2, 2) + segment +
           image.substr(2);
  }
  return WithChunks(image, Chunk("eXIf", exif), late);
}

std::string Deflated(const std::string& text) {
  std::vector<Bytef> out(compressBound(text.size()));
  uLongf size = out.size();
  EXPECT_EQ(compress(out.data(), &size, reinterpret_cast<const Bytef*>(text.data()), text.size()),
            Z_OK);
  return std::string(out.begin(), out.begin() + size);
}

// Returns how much `action` raises the peak resident memory.
int64_t PeakOf(absl::FunctionRef<void()> action) {
  malloc_trim(0);                                 // so that reused memory is counted again
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
  const int64_t before = MemoryFigure("VmRSS");
  action();
  return MemoryFigure("VmHWM") - before;
}

// libpng inflates up to 8 MB of each text chunk, and keeps up to 1000 of them.
TEST(ImageTest, CompressedChunksTakeNoMemory) {
  constexpr int64_t kMiB = 1 << 20;
  const std::string png = Stored("grey.png");
  const Tensor pixels = *DecodePng(png);
  constexpr int kInflated = 7'900'000;
  const std::string text = Deflated(std::string(kInflated, 'a'));
  std::string profile = BigEndian(kInflated, 4) + std::string(kInflated - 4, '\0');
  profile.replace(12, 12, "mntrGRAYXYZ ");  // a grey profile without tags
  profile.replace(36, 4, "acsp");
  const auto many = [](const std::string& chunk) {
    std::string chunks;
    for (int i = 0; i < 20; ++i) chunks += chunk;
    return chunks;
  };
  const std::pair<const char*, std::string> kinds[] = {
      {"zTXt", many(Chunk("zTXt", std::string("k\0\0", 3) + text))},
      {"iTXt", many(Chunk("iTXt", std::string("k\0\1\0\0\0", 6) + text))},
      {"iCCP", Chunk("iCCP", std::string("k\0\0", 3) + Deflated(profile))},
  };
  // Some kernels do not reset the peak, which cannot be measured there.
  const bool can_measure = PeakOf([] {}) < kMiB;
  for (const auto& [kind, chunks] : kinds) {
    for (const bool late : {false, true}) {
      const std::string bomb = WithChunks(png, chunks, late);
      const int64_t peak = PeakOf([&, late = late, kind = kind] {
        const absl::StatusOr<Tensor> image = DecodeImage(bomb);
        ASSERT_TRUE(image.ok()) << image.status();
        EXPECT_TRUE(Tensor::Identical(*image, pixels)) << kind << late;
      });
      if (can_measure) {
        EXPECT_LT(peak, 4 * kMiB) << kind << (late ? " after" : " before") << " the pixels";
      }
    }
  }
}

// The sides of the upright image that hold the file's first row and first column, according to the
// standard (JEITA CP-3451, "Orientation").
struct Sides {
  char row, column;
};
constexpr Sides kSides[] = {{'t', 'l'}, {'t', 'r'}, {'b', 'r'}, {'b', 'l'},
                            {'l', 't'}, {'r', 't'}, {'r', 'b'}, {'l', 'b'}};

// Returns the pixel of `upright` that is `row` file rows and `column` file columns away from the
// file's first pixel.
const uint8_t* Pixel(const Tensor& upright, const Sides& sides, int64_t row, int64_t column) {
  const int64_t height = upright.shape().dim(0), width = upright.shape().dim(1);
  int64_t y = 0, x = 0;
  for (const auto& [side, distance] :
       {std::pair(sides.row, row), std::pair(sides.column, column)}) {
    if (side == 't') y = distance;
    if (side == 'b') y = height - 1 - distance;
    if (side == 'l') x = distance;
    if (side == 'r') x = width - 1 - distance;
  }
  return upright.data<uint8_t>() + (y * width + x) * upright.shape().dim(2);
}

TEST(ImageTest, PhotoIsRotatedUpright) {
  for (const std::string name : {"rgb_444.jpg", "grey.jpg", "cmyk.jpg", "rgb.png", "grey.png"}) {
    const std::string bytes = Stored(name);
    const Tensor file = *DecodeImage(bytes);
    const int64_t rows = file.shape().dim(0), columns = file.shape().dim(1);
    for (int o = 1; o <= 8; ++o) {
      for (const bool big_endian : {false, true}) {
        const std::string photo = WithExif(bytes, Exif(o, big_endian), /*late=*/big_endian);
        const absl::StatusOr<Tensor> upright = DecodeImage(photo);
        ASSERT_TRUE(upright.ok()) << name << ": " << upright.status();
        ASSERT_EQ(upright->shape().dim(0), o < 5 ? rows : columns) << name << " " << o;
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            ASSERT_EQ(*Pixel(*upright, kSides[o - 1], i, j),
                      file.data<uint8_t>()[(i * columns + j) * file.shape().dim(2)])
                << name << " " << o;
          }
        }
        EXPECT_TRUE(Tensor::Identical(*DecodeImage(photo, {.ignore_orientation = true}), file));
      }
    }
  }
}

TEST(ImageTest, ScaledPhotoIsRotatedUpright) {
  const std::string photo = WithExif(Stored("rgb_444.jpg"), Exif(6, false));
  const Tensor file = *DecodeImage(photo, {.ratio = 2, .ignore_orientation = true});
  const Tensor upright = *DecodeImage(photo, {.ratio = 2});
  EXPECT_EQ(upright.shape().dim(0), file.shape().dim(1));
  EXPECT_EQ(upright.shape().dim(1), file.shape().dim(0));
}

TEST(ImageTest, DamagedExifLeavesImageUnrotated) {
  for (const std::string name : {"rgb_444.jpg", "rgb.png"}) {
    const std::string bytes = Stored(name);
    const Tensor file = *DecodeImage(bytes);
    const std::string exif = Exif(6, true);
    std::vector<std::string> damaged = {Exif(0, true), Exif(9, false), "", "MM", "junk and more"};
    for (size_t n = 0; n + 16 < exif.size(); ++n) damaged.push_back(exif.substr(0, n));
    std::string far = exif;
    far.replace(4, 4, "\xff\xff\xff\xff");
    damaged.push_back(far);
    std::string many = exif;
    many.replace(8, 2, "\xff\xff");
    many.replace(22, 2, "\x01\x13");  // another tag
    damaged.push_back(many);
    for (const std::string& bad : damaged) {
      const absl::StatusOr<Tensor> image = DecodeImage(WithExif(bytes, bad));
      ASSERT_TRUE(image.ok()) << name << ": " << image.status();
      EXPECT_TRUE(Tensor::Identical(*image, file)) << name << " " << bad.size();
    }
    // A chunk with a wrong checksum is ignored.
    std::string changed = WithExif(bytes, exif);
    if (name == "rgb.png") {
      changed[changed.find("eXIf") + 5] ^= 1;
      EXPECT_TRUE(Tensor::Identical(*DecodeImage(changed), file));
    }
  }
}

TEST(ImageTest, OtherFormatsAndOptionsAreRejected) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(ErrorOf("GIF89a"), IsError(kInvalid, "PNG or JPEG image", "got a GIF image"));
  EXPECT_THAT(ErrorOf("\x89 and more"), IsError(kInvalid, "PNG or JPEG", R"('\x89 and mo')"));
  EXPECT_THAT(ErrorOf(""), IsError(kInvalid, "PNG or JPEG"));
  EXPECT_THAT(DecodePng("").status(), IsError(absl::StatusCode::kDataLoss, "PNG"));
  EXPECT_THAT(DecodeJpeg("").status(), IsError(absl::StatusCode::kDataLoss, "JPEG"));
  EXPECT_THAT(ErrorOf(Stored("rgb.png"), {.channels = 2}), IsError(kInvalid, "channels", "got 2"));
  EXPECT_THAT(ErrorOf(Stored("rgb.png"), {.ratio = 2}), IsError(kInvalid, "ratio", "PNG", "got 2"));
  EXPECT_THAT(ErrorOf(Stored("grey.jpg"), {.ratio = 3}),
              IsError(kInvalid, "ratio", "1, 2, 4 or", "got 3"));
}

}  // namespace
}  // namespace mirrorflow
