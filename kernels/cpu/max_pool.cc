// SPDX-License-Identifier: Apache-2.0
//
// MaxPool and its gradient on the CPU. The inner loops go over channels, which lie next to each
// other.
#include <algorithm>

#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/window.h"

namespace mirrorflow {
namespace {

struct Geometry {
  int64_t batch;
  int64_t channels;
  Window h;
  Window w;

  int64_t image_size() const { return h.in * w.in * channels; }
};

template <typename T>
void TakeLarger(const T* __restrict in, T* __restrict out, int64_t n) {
  for (int64_t c = 0; c < n; ++c) out[c] = in[c] > out[c] ? in[c] : out[c];
}

template <typename T>
void Pool(const Geometry& g, const T* images, T* out) {
  for (int64_t n = 0; n < g.batch; ++n, images += g.image_size()) {
    for (int64_t y = 0; y < g.h.out; ++y) {
      for (int64_t x = 0; x < g.w.out; ++x, out += g.channels) {
        const T* const corner = images + (g.h.first(y) * g.w.in + g.w.first(x)) * g.channels;
        const int64_t rows = g.h.last(y) - g.h.first(y), columns = g.w.last(x) - g.w.first(x);
        std::copy_n(corner, g.channels, out);
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            TakeLarger(corner + (i * g.w.in + j) * g.channels, out, g.channels);
          }
        }
      }
    }
  }
}

// Gives to each channel what is left of its gradient if this pixel is the largest.
template <typename T>
void GiveToLargest(const T* __restrict in, const T* __restrict largest, T* __restrict left,
                   T* __restrict dx, int64_t n) {
  for (int64_t c = 0; c < n; ++c) {
    const bool hit = in[c] == largest[c];
    dx[c] += hit ? left[c] : T{0};
    left[c] = hit ? T{0} : left[c];
  }
}

template <typename T>
void PoolGrad(const Geometry& g, const T* images, const T* out, const T* dy, T* dx, T* left) {
  for (int64_t n = 0; n < g.batch; ++n, images += g.image_size(), dx += g.image_size()) {
    std::fill_n(dx, g.image_size(), T{0});
    for (int64_t y = 0; y < g.h.out; ++y) {
      for (int64_t x = 0; x < g.w.out; ++x, out += g.channels, dy += g.channels) {
        const int64_t corner = (g.h.first(y) * g.w.in + g.w.first(x)) * g.channels;
        const int64_t rows = g.h.last(y) - g.h.first(y), columns = g.w.last(x) - g.w.first(x);
        std::copy_n(dy, g.channels, left);
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            const int64_t pixel = corner + (i * g.w.in + j) * g.channels;
            GiveToLargest(images + pixel, out, left, dx + pixel, g.channels);
          }
        }
      }
    }
  }
}

Geometry GeometryOf(const KernelContext& c, const Shape& images, const Shape& output) {
  const std::vector<int64_t> ksize = c.node().int_list("ksize");
  const std::vector<int64_t> strides = c.node().int_list("strides");
  const bool same = c.attr<std::string>("padding") == "SAME";
  return {.batch = images.dim(0),
          .channels = images.dim(3),
          .h = Window(images.dim(1), output.dim(1), ksize[1], strides[1], same),
          .w = Window(images.dim(2), output.dim(2), ksize[2], strides[2], same)};
}

// The kernel that `make(tag)` returns for the dtype of the node.
template <typename Make>
absl::StatusOr<KernelPlan> ForNumbers(DataType dtype, Make make) {
  if (dtype == DT_BOOL) return UnsupportedDataType(dtype);
  return DispatchDataType(dtype, make, absl::StatusOr<KernelPlan>(UnsupportedDataType(dtype)));
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
  return ForNumbers(c.output_dtype(0), [g](auto tag) -> absl::StatusOr<KernelPlan> {
    using T = typename decltype(tag)::type;
    return KernelPlan{.kernel = MakeKernel([g](const KernelArgs& args, Lane&) {
                        PoolGrad(g, args.input<T>(0), args.input<T>(1), args.input<T>(2),
                                 args.output<T>(0), args.scratch<T>());
                        return absl::OkStatus();
                      }),
                      .scratch_bytes = static_cast<int64_t>(g.channels * sizeof(T))};
  });
}

}  // namespace

void RegisterMaxPoolCpu(KernelRegistry& kernels) {
  kernels.Register("MaxPool", "CPU", CreateMaxPool);
  kernels.Register("MaxPoolGrad", "CPU", CreateMaxPoolGrad);
}

}  // namespace mirrorflow
