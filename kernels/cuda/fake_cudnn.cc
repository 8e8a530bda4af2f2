// SPDX-License-Identifier: Apache-2.0
//
// A fake of cuDNN's convolutions that a test links in its place. It computes them by definition, in
// order with other enqueued work. It reports operands that the real library would read from wrong
// addresses, because they are not aligned, and algorithms without the math type that belongs to
// them.
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "framework/core/reduced_float.h"
#include "kernels/cuda/fake_cuda.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnTensorFormat_t format;
  cudnnDataType_t type;
  int64_t n, c, h, w;

  int64_t At(int64_t in, int64_t ic, int64_t ih, int64_t iw) const {
    return format == CUDNN_TENSOR_NCHW ? ((in * c + ic) * h + ih) * w + iw
                                       : ((in * h + ih) * w + iw) * c + ic;
  }
  int64_t size() const { return n * c * h * w; }
};
// In a filter, `n` counts the output channels, and `c` the input channels of a group.
struct cudnnFilterStruct : cudnnTensorStruct {};
struct cudnnConvolutionStruct {
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  cudnnMathType_t proposed = CUDNN_DEFAULT_MATH;  // with the algorithms
};

namespace {

using Tensor = cudnnTensorStruct;

constexpr size_t kWorkspace = 768;  // bytes that it claims to need

float Get(const void* data, const Tensor& t, int64_t i) {
  if (t.type == CUDNN_DATA_FLOAT) return static_cast<const float*>(data)[i];
  const auto dtype = t.type == CUDNN_DATA_HALF ? mirrorflow::DT_HALF : mirrorflow::DT_BFLOAT16;
  return mirrorflow::ReducedToFloat(dtype, static_cast<const uint16_t*>(data)[i]);
}
void Put(void* data, const Tensor& t, int64_t i, double value) {
  if (t.type == CUDNN_DATA_FLOAT) {
    static_cast<float*>(data)[i] = static_cast<float>(value);
    return;
  }
  const auto dtype = t.type == CUDNN_DATA_HALF ? mirrorflow::DT_HALF : mirrorflow::DT_BFLOAT16;
  static_cast<uint16_t*>(data)[i] = mirrorflow::ReducedFrom(dtype, value);
}

struct Convolution {
  Tensor x, w, y;
  cudnnConvolutionStruct c;

  bool Fits() const {
    const auto out = [](int64_t in, int pad, int64_t size, int stride, int dilation) {
      return 1 + (in + 2 * pad - ((size - 1) * dilation + 1)) / stride;
    };
    return x.n == y.n && x.c == w.c * c.groups && y.c == w.n && w.n % c.groups == 0 &&
           y.h == out(x.h, c.pad_h, w.h, c.stride_h, c.dilation_h) &&
           y.w == out(x.w, c.pad_w, w.w, c.stride_w, c.dilation_w) && x.type == w.type &&
           x.type == y.type && x.format == w.format;
  }

  // Calls fn(index in x, index in w, index in y) for all products of the convolution.
  template <typename Fn>
  void ForEach(Fn fn) const {
    for (int64_t n = 0; n < y.n; ++n) {
      for (int64_t k = 0; k < y.c; ++k) {
        const int64_t group = k / (y.c / c.groups);
        for (int64_t oh = 0; oh < y.h; ++oh) {
          for (int64_t ow = 0; ow < y.w; ++ow) {
            for (int64_t i = 0; i < w.h; ++i) {
              for (int64_t j = 0; j < w.w; ++j) {
                const int64_t ih = oh * c.stride_h - c.pad_h + i * c.dilation_h;
                const int64_t iw = ow * c.stride_w - c.pad_w + j * c.dilation_w;
                if (ih < 0 || ih >= x.h || iw < 0 || iw >= x.w) continue;
                for (int64_t ic = 0; ic < w.c; ++ic) {
                  fn(x.At(n, group * w.c + ic, ih, iw), w.At(k, ic, i, j), y.At(n, k, oh, ow));
                }
              }
            }
          }
        }
      }
    }
  }

