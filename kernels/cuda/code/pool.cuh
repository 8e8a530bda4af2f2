// SPDX-License-Identifier: Apache-2.0
//
// Pooling and its gradients. Each result gathers the elements that it depends on: the gradient of a
// pixel gathers from the windows that contain the pixel.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_POOL_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_POOL_CUH_

#include "base.cuh"
#include "math.cuh"

// Describes how windows of kSize_ pixels move over one dimension of kIn_ pixels. The first window
// begins kBefore pixels before the image.
template <int kIn_, int kOut_, int kSize_, int kStride, int kBefore>
struct PoolWindow {
  static constexpr int kIn = kIn_, kOut = kOut_, kSize = kSize_;
  // The maximum number of windows that contain a pixel.
  static constexpr int kOverlap = (kSize + kStride - 1) / kStride;

  __device__ static int First(int o) { return o * kStride - kBefore; }
  __device__ static bool Inside(int pixel) {
    constexpr bool kAlways = kBefore <= 0 && (kOut - 1) * kStride - kBefore + kSize <= kIn;
    return kAlways || (pixel >= 0 && pixel < kIn);
  }
  // Returns how many pixels of window o are inside the image.
  __device__ static int Count(int o) {
    const int first = First(o), end = first + kSize;
    return (end < kIn ? end : kIn) - (first > 0 ? first : 0);
  }
  // Returns the last window that begins at or before the pixel. It may end before the
  // pixel, or not exist.
  __device__ static int LastAt(int pixel) { return (pixel + kBefore) / kStride; }
  // Returns whether window o exists and contains the pixel. Requires o <= LastAt(pixel).
  __device__ static bool Has(int o, int pixel) {
    return o >= 0 && o < kOut && pixel < First(o) + kSize;
  }
};

// Images with kChannels contiguous channels. H and W are the windows along height and width.
template <int64 kImages, int64 kChannels, typename H, typename W>
struct Pool {
  static constexpr int64 kPixels = kImages * H::kIn * W::kIn * kChannels;
  static constexpr int64 kResults = kImages * H::kOut * W::kOut * kChannels;
  using I = Index<(kPixels > kResults ? kPixels : kResults)>;

  // The coordinates of element i of images with kRows and kColumns.
  template <int kRows, int kColumns>
  struct Coordinates {
    I channel, image;
    int y, x;
    __device__ explicit Coordinates(I i)
        : channel(i % static_cast<I>(kChannels)),
          image(i / static_cast<I>(kRows * kColumns * kChannels)),
          y(static_cast<int>(i / static_cast<I>(kColumns * kChannels) % kRows)),
          x(static_cast<int>(i / static_cast<I>(kChannels) % kColumns)) {}
  };
  template <int kRows, int kColumns>
  __device__ static I IndexOf(I image, int y, int x, I channel) {
    return ((image * kRows + y) * kColumns + x) * static_cast<I>(kChannels) + channel;
  }

  // Calls fn(pixel) for the pixels of window o, row by row.
  template <typename Fn>
  __device__ static void ForEachPixel(I o, Fn fn) {
    const Coordinates<H::kOut, W::kOut> at(o);
    for (int j = 0; j < H::kSize; ++j) {
      const int y = H::First(at.y) + j;
      if (!H::Inside(y)) continue;
      for (int i = 0; i < W::kSize; ++i) {
        const int x = W::First(at.x) + i;
        if (W::Inside(x)) fn(IndexOf<H::kIn, W::kIn>(at.image, y, x, at.channel));
      }
    }
  }
  __device__ static int Count(I o) {
    const Coordinates<H::kOut, W::kOut> at(o);
    return H::Count(at.y) * W::Count(at.x);
  }
  // Calls fn(o) for the windows that contain a pixel, row by row.
  template <typename Fn>
  __device__ static void ForEachWindow(I pixel, Fn fn) {
    const Coordinates<H::kIn, W::kIn> at(pixel);
    for (int j = H::kOverlap - 1; j >= 0; --j) {
      const int y = H::LastAt(at.y) - j;
      if (!H::Has(y, at.y)) continue;
      for (int i = W::kOverlap - 1; i >= 0; --i) {
        const int x = W::LastAt(at.x) - i;
        if (W::Has(x, at.x)) fn(IndexOf<H::kOut, W::kOut>(at.image, y, x, at.channel));
      }
    }
  }
};

// Sets out[i] = value(i). Each thread computes only one element, because an element needs several
// loads.
template <typename P, int64 kN, typename T, typename V>
__device__ inline void ForPool(T* out, V value) {
  const int64 i = static_cast<int64>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < kN) out[i] = Store<T>(value(static_cast<typename P::I>(i)));
}

template <typename P, typename T>
__device__ inline void MaxPool(const T* images, T* out) {
  ForPool<P, P::kResults>(out, [&](auto o) {
    Value<T> largest = Traits<Value<T>>::Lowest();
    P::ForEachPixel(o, [&](auto at) { largest = op::Maximum(Load(images[at]), largest); });
    return largest;
  });
}

// Returns whether a pixel is the largest of its window: it equals `largest` or is NaN.
template <typename V>
__device__ inline bool IsLargest(V pixel, V largest) {
  return pixel == largest || pixel != pixel;
}

// Computes dx: a pixel gets the dy of each window where it is the first of the largest pixels.
template <typename P, typename T>
__device__ inline void MaxPoolGrad(const T* images, const T* out, const T* dy, T* dx) {
  ForPool<P, P::kPixels>(dx, [&](auto pixel) {
    const Value<T> x = Load(images[pixel]);
    Value<T> sum = 0;
    P::ForEachWindow(pixel, [&](auto o) {
      const Value<T> largest = Load(out[o]);
      bool first = IsLargest(x, largest);
      if (!first) return;
      P::ForEachPixel(o, [&](auto at) {
        if (at < pixel && IsLargest(Load(images[at]), largest)) first = false;
      });
      if (first) sum += Load(dy[o]);
    });
    return sum;
  });
}

template <typename P, typename T>
__device__ inline void MaxPoolGradGrad(const T* images, const T* out, const T* dx, T* dy) {
  ForPool<P, P::kResults>(dy, [&](auto o) {
    const Value<T> largest = Load(out[o]);
    Value<T> value = 0;
    bool found = false;
    P::ForEachPixel(o, [&](auto at) {
      if (found || !IsLargest(Load(images[at]), largest)) return;
      found = true;
      value = Load(dx[at]);
    });
    return value;
  });
}

template <typename P, typename T>
__device__ inline void AvgPool(const T* images, T* out) {
  ForPool<P, P::kResults>(out, [&](auto o) {
    Value<T> sum = 0;
    P::ForEachPixel(o, [&](auto at) { sum += Load(images[at]); });
    return sum / static_cast<Value<T>>(P::Count(o));
  });
}

template <typename P, typename T>
__device__ inline void AvgPoolGrad(const T* dy, T* dx) {
  ForPool<P, P::kPixels>(dx, [&](auto pixel) {
    Value<T> sum = 0;
    P::ForEachWindow(pixel,
                     [&](auto o) { sum += Load(dy[o]) / static_cast<Value<T>>(P::Count(o)); });
    return sum;
  });
}

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_POOL_CUH_
