// SPDX-License-Identifier: Apache-2.0
//
// What pooling shares: a vector of channels at a time, which lie next to each other, goes through
// all pixels of a window in registers.
#ifndef MIRRORFLOW_KERNELS_CPU_POOL_H_
#define MIRRORFLOW_KERNELS_CPU_POOL_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "framework/core/status.h"
#include "kernels/cpu/vectorize.h"
#include "ops/window.h"

namespace mirrorflow {

// Images of `channels` that lie next to each other; those of NCHW are as many images of one.
struct PoolGeometry {
  int64_t batch;
  int64_t channels;
  Window h;
  Window w;

  int64_t image_size() const { return h.in * w.in * channels; }
  int64_t output_size() const { return h.out * w.out * channels; }
  // Whether each input is in exactly one window.
  bool tiles() const { return Tiles(h) && Tiles(w); }

 private:
  static bool Tiles(const Window& w) {
    return w.stride == w.size && w.out * w.size - w.before >= w.in;
  }
};

// For images and pooled ones of these local shapes.
inline absl::StatusOr<PoolGeometry> PoolGeometryOf(const Node& node, const Shape& images,
                                                   const Shape& output) {
  MF_ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadWindowAttrs(node));
  const std::vector<int64_t> ksize = node.int_list("ksize");
  const bool nchw = attrs.layout.nchw();
  return PoolGeometry{.batch = nchw ? images.dim(0) * images.dim(1) : images.dim(0),
                      .channels = nchw ? 1 : images.dim(3),
                      .h = WindowOf(attrs, 0, images, output, ksize[attrs.layout.space[0]]),
                      .w = WindowOf(attrs, 1, images, output, ksize[attrs.layout.space[1]])};
}

// A vector of channels, or a single one: both compare, select and add alike.
template <typename T>
struct PoolVector {
  typedef T Type __attribute__((vector_size(32)));
  static constexpr int64_t kSize = 32 / sizeof(T);
};

template <typename V, typename T>
V LoadVector(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
template <typename V, typename T>
void StoreVector(T* to, V v) {
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
void ForEachWindow(const PoolGeometry& g, Fn fn) {
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
  using V = typename PoolVector<T>::Type;
  int64_t c = 0;
  for (; c + PoolVector<T>::kSize <= channels; c += PoolVector<T>::kSize) fn(c, V());
  for (; c < channels; ++c) fn(c, T());
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_POOL_H_
