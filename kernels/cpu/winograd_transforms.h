// SPDX-License-Identifier: Apache-2.0
//
// The transforms of Winograd's algorithm (winograd.h), for vectors of channels.
#ifndef MIRRORFLOW_KERNELS_CPU_WINOGRAD_TRANSFORMS_H_
#define MIRRORFLOW_KERNELS_CPU_WINOGRAD_TRANSFORMS_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/float_vectors.h"
#include "kernels/cpu/vectorize.h"
#include "ops/window.h"

namespace mirrorflow::winograd {

// The number of channels must be a multiple of this.
inline constexpr int kChannels = 8;

template <int kFloats>
using Vector = typename VectorOf<kFloats>::type;

template <int kFloats>
MF_INLINE inline void Store(float* to, const Vector<kFloats>& v) {
  reinterpret_cast<Unaligned<kFloats>*>(to)->vector = v;
}

// Calls loop(width), where `width` is the size of the widest vectors that divide `channels`, as a
// std::integral_constant. `loop` must be MF_INLINE.
template <typename Loop>
void WithVectorsOf(int64_t channels, const Loop& loop) {
  if (channels % 16 == 0 && HasAvx512()) {
    internal::WithAvx512([&]() MF_INLINE { loop(std::integral_constant<int, 16>()); });
  } else {
    loop(std::integral_constant<int, kChannels>());
  }
}

// The transforms of one row or column, for polynomials that are known at kTile + 1 points and at
// infinity:
//   Input           transforms the kTile + 2 pixels under a tile;
//   Filter          transforms the 3 elements of a window;
//   Output          transforms their products back to kTile pixels of the output;
//   OutputGradient  is the transpose of Output;
//   FilterGradient  is the transpose of Filter.
template <int kTile>
struct Transform;

// Points 0, 1 and -1.
template <>
struct Transform<2> {
  template <typename V>
  MF_INLINE static void Filter(const V* x, V* y) {
    const V even = 0.5f * (x[0] + x[2]), odd = 0.5f * x[1];
    y[0] = x[0];
    y[1] = even + odd;
    y[2] = even - odd;
    y[3] = x[2];
  }
  template <typename V>
  MF_INLINE static void Input(const V* x, V* y) {
    y[0] = x[0] - x[2];
    y[1] = x[1] + x[2];
    y[2] = x[2] - x[1];
    y[3] = x[3] - x[1];
  }
  template <typename V>
  MF_INLINE static void Output(const V* x, V* y) {
    y[0] = x[0] + (x[1] + x[2]);
    y[1] = (x[1] - x[2]) + x[3];
  }
  template <typename V>
  MF_INLINE static void OutputGradient(const V* x, V* y) {
    y[0] = x[0];
    y[1] = x[0] + x[1];
    y[2] = x[0] - x[1];
    y[3] = x[1];
  }
  template <typename V>
  MF_INLINE static void FilterGradient(const V* x, V* y) {
    const V even = 0.5f * (x[1] + x[2]);
    y[0] = x[0] + even;
    y[1] = 0.5f * (x[1] - x[2]);
    y[2] = even + x[3];
  }
};

// Points 0, a, -a, b and -b. With the integers 1 and 2, whose transforms take fewer operations,
// rounding errors are four times as large.
template <>
struct Transform<4> {
  // All of these are exact.
  static constexpr float kA = 0.625f, kB = 1.5f, kA2 = kA * kA, kB2 = kB * kB;
  // The window's value at a point is divided by the product of the point's differences from all
  // other points.
  static constexpr float kZero = 1 / (kA2 * kB2), kNear = 1 / (2 * kA2 * (kA2 - kB2)),
                         kFar = 1 / (2 * kB2 * (kB2 - kA2));
  template <typename V>
  MF_INLINE static void Filter(const V* x, V* y) {
    const V even_near = kNear * (x[0] + kA2 * x[2]), odd_near = (kNear * kA) * x[1];
    const V even_far = kFar * (x[0] + kB2 * x[2]), odd_far = (kFar * kB) * x[1];
    y[0] = kZero * x[0];
    y[1] = even_near + odd_near;
    y[2] = even_near - odd_near;
    y[3] = even_far + odd_far;
    y[4] = even_far - odd_far;
    y[5] = x[2];
  }
  template <typename V>
  MF_INLINE static void Input(const V* x, V* y) {
    const V even_near = x[4] - kB2 * x[2], odd_near = kA * (x[3] - kB2 * x[1]);
    const V even_far = x[4] - kA2 * x[2], odd_far = kB * (x[3] - kA2 * x[1]);
    y[0] = x[4] - (kA2 + kB2) * x[2] + kA2 * kB2 * x[0];
    y[1] = even_near + odd_near;
    y[2] = even_near - odd_near;
    y[3] = even_far + odd_far;
    y[4] = even_far - odd_far;
    y[5] = x[5] - (kA2 + kB2) * x[3] + kA2 * kB2 * x[1];
  }
  template <typename V>
  MF_INLINE static void Output(const V* x, V* y) {
    const V near = x[1] + x[2], near_difference = x[1] - x[2];
    const V far = x[3] + x[4], far_difference = x[3] - x[4];
    y[0] = x[0] + near + far;
    y[1] = kA * near_difference + kB * far_difference;
    y[2] = kA2 * near + kB2 * far;
    y[3] = kA2 * kA * near_difference + kB2 * kB * far_difference + x[5];
  }
  template <typename V>
  MF_INLINE static void OutputGradient(const V* x, V* y) {
    const V even_near = x[0] + kA2 * x[2], odd_near = kA * (x[1] + kA2 * x[3]);
    const V even_far = x[0] + kB2 * x[2], odd_far = kB * (x[1] + kB2 * x[3]);
    y[0] = x[0];
    y[1] = even_near + odd_near;
    y[2] = even_near - odd_near;
    y[3] = even_far + odd_far;
    y[4] = even_far - odd_far;
    y[5] = x[3];
  }
  template <typename V>
  MF_INLINE static void FilterGradient(const V* x, V* y) {
    const V near = kNear * (x[1] + x[2]), far = kFar * (x[3] + x[4]);
    y[0] = kZero * x[0] + near + far;
    y[1] = (kNear * kA) * (x[1] - x[2]) + (kFar * kB) * (x[3] - x[4]);
    y[2] = kA2 * near + kB2 * far + x[5];
  }
};

// Loads the kSize x kSize pixels of an image that start at (y, x), as vectors. Those outside the
// image are zeros.
template <int kSize, int kFloats>
class PixelsAt {
 public:
  MF_INLINE PixelsAt(const float* image, int64_t h, int64_t w, int64_t channels, int64_t y,
                     int64_t x)
      : from_(image + (y * w + x) * channels),
        row_step_(w * channels),
        channels_(channels),
        i0_(std::max<int64_t>(-y, 0)),
        i1_(std::min<int64_t>(kSize, h - y)),
        j0_(std::max<int64_t>(-x, 0)),
        j1_(std::min<int64_t>(kSize, w - x)) {}

