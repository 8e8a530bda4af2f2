// SPDX-License-Identifier: Apache-2.0
//
// Loops for pooling kernels. They process a vector of adjacent channels at a time and keep it in
// registers while they visit all pixels of a window.
#ifndef MIRRORFLOW_KERNELS_CPU_POOL_H_
#define MIRRORFLOW_KERNELS_CPU_POOL_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "framework/core/status.h"
#include "kernels/cpu/height_part.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"
#include "ops/window.h"

namespace mirrorflow {

// Sizes of images with adjacent channels. An NCHW image is treated as one image per channel.
struct PoolGeometry {
  int64_t batch;
  int64_t channels;
  Window h;
  Window w;
  bool nchw = false;              // of the op
  int64_t out_stride = channels;  // between output pixels, in elements

  int64_t image_size() const { return h.in * w.in * channels; }
  // Returns whether each pixel is in exactly one window.
  bool tiles() const { return Tiles(h) && Tiles(w); }

 private:
  static bool Tiles(const Window& w) {
    return w.stride == w.size && w.out * w.size - w.before >= w.in;
  }
};

// `images` and `output` are the local shapes before and after pooling.
inline absl::StatusOr<PoolGeometry> PoolGeometryOf(const Node& node, const Shape& images,
                                                   const Shape& output) {
  MF_ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadWindowAttrs(node));
  const std::vector<int64_t> ksize = node.int_list("ksize");
  const bool nchw = attrs.layout.nchw();
  return PoolGeometry{.batch = nchw ? images.dim(0) * images.dim(1) : images.dim(0),
                      .channels = nchw ? 1 : images.dim(3),
                      .h = WindowOf(attrs, 0, images, output, ksize[attrs.layout.space[0]]),
                      .w = WindowOf(attrs, 1, images, output, ksize[attrs.layout.space[1]]),
                      .nchw = nchw};
}

// A vector of channels. Comparison, selection and addition have the same syntax as for a single T.
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

// The pixels of one window that lie inside the image: `rows` by `columns`, starting at a corner.
struct Pixels {
  int64_t rows;
  int64_t columns;
  int64_t row_stride;     // in elements
  int64_t column_stride;  // in elements
};

// Calls fn(c, V()) for the channels, one vector at a time, and fn(c, T()) for the rest.
template <typename T, typename Fn>
MF_INLINE inline void ForEachChannel(int64_t channels, Fn fn) {
  using V = typename PoolVector<T>::Type;
  int64_t c = 0;
  for (; c + PoolVector<T>::kSize <= channels; c += PoolVector<T>::kSize) fn(c, V());
  for (; c < channels; ++c) fn(c, T());
}

// Calls fn(at, o, pixels, V()) for each window of each image and each vector of channels, where
// `at` is the offset of the window's first element, and `o` is the offset of its result. Channels
// that do not fill a vector are passed one at a time, with T() in place of V(). If `clear` is not
// null, zeroes each image in it before the image's first window.
template <typename T, typename Fn>
void ForEachWindow(const PoolGeometry& g, T* clear, Fn fn) {
  const int64_t channels = g.channels, row_stride = g.w.in * channels;
  int64_t image = 0, o = 0;
  for (int64_t n = 0; n < g.batch; ++n, image += g.image_size()) {
    if (clear != nullptr) std::fill_n(clear + image, g.image_size(), T{0});
    for (int64_t y = 0; y < g.h.out; ++y) {
      for (int64_t x = 0; x < g.w.out; ++x, o += g.out_stride) {
        const int64_t corner = image + (g.h.first(y) * g.w.in + g.w.first(x)) * channels;
        const int64_t rows = g.h.last(y) - g.h.first(y), columns = g.w.last(x) - g.w.first(x);
        const auto visit = [=](Pixels pixels) MF_INLINE {
          ForEachChannel<T>(channels,
                            [=](int64_t c, auto v) MF_INLINE { fn(corner + c, o + c, pixels, v); });
        };
        if (rows == 2 && columns == 2) {  // by far the most common; compilers unroll its loops
          visit({2, 2, row_stride, channels});
        } else {
          visit({rows, columns, row_stride, channels});
        }
      }
    }
  }
}

// Makes a kernel that calls run(TypeTag<T>(), g, args) for the type of output 0, which must be in
// `types`.
template <typename Types, typename Run>
absl::StatusOr<KernelPlan> PoolKernel(const KernelContext& c, Types types, const PoolGeometry& g,
                                      Run run) {
  return ForType(types, c.output_dtype(0), [&]<typename T>(TypeTag<T> type) {
    return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args) { run(type, g, args); })};
  });
}

// Makes the kernel of a forward pooling op.
template <typename Types, typename Run>
absl::StatusOr<KernelPlan> ForwardPoolKernel(const KernelContext& c, Types types, Run run) {
  const Shape& out = HeightPart::Undivided(c).output_shape(0);
  MF_ASSIGN_OR_RETURN(PoolGeometry g, PoolGeometryOf(c.node(), c.input_shape(0), out));
  const HeightPart rows(c, g.batch, g.nchw, g.h);
  g.h = rows.window();
  if (!g.nchw) g.out_stride = c.row_stride();
  MF_ASSIGN_OR_RETURN(KernelPlan plan, PoolKernel(c, types, g, run));
  plan.supports_row_stride = !g.nchw;
  rows.Complete(/*adds=*/false, /*multiple=*/1, &plan);
  return plan;
}

// Makes the kernel of the gradient of a pooling op. `images` and `pooled` are the local shapes
// before and after pooling.
template <typename Types, typename Run>
absl::StatusOr<KernelPlan> PoolGradientKernel(const KernelContext& c, Types types,
                                              const Shape& images, const Shape& pooled, Run run) {
  MF_ASSIGN_OR_RETURN(const PoolGeometry g, PoolGeometryOf(c.node(), images, pooled));
  return PoolKernel(c, types, g, run);
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_POOL_H_
