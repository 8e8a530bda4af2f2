// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/winograd.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/float_vectors.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

constexpr int64_t kFloats = 8;
using Vector = VectorOf<kFloats>::type;
using AnyVector = Unaligned<kFloats>;

MF_INLINE inline Vector Load(const float* from) {
  return reinterpret_cast<const AnyVector*>(from)->vector;
}
MF_INLINE inline void Store(float* to, const Vector& v) {
  reinterpret_cast<AnyVector*>(to)->vector = v;
}

// A row of the matrix that transforms windows: the value of a polynomial with three coefficients at
// `point`, divided by `divisor`.
using FilterRow = std::array<double, 3>;
constexpr FilterRow ValueAt(double point, double divisor) {
  return {1 / divisor, point / divisor, point * point / divisor};
}
constexpr FilterRow kValueAtInfinity = {0, 0, 1};

// The transforms of a row or column of a tile of kTile pixels, for polynomials that are known at
// kTile + 1 points and at infinity.
template <int kTile>
struct Transform;

// Points 0, 1 and -1.
template <>
struct Transform<2> {
  static constexpr FilterRow kFilter[] = {ValueAt(0, 1), ValueAt(1, 2), ValueAt(-1, 2),
                                          kValueAtInfinity};
  MF_INLINE static void Input(const Vector* x, Vector* y) {
    y[0] = x[0] - x[2];
    y[1] = x[1] + x[2];
    y[2] = x[2] - x[1];
    y[3] = x[3] - x[1];
  }
  MF_INLINE static void Output(const Vector* x, Vector* y) {
    y[0] = x[0] + (x[1] + x[2]);
    y[1] = (x[1] - x[2]) + x[3];
  }
};

// Points 0, a, -a, b and -b. With the integers 1 and 2, whose transforms take fewer operations,
// rounding errors are four times as large.
template <>
struct Transform<4> {
  static constexpr float kA = 0.625f, kB = 1.5f, kA2 = kA * kA, kB2 = kB * kB;  // exact
  // The divisor for a point is the product of its differences from all other points.
  static constexpr double kZero = kA2 * kB2, kNear = 2 * kA2 * (kA2 - kB2),
                          kFar = 2 * kB2 * (kB2 - kA2);
  static constexpr FilterRow kFilter[] = {ValueAt(0, kZero),   ValueAt(kA, kNear),
                                          ValueAt(-kA, kNear), ValueAt(kB, kFar),
                                          ValueAt(-kB, kFar),  kValueAtInfinity};
  MF_INLINE static void Input(const Vector* x, Vector* y) {
    const Vector even_near = x[4] - kB2 * x[2], odd_near = kA * (x[3] - kB2 * x[1]);
    const Vector even_far = x[4] - kA2 * x[2], odd_far = kB * (x[3] - kA2 * x[1]);
    y[0] = x[4] - (kA2 + kB2) * x[2] + kA2 * kB2 * x[0];
    y[1] = even_near + odd_near;
    y[2] = even_near - odd_near;
    y[3] = even_far + odd_far;
    y[4] = even_far - odd_far;
    y[5] = x[5] - (kA2 + kB2) * x[3] + kA2 * kB2 * x[1];
  }
  MF_INLINE static void Output(const Vector* x, Vector* y) {
    const Vector near = x[1] + x[2], near_difference = x[1] - x[2];
    const Vector far = x[3] + x[4], far_difference = x[3] - x[4];
    y[0] = x[0] + near + far;
    y[1] = kA * near_difference + kB * far_difference;
    y[2] = kA2 * near + kB2 * far;
    y[3] = kA2 * kA * near_difference + kB2 * kB * far_difference + x[5];
  }
};

// Each element of the transformed tiles has its own matrix. This many floats between the matrices
// keep the elements of a tile from competing for the same sets of the cache.
constexpr int64_t kGap = 16;

