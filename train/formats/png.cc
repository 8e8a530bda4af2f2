// SPDX-License-Identifier: Apache-2.0
//
// Errors in libpng end in a longjmp to the most recent setjmp. The functions below that call setjmp
// have no objects with destructors; their callers own everything.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "train/formats/exif.h"
#include "train/formats/image.h"
#include "train/formats/image_internal.h"

namespace mirrorflow {
namespace {

constexpr uint64_t kMaxDeflateRatio = 1032;  // zlib's technical notes

// A libpng decoder, and the bytes that it has not read yet.
struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const char* next = nullptr;
  size_t left = 0;
  char message[128] = "";

  explicit Decoder(absl::string_view bytes) : next(bytes.data()), left(bytes.size()) {}
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
};

void OnError(png_structp png, png_const_charp message) {
  auto* const decoder = static_cast<Decoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->message, sizeof(decoder->message), "%s", message);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

void ReadBytes(png_structp png, png_bytep out, size_t size) {
  auto* const decoder = static_cast<Decoder*>(png_get_io_ptr(png));
  if (size > decoder->left) png_error(png, "the image is cut short");
  std::memcpy(out, decoder->next, size);
  decoder->next += size;
  decoder->left -= size;
}

bool ReadHeader(Decoder* decoder) {
  if (setjmp(png_jmpbuf(decoder->png))) return false;
  png_set_read_fn(decoder->png, decoder, ReadBytes);
  png_set_user_limits(decoder->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // CheckPixels() limits both
  // Skip chunks that do not affect the pixels, because libpng would allocate the sizes that they
  // declare.
  png_set_keep_unknown_chunks(decoder->png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(decoder->png, decoder->info);
  return true;
}

// Requests 8-bit samples and, if the options specify channels, RGB or grey without alpha.
bool SetOutput(Decoder* decoder, int channels) {
  if (setjmp(png_jmpbuf(decoder->png))) return false;
  const png_structp png = decoder->png;
  png_set_strip_16(png);
  png_set_expand(png);  // palettes, grey with fewer bits, and a transparent colour
  if (channels != 0) png_set_strip_alpha(png);
  // Grey is computed from RGB later, because libpng's result depends on the file's gamma.
  if (channels == 3) png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder->info);
  return true;
}

bool ReadRows(Decoder* decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder->png))) return false;
  png_read_image(decoder->png, rows);
  png_read_end(decoder->png, nullptr);
  return true;
}

absl::Status Open(Decoder* decoder) {
  decoder->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, decoder, OnError, OnWarning);
  if (decoder->png != nullptr) decoder->info = png_create_info_struct(decoder->png);
  if (decoder->info == nullptr) {
    return absl::ResourceExhaustedError("PNG: not enough memory to decode an image");
  }
  if (!ReadHeader(decoder)) return internal::DamagedImage("PNG", decoder->message);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Decode(absl::string_view bytes, const ImageOptions& options) {
  MF_RETURN_IF_ERROR(internal::CheckImageOptions(options));
  if (options.ratio != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid ratio; expected 1 for PNG, got ", options.ratio));
  }
  Decoder decoder(bytes);
  MF_RETURN_IF_ERROR(Open(&decoder));
  const int64_t height = png_get_image_height(decoder.png, decoder.info);
  const int64_t width = png_get_image_width(decoder.png, decoder.info);
  MF_RETURN_IF_ERROR(internal::CheckPixels(height, width, options));
  const uint64_t needed = png_get_rowbytes(decoder.png, decoder.info) * height;
  if (needed / kMaxDeflateRatio > bytes.size()) {
    return absl::DataLossError(absl::StrCat("the image is cut short; expected at least ",
                                            needed / kMaxDeflateRatio, " bytes of PNG for ", height,
                                            " x ", width, " pixels, got ", bytes.size()));
  }
  if (!SetOutput(&decoder, options.channels)) {
    return internal::DamagedImage("PNG", decoder.message);
  }
  const int64_t channels = png_get_channels(decoder.png, decoder.info);
  const size_t row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  MF_CHECK(row_bytes == static_cast<size_t>(width * channels));
  MF_ASSIGN_OR_RETURN(Tensor image, Tensor::Allocate(DT_UINT8, {height, width, channels}));
  std::vector<png_bytep> rows(height);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = image.data<uint8_t>() + i * row_bytes;
  if (!ReadRows(&decoder, rows.data())) return internal::DamagedImage("PNG", decoder.message);
  if (options.channels == 1 && channels == 3) return internal::ToGrey(image);
  return image;
}

}  // namespace

absl::StatusOr<Tensor> DecodePng(absl::string_view bytes, const ImageOptions& options) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<Tensor> {
    MF_ASSIGN_OR_RETURN(Tensor image, Decode(bytes, options));
    return options.ignore_orientation ? image : TurnUpright(image, OrientationOfPng(bytes));
  });
}

}  // namespace mirrorflow
