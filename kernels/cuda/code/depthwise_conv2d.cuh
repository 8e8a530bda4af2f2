// SPDX-License-Identifier: Apache-2.0
//
// DepthwiseConv2dNative and its gradients. Each result is a sum over triples of an input pixel, a
// filter tap and an output pixel.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_DEPTHWISE_CONV2D_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_DEPTHWISE_CONV2D_CUH_

#include "base.cuh"

namespace depthwise {

// Describes how the filter moves in one dimension: at position o, tap i is over pixel
// o * kStride - kBefore + i * kDilation, which may be outside the image.
template <int kInSize, int kOutSize, int kFilterSize, int kStride, int kBefore, int kDilation>
struct Window {
  static constexpr int kIn = kInSize, kOut = kOutSize, kSize = kFilterSize;
  static constexpr int kUnroll = kSize <= 7 ? kSize : 1;  // for loops over taps

  // The pixel is outside the image if the result is negative or at least kIn.
  __device__ static int PixelOf(int position, int tap) {
    return position * kStride - kBefore + tap * kDilation;
  }
  // The position does not exist if the result is negative or at least kOut.
  __device__ static int PositionOf(int pixel, int tap) {
    const int scaled = pixel + kBefore - tap * kDilation;
    return scaled % kStride == 0 ? scaled / kStride : -1;
  }
};

// The memory layout of images.
template <bool kNchw, int64 kBatch, int kHeight, int kWidth, int kChannels>
struct Images {
  static constexpr int64 kPixels = kBatch * kHeight * kWidth;
  using At = Index<kPixels * kChannels>;
  struct Coordinates {
    At n;
    int y, x, c;
  };
  // Returns the coordinates of element i in memory order.
  __device__ static Coordinates CoordinatesOf(At i) {
    constexpr At kInner = kNchw ? kWidth : kChannels, kMiddle = kNchw ? kHeight : kWidth;
    constexpr At kOuter = kNchw ? kChannels : kHeight;
    const int inner = i % kInner, middle = i / kInner % kMiddle;
    const int outer = i / (kInner * kMiddle) % kOuter;
    const At n = i / (kInner * kMiddle * kOuter);
    if (kNchw) return {n, middle, inner, outer};
    return {n, outer, middle, inner};
  }
  __device__ static At IndexOf(At n, int y, int x, int c) {
    return kNchw ? ((n * kChannels + c) * kHeight + y) * kWidth + x
                 : ((n * kHeight + y) * kWidth + x) * kChannels + c;
  }
};

// kEach is the number of filters per channel.
template <typename HeightWindow, typename WidthWindow, bool kNchw, int64 kBatch, int kChannels,
          int kFiltersEach>
struct Geometry {
  using H = HeightWindow;
  using W = WidthWindow;
  static constexpr int kEach = kFiltersEach, kOutChannels = kChannels * kEach;
  using In = Images<kNchw, kBatch, H::kIn, W::kIn, kChannels>;
  using Out = Images<kNchw, kBatch, H::kOut, W::kOut, kOutChannels>;
};

// Returns element i of the output.
template <typename G, typename T>
__device__ inline Value<T> Forward(const T* images, const T* filter, int64 i) {
  using H = typename G::H;
  using W = typename G::W;
  const auto at = G::Out::CoordinatesOf(i);
  Value<T> sum = 0;
#pragma unroll(H::kUnroll)
  for (int ty = 0; ty < H::kSize; ++ty) {
    const int y = H::PixelOf(at.y, ty);
    if (y < 0 || y >= H::kIn) continue;
#pragma unroll(W::kUnroll)
    for (int tx = 0; tx < W::kSize; ++tx) {
      const int x = W::PixelOf(at.x, tx);
      if (x < 0 || x >= W::kIn) continue;
      sum += Load(images[G::In::IndexOf(at.n, y, x, at.c / G::kEach)]) *
             Load(filter[(ty * W::kSize + tx) * G::kOutChannels + at.c]);
    }
  }
  return sum;
}

// Returns element i of the images' gradient.
template <typename G, typename T>
__device__ inline Value<T> ImageGradient(const T* filter, const T* dy, int64 i) {
  using H = typename G::H;
  using W = typename G::W;
  const auto at = G::In::CoordinatesOf(i);
  Value<T> sum = 0;
#pragma unroll(H::kUnroll)
  for (int ty = 0; ty < H::kSize; ++ty) {
    const int y = H::PositionOf(at.y, ty);
    if (y < 0 || y >= H::kOut) continue;
#pragma unroll(W::kUnroll)
    for (int tx = 0; tx < W::kSize; ++tx) {
      const int x = W::PositionOf(at.x, tx);
      if (x < 0 || x >= W::kOut) continue;
      for (int m = 0; m < G::kEach; ++m) {
        const int c = at.c * G::kEach + m;
        sum += Load(dy[G::Out::IndexOf(at.n, y, x, c)]) *
               Load(filter[(ty * W::kSize + tx) * G::kOutChannels + c]);
      }
    }
  }
  return sum;
}

// Computes part `blockIdx.z` of kParts of the filter's gradient: the sum over that part of the
// positions. The result for filter element i is written to out[i * kParts + part]. A block handles
// kTaps taps of filter row `blockIdx.y / kTapGroups` and kLanes output channels. Its threads divide
// the positions among themselves and add their sums in a fixed order.
template <typename G, int kLanes, int kTaps, int kParts, typename T, typename P>
__device__ inline void FilterGradient(const T* images, const T* dy, P* out) {
  using H = typename G::H;
  using W = typename G::W;
  using V = Value<T>;
  constexpr int kTapGroups = (W::kSize + kTaps - 1) / kTaps, kRows = kThreads / kLanes;
  constexpr int64 kPositions = G::Out::kPixels, kPart = (kPositions + kParts - 1) / kParts;
  using Position = Index<kPositions + kThreads>;
  const int c = blockIdx.x * kLanes + threadIdx.x % kLanes, row = threadIdx.x / kLanes;
  const int ty = blockIdx.y / kTapGroups, first_tap = blockIdx.y % kTapGroups * kTaps;

  V sums[kTaps] = {};
  const int64 begin = blockIdx.z * kPart;
  const Position end = begin + kPart < kPositions ? begin + kPart : kPositions;
  if (c < G::kOutChannels) {
    for (Position p = begin + row; p < end; p += kRows) {
      constexpr Position kWidth = W::kOut, kHeight = H::kOut;
      const int x = p % kWidth, y = H::PixelOf(p / kWidth % kHeight, ty);
      if (y < 0 || y >= H::kIn) continue;
      const auto n = p / (kWidth * kHeight);
      const V g = Load(dy[G::Out::IndexOf(n, p / kWidth % kHeight, x, c)]);
#pragma unroll
      for (int j = 0; j < kTaps; ++j) {
        const int pixel = W::PixelOf(x, first_tap + j);
        if (pixel < 0 || pixel >= W::kIn) continue;
        sums[j] += g * Load(images[G::In::IndexOf(n, y, pixel, c / G::kEach)]);
      }
    }
  }

  __shared__ V shared[kThreads];
#pragma unroll
  for (int j = 0; j < kTaps; ++j) {
    __syncthreads();
    shared[threadIdx.x] = sums[j];
    for (int half = kRows / 2; half > 0; half /= 2) {
      __syncthreads();
      if (row < half) shared[threadIdx.x] += shared[threadIdx.x + half * kLanes];
    }
    const int tx = first_tap + j;
    if (row == 0 && c < G::kOutChannels && tx < W::kSize) {
      const int64 i = static_cast<int64>(ty * W::kSize + tx) * G::kOutChannels + c;
      out[i * kParts + blockIdx.z] = Store<P>(shared[threadIdx.x]);
    }
  }
}

// Sets out[i] to the sum of the kParts parts of element i, for i < kN. Each warp computes one sum.
template <int64 kN, int kParts, typename V, typename T>
__device__ inline void AddParts(const V* parts, T* out) {
  constexpr int kWarp = 32;
  const int lane = threadIdx.x % kWarp;
  const int64 i = static_cast<int64>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (i >= kN) return;  // the whole warp returns
  V sum = 0;
  for (int p = lane; p < kParts; p += kWarp) sum += parts[i * kParts + p];
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane == 0) out[i] = Store<T>(sum);
}

}  // namespace depthwise

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_DEPTHWISE_CONV2D_CUH_