int64_t CeilOfRatio(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Transforms the tile of pixels whose first pixel is (y, x), for all channels. Pixels outside the
// image are zeros. Element e of the transformed tile is stored at to + e * step.
template <int kTile>
void TransformInput(const ConvolutionGeometry& g, const float* image, int64_t y, int64_t x,
                    float* to, int64_t step) {
  constexpr int kSize = kTile + 2;
  const int64_t channels = g.in_channels;
  const int64_t row_step = g.w.in * channels;
  const int64_t i0 = std::max<int64_t>(-y, 0), i1 = std::min<int64_t>(kSize, g.h.in - y);
  const int64_t j0 = std::max<int64_t>(-x, 0), j1 = std::min<int64_t>(kSize, g.w.in - x);
  const float* const from = image + y * row_step + x * channels;
  const bool inside = i0 == 0 && j0 == 0 && i1 == kSize && j1 == kSize;
  alignas(64) float padded[kSize * kSize * kFloats] = {};
  for (int64_t c = 0; c < channels; c += kFloats) {
    const float* pixels = from + c;
    int64_t di = row_step, dj = channels;
    if (!inside) {
      for (int64_t i = i0; i < i1; ++i) {
        for (int64_t j = j0; j < j1; ++j) {
          Store(padded + (i * kSize + j) * kFloats, Load(pixels + i * row_step + j * channels));
        }
      }
      pixels = padded;
      di = kSize * kFloats;
      dj = kFloats;
    }
    Vector columns[kSize][kSize];
    for (int j = 0; j < kSize; ++j) {
      Vector in[kSize], out[kSize];
      for (int i = 0; i < kSize; ++i) in[i] = Load(pixels + i * di + j * dj);
      Transform<kTile>::Input(in, out);
      for (int i = 0; i < kSize; ++i) columns[i][j] = out[i];
    }
    for (int i = 0; i < kSize; ++i) {
      Vector out[kSize];
      Transform<kTile>::Input(columns[i], out);
      for (int j = 0; j < kSize; ++j) Store(to + (i * kSize + j) * step + c, out[j]);
    }
  }
}

// Transforms a tile of products back and adds the bias unless it is null. Stores the pixels that
// are inside the image; (y, x) is the first.
template <int kTile>
void TransformOutput(const ConvolutionGeometry& g, const float* from, int64_t step,
                     const float* bias, float* image, int64_t y, int64_t x) {
  constexpr int kSize = kTile + 2;
  const int64_t channels = g.out_channels;
  const int64_t row_step = g.w.out * channels;
  const int64_t i1 = std::min<int64_t>(kTile, g.h.out - y);
  const int64_t j1 = std::min<int64_t>(kTile, g.w.out - x);
  float* const to = image + y * row_step + x * channels;
  for (int64_t c = 0; c < channels; c += kFloats) {
    Vector columns[kTile][kSize];
    for (int j = 0; j < kSize; ++j) {
      Vector in[kSize], out[kTile];
      for (int i = 0; i < kSize; ++i) in[i] = Load(from + (i * kSize + j) * step + c);
      Transform<kTile>::Output(in, out);
      for (int i = 0; i < kTile; ++i) columns[i][j] = out[i];
    }
    const Vector b = bias != nullptr ? Load(bias + c) : Vector{};
    for (int i = 0; i < i1; ++i) {
      Vector out[kTile];
      Transform<kTile>::Output(columns[i], out);
      for (int j = 0; j < j1; ++j) Store(to + i * row_step + j * channels + c, out[j] + b);
    }
  }
}

}  // namespace

bool Winograd::Supports(const ConvolutionGeometry& g) {
  const auto suits = [](const Window& w) {
    return w.size == 3 && w.stride == 1 && w.dilation == 1 && w.before <= 1 && w.after() <= 1;
  };
  constexpr int64_t kMaxChannelPairs = int64_t{1} << 32;
  return !g.nchw && g.groups == 1 && suits(g.h) && suits(g.w) && g.in_channels % kFloats == 0 &&
         g.out_channels % kFloats == 0 && g.in_channels <= kMaxChannelPairs / g.out_channels;
}

// Estimates times in units of the multiplication of one pixel by the channels of one element of the
// filter. The constants are those of a Zen 3 processor with AVX2. Of 213 convolutions there, of 2x2
// to 56x56 pixels and 16 to 512 channels, the choice was the fastest in 204, and at least 0.9 times
// as fast as the fastest in 211.
int64_t Winograd::FastestTile(const ConvolutionGeometry& g) {
  // Reading an element of the filter from memory takes as long as multiplying this many pixels.
  constexpr double kPixelsPerRead = 12;
  // The direct convolution by oneDNN reaches 0.9 of the speed of a product.
  constexpr double kDirect = 1.1;
  // Transforming a float takes as long as this many multiplications.
  constexpr double kTransform = 25;
  const double pixels = g.batch * g.h.out * g.w.out, in = g.in_channels, out = g.out_channels;
  int64_t fastest = 0;
  double least = 9 * (kDirect * pixels + kPixelsPerRead);
  for (const int64_t tile : {2, 4}) {
    const double tiles = g.batch * CeilOfRatio(g.h.out, tile) * CeilOfRatio(g.w.out, tile);
    const double time = (tile + 2) * (tile + 2) *
                        (std::max(tiles, kPixelsPerRead) + kTransform * tiles * (1 / in + 1 / out));
    if (time >= least) continue;
    least = time;
    fastest = tile;
  }
  return fastest;
}

