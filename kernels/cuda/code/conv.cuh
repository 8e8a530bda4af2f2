// SPDX-License-Identifier: Apache-2.0
//
// Convolutions computed directly from their definition, each result element separately. Used for
// dtypes and shapes that no cuDNN engine supports.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_CONV_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_CONV_CUH_

#include "window.cuh"

// Images are [batch, h, w, channels] or, with kNchw, [batch, channels, h, w]. The filter is
// [h, w, channels per group, out channels].
template <int64 kBatch, int64 kIn, int64 kOut, int64 kGroups, bool kNchw, typename H, typename W>
struct Convolution {
  static constexpr int64 kGroupIn = kIn / kGroups, kGroupOut = kOut / kGroups;

  __device__ static int64 ImageAt(int64 n, int64 y, int64 x, int64 c) {
    return kNchw ? ((n * kIn + c) * H::kIn + y) * W::kIn + x
                 : ((n * H::kIn + y) * W::kIn + x) * kIn + c;
  }
  __device__ static int64 OutputAt(int64 n, int64 y, int64 x, int64 c) {
    return kNchw ? ((n * kOut + c) * H::kOut + y) * W::kOut + x
                 : ((n * H::kOut + y) * W::kOut + x) * kOut + c;
  }
  __device__ static int64 FilterAt(int64 i, int64 j, int64 c, int64 o) {
    return ((i * W::kSize + j) * kGroupIn + c) * kOut + o;
  }

  // The coordinates of element `i` of images with kChannels, kRows and kColumns.
  struct Pixel {
    int64 n, y, x, c;
  };
  template <int64 kChannels, int64 kRows, int64 kColumns>
  __device__ static Pixel PixelOf(int64 i) {
    if constexpr (kNchw) {
      return {i / (kColumns * kRows * kChannels), i / kColumns % kRows, i % kColumns,
              i / (kColumns * kRows) % kChannels};
    } else {
      return {i / (kChannels * kColumns * kRows), i / (kChannels * kColumns) % kRows,
              i / kChannels % kColumns, i % kChannels};
    }
  }

  // Returns element `index` of the output.
  template <typename T>
  __device__ static Value<T> Forward(const T* images, const T* filter, int64 index) {
    const Pixel at = PixelOf<kOut, H::kOut, W::kOut>(index);
    const int64 first = at.c / kGroupOut * kGroupIn;
    Value<T> sum = 0;
    for (int64 i = 0; i < H::kSize; ++i) {
      const int64 y = H::Input(at.y, i);
      if (y < 0 || y >= H::kIn) continue;
      for (int64 j = 0; j < W::kSize; ++j) {
        const int64 x = W::Input(at.x, j);
        if (x < 0 || x >= W::kIn) continue;
        for (int64 c = 0; c < kGroupIn; ++c) {
          sum +=
              Load(images[ImageAt(at.n, y, x, first + c)]) * Load(filter[FilterAt(i, j, c, at.c)]);
        }
      }
    }
    return sum;
  }

  // Returns element `index` of the gradient with respect to the images.
  template <typename T>
  __device__ static Value<T> BackpropInput(const T* filter, const T* dy, int64 index) {
    const Pixel at = PixelOf<kIn, H::kIn, W::kIn>(index);
    const int64 group = at.c / kGroupIn, first = group * kGroupOut;
    Value<T> sum = 0;
    for (int64 i = 0; i < H::kSize; ++i) {
      const int64 y = H::Position(at.y, i);
      if (y < 0) continue;
      for (int64 j = 0; j < W::kSize; ++j) {
        const int64 x = W::Position(at.x, j);
        if (x < 0) continue;
        for (int64 o = 0; o < kGroupOut; ++o) {
          sum += Load(dy[OutputAt(at.n, y, x, first + o)]) *
                 Load(filter[FilterAt(i, j, at.c - group * kGroupIn, first + o)]);
        }
      }
    }
    return sum;
  }

  // Returns element `index` of the gradient with respect to the filter.
  template <typename T>
  __device__ static Value<T> BackpropFilter(const T* images, const T* dy, int64 index) {
    const int64 o = index % kOut, c = index / kOut % kGroupIn + o / kGroupOut * kGroupIn;
    const int64 j = index / (kOut * kGroupIn) % W::kSize;
    const int64 i = index / (kOut * kGroupIn * W::kSize);
    Value<T> sum = 0;
    for (int64 n = 0; n < kBatch; ++n) {
      Value<T> of_image = 0;  // keeps the rounding error from growing with the batch
      for (int64 y = 0; y < H::kOut; ++y) {
        const int64 iy = H::Input(y, i);
        if (iy < 0 || iy >= H::kIn) continue;
        for (int64 x = 0; x < W::kOut; ++x) {
          const int64 ix = W::Input(x, j);
          if (ix < 0 || ix >= W::kIn) continue;
          of_image += Load(images[ImageAt(n, iy, ix, c)]) * Load(dy[OutputAt(n, y, x, o)]);
        }
      }
      sum += of_image;
    }
    return sum;
  }
};

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_CONV_CUH_
