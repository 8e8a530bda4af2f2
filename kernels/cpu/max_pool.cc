// SPDX-License-Identifier: Apache-2.0
//
// MaxPool and its first and second gradients on the CPU.
#include "kernels/cpu/pool.h"

namespace mirrorflow {
namespace {

template <typename V, typename T>
MF_INLINE inline V Largest(const T* corner, Pixels pixels) {
  V largest = LoadVector<V>(corner);
  for (int64_t i = 0; i < pixels.rows; ++i) {
    for (int64_t j = 0; j < pixels.columns; ++j) {
      const V v = LoadVector<V>(corner + i * pixels.row_stride + j * pixels.column_stride);
      largest = ((v > largest) | (v != v)) ? v : largest;  // NaN wins
    }
  }
  return largest;
}

template <typename T>
void Pool(const PoolGeometry& g, const T* images, T* out) {
  ForEachWindow<T>(g, /*clear=*/nullptr,
                   [=](int64_t at, int64_t o, Pixels pixels, auto v) MF_INLINE {
                     StoreVector(out + o, Largest<decltype(v)>(images + at, pixels));
                   });
}

// Returns whether a pixel is the largest of its window: equal to `largest`, or NaN.
template <typename V>
MF_INLINE inline auto IsLargest(V pixel, V largest) {
  return (pixel == largest) | (pixel != pixel);
}

// Passes dy to the first of the largest pixels and zero to the others. With kSeveralWindows, a
// pixel that is in several windows accumulates their gradients.
template <bool kSeveralWindows, typename V, typename T>
MF_INLINE inline void GiveToLargest(const T* in, V largest, V dy, Pixels pixels, T* dx) {
  const V zero = V();
  V left = dy;
  for (int64_t i = 0; i < pixels.rows; ++i) {
    for (int64_t j = 0; j < pixels.columns; ++j) {
      const int64_t at = i * pixels.row_stride + j * pixels.column_stride;
      const auto hit = IsLargest(LoadVector<V>(in + at), largest);
      V sum = hit ? left : zero;
      left = hit ? zero : left;
      if constexpr (kSeveralWindows) sum += LoadVector<V>(dx + at);
      StoreVector(dx + at, sum);
    }
  }
}

template <bool kSeveralWindows, typename T>
void PoolGrad(const PoolGeometry& g, const T* images, const T* out, const T* dy, T* dx) {
  ForEachWindow<T>(g, /*clear=*/kSeveralWindows ? dx : nullptr,
                   [=](int64_t at, int64_t o, Pixels pixels, auto v) MF_INLINE {
                     using V = decltype(v);
                     GiveToLargest<kSeveralWindows>(images + at, LoadVector<V>(out + o),
                                                    LoadVector<V>(dy + o), pixels, dx + at);
                   });
}

// Returns dx at the first of the largest pixels of `in`.
template <typename V, typename T>
MF_INLINE inline V AtLargest(const T* in, V largest, const T* dx, Pixels pixels) {
  V found = V();
  for (int64_t i = pixels.rows - 1; i >= 0; --i) {
    for (int64_t j = pixels.columns - 1; j >= 0; --j) {  // backwards: the first pixel wins
      const int64_t at = i * pixels.row_stride + j * pixels.column_stride;
      found = IsLargest(LoadVector<V>(in + at), largest) ? LoadVector<V>(dx + at) : found;
    }
  }
  return found;
}

template <typename T>
void PoolGradGrad(const PoolGeometry& g, const T* images, const T* out, const T* dx, T* dy) {
  ForEachWindow<T>(
      g, /*clear=*/nullptr, [=](int64_t at, int64_t o, Pixels pixels, auto v) MF_INLINE {
        using V = decltype(v);
        StoreVector(dy + o, AtLargest(images + at, LoadVector<V>(out + o), dx + at, pixels));
      });
}

absl::StatusOr<KernelPlan> CreateMaxPool(const KernelContext& c) {
  return ForwardPoolKernel(
      c, NumericTypes(), []<typename T>(TypeTag<T>, const PoolGeometry& g, const KernelArgs& args) {
        Pool(g, args.input<T>(0), args.output<T>(0));
      });
}

absl::StatusOr<KernelPlan> CreateMaxPoolGrad(const KernelContext& c) {
  return PoolGradientKernel(
      c, NumericTypes(), c.output_shape(0), c.input_shape(1),
      []<typename T>(TypeTag<T>, const PoolGeometry& g, const KernelArgs& args) {
        const auto grad = g.tiles() ? PoolGrad<false, T> : PoolGrad<true, T>;
        grad(g, args.input<T>(0), args.input<T>(1), args.input<T>(2), args.output<T>(0));
      });
}

absl::StatusOr<KernelPlan> CreateMaxPoolGradGrad(const KernelContext& c) {
  return PoolGradientKernel(
      c, NumericTypes(), c.input_shape(0), c.output_shape(0),
      []<typename T>(TypeTag<T>, const PoolGeometry& g, const KernelArgs& args) {
        PoolGradGrad(g, args.input<T>(0), args.input<T>(1), args.input<T>(2), args.output<T>(0));
      });
}

}  // namespace

void RegisterMaxPoolCpu(KernelRegistry& kernels) {
  kernels.Register("MaxPool", "CPU", CreateMaxPool);
  kernels.Register("MaxPoolGrad", "CPU", CreateMaxPoolGrad);
  kernels.Register("MaxPoolGradGrad", "CPU", CreateMaxPoolGradGrad);
}

}  // namespace mirrorflow
