// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/packed_convolution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {

bool PackedConvolution::Supports(const ConvolutionGeometry& g) { return !g.nchw && g.groups == 1; }

// With AVX-512, oneDNN is always faster. Without, it is faster for 1x1 windows and for few
// channels, whose products have few columns.
bool PackedConvolution::IsFaster(const ConvolutionGeometry& g) {
  return !HasAvx512() && g.h.size * g.w.size > 1 && g.in_channels >= 96 && g.out_channels >= 96;
}

std::string PackedConvolution::FormKey() const {
  const PackedProduct product = ProductOf(1);
  return absl::StrCat("packed ", product.k, " ", product.n);
}

void PackedConvolution::MakeForm(const float* filter, float* form) const {
  ProductOf(1).Pack({filter, g_.filter_channels, 1}, form);
}

void PackedConvolution::CopyInputs(const float* images, int64_t pixel, int64_t first, int64_t count,
                                   float* to) const {
  const int64_t channels = g_.in_channels;
  const int64_t x = pixel % g_.w.out, y = pixel / g_.w.out % g_.h.out;
  const int64_t image = pixel / g_.w.out / g_.h.out;
  int64_t tap = first / channels, channel = first % channels;
  for (int64_t copied; count > 0; count -= copied, to += copied, ++tap, channel = 0) {
    copied = std::min(channels - channel, count);
    const int64_t row = g_.h.start(y) + tap / g_.w.size * g_.h.dilation;
    const int64_t column = g_.w.start(x) + tap % g_.w.size * g_.w.dilation;
    if (row < 0 || row >= g_.h.in || column < 0 || column >= g_.w.in) {
      std::fill_n(to, copied, 0.0f);
    } else {
      const int64_t from = (image * g_.h.in + row) * g_.w.in + column;
      std::copy_n(images + from * channels + channel, copied, to);
    }
  }
}

void PackedConvolution::Run(const float* images, const float* form, const float* bias, float* out,
                            float* /*scratch*/,
                            absl::FunctionRef<void(int64_t first, int64_t pixels)> finish) const {
  const int64_t per_part = PackedProduct::RowsPerPart(pixels());
  for (int64_t pixel = 0; pixel < pixels(); pixel += per_part) {
    const PackedProduct product = ProductOf(std::min(per_part, pixels() - pixel));
    const auto copy = [&](int64_t first, int64_t depth, float* rows) {
      for (int64_t i = 0; i < product.m; ++i) {
        CopyInputs(images, pixel + i, first, depth, rows + i * PackedProduct::kRowStep);
      }
    };
    product.Store(copy, form, out + pixel * product.out_stride, bias);
    finish(pixel, product.m);
  }
}

}  // namespace mirrorflow