  // out[to] = the sum of left[a] * right[b] over all products. `pick` returns {to, a, b} for the
  // indices in (x, w, y).
  template <typename Pick>
  void Sum(const void* left, const Tensor& l, const void* right, const Tensor& r, void* out,
           const Tensor& o, void* workspace, Pick pick) const {
    std::memset(workspace, 0xff, kWorkspace);
    std::vector<double> sums(o.size(), 0);
    ForEach([&](int64_t ix, int64_t iw, int64_t iy) {
      const auto [to, a, b] = pick(ix, iw, iy);
      sums[to] += static_cast<double>(Get(left, l, a)) * Get(right, r, b);
    });
    for (int64_t i = 0; i < o.size(); ++i) Put(out, o, i, sums[i]);
  }
};

struct Three {
  int64_t to, a, b;
};

template <typename Perf>
cudnnStatus_t Find(const Convolution& convolution, cudnnConvolutionStruct* c,
                   decltype(Perf::algo) random, decltype(Perf::algo) algo, int* count,
                   Perf* found) {
  if (!convolution.Fits()) return CUDNN_STATUS_BAD_PARAM;
  *count = 0;
  if (!mirrorflow::FakeHasConvolutions()) return CUDNN_STATUS_SUCCESS;
  // Another math type than the descriptor's, unless that one is exact.
  c->proposed = c->math == CUDNN_TENSOR_OP_MATH ? CUDNN_DEFAULT_MATH
                : c->math == CUDNN_DEFAULT_MATH ? CUDNN_TENSOR_OP_MATH
                                                : c->math;
  // The first must not be taken: it is not deterministic.
  found[0] = {random, CUDNN_STATUS_SUCCESS, 1, 0, CUDNN_NON_DETERMINISTIC, c->proposed};
  found[1] = {algo, CUDNN_STATUS_SUCCESS, 2, kWorkspace, CUDNN_DETERMINISTIC, c->proposed};
  // The last cannot be run, which only a trial finds out.
  found[2] = {random, CUDNN_STATUS_SUCCESS, 3, kWorkspace, CUDNN_DETERMINISTIC, c->proposed};
  *count = 3;
  return CUDNN_STATUS_SUCCESS;
}

// Rejects what the real library would answer with wrong numbers or a fault.
cudnnStatus_t Check(const Convolution& c, bool can_run, size_t workspace_bytes,
                    std::initializer_list<const void*> operands) {
  const bool aligned = std::all_of(operands.begin(), operands.end(), [](const void* operand) {
    return reinterpret_cast<uintptr_t>(operand) % 16 == 0;
  });
  if (!aligned) return CUDNN_STATUS_EXECUTION_FAILED;
  return c.Fits() && can_run && workspace_bytes >= kWorkspace && c.c.math == c.c.proposed
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_BAD_PARAM;
}

void Launch(cudnnHandle_t handle, std::function<void()> work) {
  mirrorflow::LaunchWatchedOnFake(handle->stream, "cudnnConvolution", std::move(work));
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 0; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "error reported by the fake"; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

#define MF_DESCRIPTOR(Name)                                                         \
  cudnnStatus_t cudnnCreate##Name##Descriptor(cudnn##Name##Descriptor_t* created) { \
    *created = new cudnn##Name##Struct();                                           \
    return CUDNN_STATUS_SUCCESS;                                                    \
  }                                                                                 \
  cudnnStatus_t cudnnDestroy##Name##Descriptor(cudnn##Name##Descriptor_t given) {   \
    delete given;                                                                   \
    return CUDNN_STATUS_SUCCESS;                                                    \
  }
MF_DESCRIPTOR(Tensor)
MF_DESCRIPTOR(Filter)
MF_DESCRIPTOR(Convolution)

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  *tensor = {format, type, n, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  static_cast<Tensor&>(*filter) = {format, type, k, c, h, w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int pad_h, int pad_w,
                                              int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type) {
  if (mode != CUDNN_CROSS_CORRELATION || type != CUDNN_DATA_FLOAT) return CUDNN_STATUS_BAD_PARAM;
  *c = {pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
  c->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
  c->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t c,
                                                     cudnnTensorDescriptor_t y, int, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* found) {
  return Find(Convolution{*x, *w, *y, *c}, c, CUDNN_CONVOLUTION_FWD_ALGO_FFT,
              CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, count, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t x, int, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* found) {
  return Find(Convolution{*x, *w, *y, *c}, c, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
              CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, count, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t c, cudnnFilterDescriptor_t w, int, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* found) {
  return Find(Convolution{*x, *w, *y, *c}, c, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
              CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, count, found);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void*, cudnnTensorDescriptor_t xd,
                                      const void* x, cudnnFilterDescriptor_t wd, const void* w,
                                      cudnnConvolutionDescriptor_t cd,
                                      cudnnConvolutionFwdAlgo_t algo, void* workspace, size_t bytes,
                                      const void*, cudnnTensorDescriptor_t yd, void* y) {
  const Convolution c{*xd, *wd, *yd, *cd};
  const cudnnStatus_t status =
      Check(c, algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, bytes, {x, w, y});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  Launch(handle, [=] {
    c.Sum(x, c.x, w, c.w, y, c.y, workspace, [](int64_t ix, int64_t iw, int64_t iy) {
      return Three{iy, ix, iw};
    });
  });
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void*,
                                           cudnnFilterDescriptor_t wd, const void* w,
                                           cudnnTensorDescriptor_t yd, const void* dy,
                                           cudnnConvolutionDescriptor_t cd,
                                           cudnnConvolutionBwdDataAlgo_t algo, void* workspace,
                                           size_t bytes, const void*, cudnnTensorDescriptor_t xd,
                                           void* dx) {
  const Convolution c{*xd, *wd, *yd, *cd};
  const cudnnStatus_t status =
      Check(c, algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, bytes, {w, dy, dx});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  Launch(handle, [=] {
    c.Sum(w, c.w, dy, c.y, dx, c.x, workspace, [](int64_t ix, int64_t iw, int64_t iy) {
      return Three{ix, iw, iy};
    });
  });
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void*,
                                             cudnnTensorDescriptor_t xd, const void* x,
                                             cudnnTensorDescriptor_t yd, const void* dy,
                                             cudnnConvolutionDescriptor_t cd,
                                             cudnnConvolutionBwdFilterAlgo_t algo, void* workspace,
                                             size_t bytes, const void*, cudnnFilterDescriptor_t wd,
                                             void* dw) {
  const Convolution c{*xd, *wd, *yd, *cd};
  const cudnnStatus_t status =
      Check(c, algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, bytes, {x, dy, dw});
  if (status != CUDNN_STATUS_SUCCESS) return status;
  Launch(handle, [=] {
    c.Sum(x, c.x, dy, c.y, dw, c.w, workspace, [](int64_t ix, int64_t iw, int64_t iy) {
      return Three{iw, ix, iy};
    });
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
