// SPDX-License-Identifier: Apache-2.0
//
// MaxPool and its gradient on the CPU: a vector of channels at a time, which lie next to each
// other, goes through all pixels of a window in registers.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/cpu/window.h"

namespace mirrorflow {
namespace {

struct Geometry {
  int64_t batch;
  int64_t channels;
  Window h;
  Window w;

  int64_t image_size() const { return h.in * w.in * channels; }
  int64_t output_size() const { return h.out * w.out * channels; }
};

// A vector of channels, or a single one: both compare, select and add alike.
template <typename T>
struct Vector {
  typedef T Type __attribute__((vector_size(32)));
  static constexpr int64_t kSize = 32 / sizeof(T);
};

template <typename V, typename T>
V Load(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
template <typename V, typename T>
void Store(T* to, V v) {
  std::memcpy(to, &v, sizeof(v));
}

// The pixels of one window: `rows` times `columns` of them from a corner on, as far as they are
// inside the image.
struct Pixels {
  int64_t rows;
  int64_t columns;
  int64_t row_stride;  // in elements, likewise the other
  int64_t column_stride;
};

// Calls fn(corner, pixels, o) for each window of an image: the element that it starts at, and the
// element of the output that it makes.
template <typename Fn>
void ForEachWindow(const Geometry& g, Fn fn) {
  int64_t o = 0;
  for (int64_t y = 0; y < g.h.out; ++y) {
    for (int64_t x = 0; x < g.w.out; ++x, o += g.channels) {
      const int64_t corner = (g.h.first(y) * g.w.in + g.w.first(x)) * g.channels;
      const int64_t rows = g.h.last(y) - g.h.first(y), columns = g.w.last(x) - g.w.first(x);
      const int64_t row_stride = g.w.in * g.channels;
      if (rows == 2 && columns == 2) {  // by far the most common: compilers unroll its loops
        fn(corner, Pixels{2, 2, row_stride, g.channels}, o);
      } else {
        fn(corner, Pixels{rows, columns, row_stride, g.channels}, o);
      }
    }
  }
}

// Calls fn(c, V()) for the channels, a vector at a time and the rest one by one.
template <typename T, typename Fn>
MF_INLINE inline void ForEachChannel(int64_t channels, Fn fn) {
  using V = typename Vector<T>::Type;
  int64_t c = 0;
  for (; c + Vector<T>::kSize <= channels; c += Vector<T>::kSize) fn(c, V());
  for (; c < channels; ++c) fn(c, T());
}

template <typename V, typename T>
MF_INLINE inline V Largest(const T* corner, Pixels pixels) {
  V largest = Load<V>(corner);
  for (int64_t i = 0; i < pixels.rows; ++i) {
    for (int64_t j = 0; j < pixels.columns; ++j) {
      const V v = Load<V>(corner + i * pixels.row_stride + j * pixels.column_stride);
      largest = ((v > largest) | (v != v)) ? v : largest;  // NaN stays
    }
  }
  return largest;
}

template <typename T>
void Pool(const Geometry& g, const T* images, T* out) {
  for (int64_t n = 0; n < g.batch; ++n) {
    ForEachWindow(g, [=](int64_t corner, Pixels pixels, int64_t o) MF_INLINE {
      ForEachChannel<T>(g.channels, [=](int64_t c, auto v) MF_INLINE {
        Store(out + o + c, Largest<decltype(v)>(images + corner + c, pixels));
      });
    });
    images += g.image_size();
    out += g.output_size();
  }
}

// Gives dy to the first of the pixels that is the largest, zero to the others. A pixel of several
// windows gets the sum.
template <bool kSeveralWindows, typename V, typename T>
MF_INLINE inline void GiveToLargest(const T* in, V largest, V dy, Pixels pixels, T* dx) {
  const V zero = V();
  V left = dy;
  for (int64_t i = 0; i < pixels.rows; ++i) {
    for (int64_t j = 0; j < pixels.columns; ++j) {
      const int64_t at = i * pixels.row_stride + j * pixels.column_stride;
      const auto hit = Load<V>(in + at) == largest;
      V sum = hit ? left : zero;
      left = hit ? zero : left;
      if constexpr (kSeveralWindows) sum += Load<V>(dx + at);
      Store(dx + at, sum);
    }
  }
}

template <bool kSeveralWindows, typename T>
void PoolGrad(const Geometry& g, const T* images, const T* out, const T* dy, T* dx) {
  for (int64_t n = 0; n < g.batch; ++n) {
    if (kSeveralWindows) std::fill_n(dx, g.image_size(), T{0});
    ForEachWindow(g, [=](int64_t corner, Pixels pixels, int64_t o) MF_INLINE {
      ForEachChannel<T>(g.channels, [=](int64_t c, auto v) MF_INLINE {
        using V = decltype(v);
        GiveToLargest<kSeveralWindows>(images + corner + c, Load<V>(out + o + c),
                                       Load<V>(dy + o + c), pixels, dx + corner + c);
      });
    });
    images += g.image_size();
    dx += g.image_size();
    out += g.output_size();
    dy += g.output_size();
  }
}

// Whether each input is in exactly one window.
bool Tiles(const Window& w) { return w.stride == w.size && w.out * w.size - w.before >= w.in; }

Geometry GeometryOf(const KernelContext& c, const Shape& images, const Shape& output) {
  const std::vector<int64_t> ksize = c.node().int_list("ksize");
  const std::vector<int64_t> strides = c.node().int_list("strides");
  const bool same = c.attr<std::string>("padding") == "SAME";
  return {.batch = images.dim(0),
          .channels = images.dim(3),
          .h = Window(images.dim(1), output.dim(1), ksize[1], strides[1], same),
          .w = Window(images.dim(2), output.dim(2), ksize[2], strides[2], same)};
}

// The kernel that `make(tag)` returns for a dtype of numbers.
template <typename Make>
absl::StatusOr<KernelPlan> ForNumbers(DataType dtype, Make make) {
  return DispatchDataType(
      dtype,
      [&](auto tag) -> absl::StatusOr<KernelPlan> {
        if constexpr (std::is_same_v<typename decltype(tag)::type, bool>) {
          return UnsupportedDataType(dtype);
        } else {
          return make(tag);
        }
      },
      absl::StatusOr<KernelPlan>(UnsupportedDataType(dtype)));
}

absl::StatusOr<KernelPlan> CreateMaxPool(const KernelContext& c) {
  const Geometry g = GeometryOf(c, c.input_shape(0), c.output_shape(0));
  return ForNumbers(c.output_dtype(0), [g](auto tag) -> absl::StatusOr<KernelPlan> {
    using T = typename decltype(tag)::type;
    return KernelPlan{.kernel = MakeKernel([g](const KernelArgs& args, Lane&) {
                        Pool(g, args.input<T>(0), args.output<T>(0));
                        return absl::OkStatus();
                      })};
  });
}

absl::StatusOr<KernelPlan> CreateMaxPoolGrad(const KernelContext& c) {
  const Geometry g = GeometryOf(c, c.output_shape(0), c.input_shape(1));
  const bool tiles = Tiles(g.h) && Tiles(g.w);
  return ForNumbers(c.output_dtype(0), [g, tiles](auto tag) -> absl::StatusOr<KernelPlan> {
    using T = typename decltype(tag)::type;
    const auto grad = tiles ? PoolGrad<false, T> : PoolGrad<true, T>;
    return KernelPlan{.kernel = MakeKernel([g, grad](const KernelArgs& args, Lane&) {
                        grad(g, args.input<T>(0), args.input<T>(1), args.input<T>(2),
                             args.output<T>(0));
                        return absl::OkStatus();
                      })};
  });
}

}  // namespace

void RegisterMaxPoolCpu(KernelRegistry& kernels) {
  kernels.Register("MaxPool", "CPU", CreateMaxPool);
  kernels.Register("MaxPoolGrad", "CPU", CreateMaxPoolGrad);
}

}  // namespace mirrorflow