Winograd::Winograd(const ConvolutionGeometry& g, int64_t tile)
    : g_(g),
      tile_(tile),
      columns_(CeilOfRatio(g.w.out, tile)),
      rows_per_image_(CeilOfRatio(g.h.out, tile)) {
  // A block has as many tiles as a product has rows at once, so that its values stay in the cache.
  const int64_t rows = g.batch * rows_per_image_;
  const int64_t max_rows = std::max<int64_t>(PackedProduct::kMaxRows / columns_, 1);
  block_rows_ = CeilOfRatio(rows, CeilOfRatio(rows, max_rows));
  block_columns_ = PackedProduct::RowsPerPart(columns_);
}

int64_t Winograd::OffsetOf(int64_t row) const {
  const int64_t image = row / rows_per_image_, y = row % rows_per_image_ * tile_;
  return (image * g_.h.out + y) * g_.w.out * g_.out_channels;
}

std::string Winograd::FormKey() const {
  return absl::StrCat("winograd ", tile_, " ", g_.in_channels, " ", g_.out_channels);
}

int64_t Winograd::FormFloats() const { return elements() * ProductOf(1).PackedFloats(); }

int64_t Winograd::ScratchFloats() const {
  const int64_t tiles = block_rows_ * block_columns_;
  return elements() * (tiles * (g_.in_channels + g_.out_channels) + 2 * kGap);
}

double Winograd::flops() const {
  const double rows = g_.batch * rows_per_image_, in = g_.in_channels, out = g_.out_channels;
  return 2.0 * elements() * rows * columns_ * in * out;
}

void Winograd::MakeForm(const float* filter, float* form, float* scratch) const {
  const int64_t size = tile_ + 2, pairs = g_.in_channels * g_.out_channels;
  const FilterRow* const matrix = tile_ == 2 ? Transform<2>::kFilter : Transform<4>::kFilter;
  const PackedProduct product = ProductOf(1);
  for (int64_t e = 0; e < elements(); ++e, form += product.PackedFloats()) {
    double weights[9];
    for (int i = 0; i < 9; ++i) weights[i] = matrix[e / size][i / 3] * matrix[e % size][i % 3];
    for (int64_t p = 0; p < pairs; ++p) {
      double sum = 0;
      for (int i = 0; i < 9; ++i) sum += weights[i] * filter[i * pairs + p];
      scratch[p] = static_cast<float>(sum);
    }
    product.Pack({scratch, g_.out_channels, 1}, form);
  }
}

template <typename Use>
void Winograd::ForEachTile(const Block& block, const Use use) const {
  int64_t tile = 0;
  for (int64_t row = block.first_row; row < block.end_row; ++row) {
    const int64_t image = row / rows_per_image_, y = row % rows_per_image_ * tile_;
    for (int64_t x = block.first_column; x < block.end_column; ++x) {
      use(image, y, x * tile_, tile++);
    }
  }
}

void Winograd::Run(const Block& block, const float* images, const float* form, const float* bias,
                   float* out, float* scratch) const {
  const int64_t in_step = block.tiles() * g_.in_channels + kGap;
  const int64_t out_step = block.tiles() * g_.out_channels + kGap;
  float* const transformed = scratch;
  float* const products = scratch + elements() * in_step;
  ForEachTile(block, [&](int64_t image, int64_t y, int64_t x, int64_t tile) {
    const auto transform = tile_ == 2 ? TransformInput<2> : TransformInput<4>;
    transform(g_, images + image * g_.h.in * g_.w.in * g_.in_channels, y - g_.h.before,
              x - g_.w.before, transformed + tile * g_.in_channels, in_step);
  });
  const PackedProduct product = ProductOf(block.tiles());
  for (int64_t e = 0; e < elements(); ++e) {
    product.Store(transformed + e * in_step, form + e * product.PackedFloats(),
                  products + e * out_step);
  }
  ForEachTile(block, [&](int64_t image, int64_t y, int64_t x, int64_t tile) {
    const auto transform = tile_ == 2 ? TransformOutput<2> : TransformOutput<4>;
    transform(g_, products + tile * g_.out_channels, out_step, bias,
              out + image * g_.h.out * g_.w.out * g_.out_channels, y, x);
  });
}

void Winograd::Run(const float* images, const float* form, const float* bias, float* out,
                   float* scratch,
                   absl::FunctionRef<void(int64_t first, int64_t count)> finish) const {
  const int64_t rows = g_.batch * rows_per_image_;
  Block block;
  for (block.first_row = 0; block.first_row < rows; block.first_row = block.end_row) {
    block.end_row = std::min(block.first_row + block_rows_, rows);
    for (block.first_column = 0; block.first_column < columns_;
         block.first_column = block.end_column) {
      block.end_column = std::min(block.first_column + block_columns_, columns_);
      Run(block, images, form, bias, out, scratch);
    }
    const int64_t first = OffsetOf(block.first_row);
    finish(first, OffsetOf(block.end_row) - first);
  }
}

}  // namespace mirrorflow