  // Calls use(load). load(i, j) returns the channels [c, c + kFloats) of pixel (y + i, x + j).
  template <typename Use>
  MF_INLINE void WithChannels(int64_t c, const Use use) {
    const float* const pixels = from_ + c;
    if (i0_ == 0 && j0_ == 0 && i1_ == kSize && j1_ == kSize) {
      return use([&](int i, int j) MF_INLINE -> const auto& {
        return VectorAt<kFloats>(pixels + i * row_step_ + j * channels_);
      });
    }
    for (int64_t i = i0_; i < i1_; ++i) {
      for (int64_t j = j0_; j < j1_; ++j) {
        padded_[i * kSize + j] = VectorAt<kFloats>(pixels + i * row_step_ + j * channels_);
      }
    }
    use([&](int i, int j) MF_INLINE -> const auto& { return padded_[i * kSize + j]; });
  }

 private:
  const float* const from_;
  const int64_t row_step_, channels_;
  // The rows and columns that are inside the image.
  const int64_t i0_, i1_, j0_, j1_;
  // Pixels outside the image stay zero; each call overwrites only those inside.
  Unaligned<kFloats> padded_[kSize * kSize] = {};
};

// Applies transform(in, out), from kIn to kOut elements, to the columns and then to the rows of a
// square of vectors. load(i, j) supplies an element and store(i, j, v) receives one.
template <int kIn, int kOut, int kFloats, typename LoadOf, typename TransformOf, typename StoreOf>
MF_INLINE inline void TransformSquare(const LoadOf load, const TransformOf transform,
                                      const StoreOf store) {
  using V = Vector<kFloats>;
  V columns[kOut][kIn];
  for (int j = 0; j < kIn; ++j) {
    V in[kIn], out[kOut];
    for (int i = 0; i < kIn; ++i) in[i] = load(i, j).vector;
    transform(in, out);
    for (int i = 0; i < kOut; ++i) columns[i][j] = out[i];
  }
  for (int i = 0; i < kOut; ++i) {
    V out[kOut];
    transform(columns[i], out);
    for (int j = 0; j < kOut; ++j) store(i, j, out[j]);
  }
}

// Transforms the pixels under a tile, of which (y, x) is the first, for all channels. Element e of
// the transformed tile is stored at to + e * step.
template <int kTile>
void TransformInput(const ConvolutionGeometry& g, const float* image, int64_t y, int64_t x,
                    float* to, int64_t step) {
  constexpr int kSize = kTile + 2;
  WithVectorsOf(g.in_channels, [&](auto width) MF_INLINE {
    constexpr int kFloats = decltype(width)::value;
    PixelsAt<kSize, kFloats> pixels(image, g.h.in, g.w.in, g.in_channels, y, x);
    for (int64_t c = 0; c < g.in_channels; c += kFloats) {
      pixels.WithChannels(c, [&](const auto load) MF_INLINE {
        TransformSquare<kSize, kSize, kFloats>(
            load, [](const auto* in, auto* out) MF_INLINE { Transform<kTile>::Input(in, out); },
            [&](int i, int j, const auto& v)
                MF_INLINE { Store<kFloats>(to + (i * kSize + j) * step + c, v); });
      });
    }
  });
}

// Each element of the transformed tiles has its own matrix. This many floats between the matrices
// keep the elements of a tile from competing for the same sets of the cache.
inline constexpr int64_t kGap = 16;

}  // namespace mirrorflow::winograd

#endif  // MIRRORFLOW_KERNELS_CPU_WINOGRAD_TRANSFORMS_H_
