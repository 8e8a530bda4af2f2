// SPDX-License-Identifier: Apache-2.0
//
// libjpeg-turbo reports errors through a function that must not return, so our error function jumps
// to the most recent setjmp. The functions below that call setjmp have no objects with destructors;
// their callers own everything.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
// clang-format off
#include <jpeglib.h>  // must follow cstddef and cstdio
#include <jerror.h>   // must follow jpeglib.h
// clang-format on

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "train/formats/exif.h"
#include "train/formats/image.h"
#include "train/formats/image_internal.h"

namespace mirrorflow {
namespace {

// An upper bound: even if every block of 8 x 8 pixels takes only one bit, which is the shortest
// code, a byte encodes fewer pixels.
constexpr int64_t kMaxPixelsPerByte = 1024;
// Each scan of a progressive image visits all blocks, even without data. Encoders write about ten.
constexpr int kMaxScans = 500;

struct Decoder {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf on_error;
  char message[JMSG_LENGTH_MAX] = "";

  Decoder() = default;
  ~Decoder() { jpeg_destroy_decompress(&jpeg); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
};

Decoder* Of(j_common_ptr jpeg) { return static_cast<Decoder*>(jpeg->client_data); }

[[noreturn]] void OnError(j_common_ptr jpeg) {
  Decoder* const decoder = Of(jpeg);
  jpeg->err->format_message(jpeg, decoder->message);
  std::longjmp(decoder->on_error, 1);
}

// Treats some warnings as errors, because the library then fills the rest of the image with grey or
// noise.
void OnMessage(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
      OnError(jpeg);
    default:
      break;  // for example, bytes after the image
  }
}

void OnProgress(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMaxScans) return;
  std::snprintf(Of(jpeg)->message, JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
  std::longjmp(Of(jpeg)->on_error, 1);
}

bool ReadHeader(Decoder* decoder, const unsigned char* bytes, size_t size) {
  if (setjmp(decoder->on_error)) return false;
  decoder->jpeg.err = jpeg_std_error(&decoder->errors);
  decoder->errors.error_exit = OnError;
  decoder->errors.emit_message = OnMessage;
  decoder->jpeg.client_data = decoder;
  jpeg_create_decompress(&decoder->jpeg);
  decoder->progress.progress_monitor = OnProgress;
  decoder->jpeg.progress = &decoder->progress;
  jpeg_mem_src(&decoder->jpeg, bytes, size);
  jpeg_read_header(&decoder->jpeg, TRUE);
  return true;
}

bool Start(Decoder* decoder, J_COLOR_SPACE colors, int ratio) {
  if (setjmp(decoder->on_error)) return false;
  jpeg_decompress_struct* const jpeg = &decoder->jpeg;
  jpeg->out_color_space = colors;
  jpeg->scale_num = 1;
  jpeg->scale_denom = ratio;
  jpeg->dct_method = JDCT_ISLOW;
  jpeg->do_fancy_upsampling = TRUE;
  jpeg_calc_output_dimensions(jpeg);
  return jpeg_start_decompress(jpeg);
}

bool ReadRows(Decoder* decoder, unsigned char* out, size_t row_bytes) {
  if (setjmp(decoder->on_error)) return false;
  jpeg_decompress_struct* const jpeg = &decoder->jpeg;
  while (jpeg->output_scanline < jpeg->output_height) {
    unsigned char* row = out + jpeg->output_scanline * row_bytes;
    jpeg_read_scanlines(jpeg, &row, 1);
  }
  return jpeg_finish_decompress(jpeg);
}

// Converts CMYK to RGB. If `inverted` is true, the values are inverted, as in files from Adobe
// programs.
absl::StatusOr<Tensor> ToRgb(const Tensor& cmyk, bool inverted) {
  MF_ASSIGN_OR_RETURN(Tensor rgb,
                      Tensor::Allocate(DT_UINT8, {cmyk.shape().dim(0), cmyk.shape().dim(1), 3}));
  const uint8_t* from = cmyk.data<uint8_t>();
  const uint8_t flip = inverted ? 0 : 255;
  for (uint8_t *to = rgb.data<uint8_t>(), *end = to + rgb.num_elements(); to != end; to += 3) {
    const int key = from[3] ^ flip;
    for (int i = 0; i < 3; ++i) to[i] = static_cast<uint8_t>(key * (from[i] ^ flip) / 255);
    from += 4;
  }
  return rgb;
}

absl::StatusOr<Tensor> Decode(absl::string_view bytes, const ImageOptions& options) {
  MF_RETURN_IF_ERROR(internal::CheckImageOptions(options));
  // The library treats empty input as a mistake in the calling code.
  if (bytes.empty()) return internal::DamagedImage("JPEG", "no bytes");
  Decoder decoder;
  if (!ReadHeader(&decoder, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())) {
    return internal::DamagedImage("JPEG", decoder.message);
  }
  const int64_t file_height = decoder.jpeg.image_height, file_width = decoder.jpeg.image_width;
  MF_RETURN_IF_ERROR(internal::CheckPixels(file_height, file_width, options));
  const int64_t needed = file_height * file_width / kMaxPixelsPerByte;
  if (needed > static_cast<int64_t>(bytes.size())) {
    return absl::DataLossError(absl::StrCat("the image is cut short; expected at least ", needed,
                                            " bytes of JPEG for ", file_height, " x ", file_width,
                                            " pixels, got ", bytes.size()));
  }
  const bool cmyk = decoder.jpeg.num_components == 4, grey = decoder.jpeg.num_components == 1;
  const int wanted = options.channels != 0 ? options.channels : grey ? 1 : 3;
  const J_COLOR_SPACE colors = cmyk ? JCS_CMYK : wanted == 1 ? JCS_GRAYSCALE : JCS_RGB;
  if (!Start(&decoder, colors, options.ratio)) {
    return internal::DamagedImage("JPEG", decoder.message);
  }
  const int64_t height = decoder.jpeg.output_height, width = decoder.jpeg.output_width;
  const int64_t channels = decoder.jpeg.output_components;
  MF_CHECK(channels == (cmyk ? 4 : wanted));
  MF_ASSIGN_OR_RETURN(Tensor image, Tensor::Allocate(DT_UINT8, {height, width, channels}));
  if (!ReadRows(&decoder, image.data<uint8_t>(), width * channels)) {
    return internal::DamagedImage("JPEG", decoder.message);
  }
  if (!cmyk) return image;
  MF_ASSIGN_OR_RETURN(image, ToRgb(image, decoder.jpeg.saw_Adobe_marker));
  if (wanted == 1) return internal::ToGrey(image);
  return image;
}

}  // namespace

absl::StatusOr<Tensor> DecodeJpeg(absl::string_view bytes, const ImageOptions& options) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<Tensor> {
    MF_ASSIGN_OR_RETURN(Tensor image, Decode(bytes, options));
    return options.ignore_orientation ? image : TurnUpright(image, OrientationOfJpeg(bytes));
  });
}

}  // namespace mirrorflow
