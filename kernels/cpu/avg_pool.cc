// SPDX-License-Identifier: Apache-2.0
//
// AvgPool and its gradient on the CPU.
#include "kernels/cpu/pool.h"

namespace mirrorflow {
namespace {

template <typename V, typename T>
MF_INLINE inline V Average(const T* corner, Pixels pixels) {
  V sum = V();
  for (int64_t i = 0; i < pixels.rows; ++i) {
    for (int64_t j = 0; j < pixels.columns; ++j) {
      sum += LoadVector<V>(corner + i * pixels.row_stride + j * pixels.column_stride);
    }
  }
  return sum / static_cast<T>(pixels.rows * pixels.columns);
}

template <typename T>
void Pool(const PoolGeometry& g, const T* images, T* out) {
  ForEachWindow<T>(g, /*clear=*/nullptr,
                   [=](int64_t at, int64_t o, Pixels pixels, auto v) MF_INLINE {
                     StoreVector(out + o, Average<decltype(v)>(images + at, pixels));
                   });
}

// Adds dy divided by the number of pixels to each pixel of the window.
template <typename V, typename T>
MF_INLINE inline void DistributeGradient(V dy, Pixels pixels, T* dx) {
  const V per_pixel = dy / static_cast<T>(pixels.rows * pixels.columns);
  for (int64_t i = 0; i < pixels.rows; ++i) {
    for (int64_t j = 0; j < pixels.columns; ++j) {
      T* const at = dx + i * pixels.row_stride + j * pixels.column_stride;
      StoreVector<V>(at, LoadVector<V>(at) + per_pixel);
    }
  }
}

template <typename T>
void PoolGrad(const PoolGeometry& g, const T* dy, T* dx) {
  ForEachWindow<T>(g, /*clear=*/dx, [=](int64_t at, int64_t o, Pixels pixels, auto v) MF_INLINE {
    DistributeGradient(LoadVector<decltype(v)>(dy + o), pixels, dx + at);
  });
}

absl::StatusOr<KernelPlan> CreateAvgPool(const KernelContext& c) {
  return ForwardPoolKernel(
      c, FloatingTypes(),
      []<typename T>(TypeTag<T>, const PoolGeometry& g, const KernelArgs& args) {
        Pool(g, args.input<T>(0), args.output<T>(0));
      });
}

// Takes the image shape from the output because the static input holds the global shape.
absl::StatusOr<KernelPlan> CreateAvgPoolGrad(const KernelContext& c) {
  return PoolGradientKernel(
      c, FloatingTypes(), c.output_shape(0), c.input_shape(1),
      []<typename T>(TypeTag<T>, const PoolGeometry& g, const KernelArgs& args) {
        PoolGrad(g, args.input<T>(1), args.output<T>(0));
      });
}

}  // namespace

void RegisterAvgPoolCpu(KernelRegistry& kernels) {
  kernels.Register("AvgPool", "CPU", CreateAvgPool);
  kernels.Register("AvgPoolGrad", "CPU", CreateAvgPoolGrad);
}

}  // namespace mirrorflow
