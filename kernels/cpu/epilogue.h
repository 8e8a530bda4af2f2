// SPDX-License-Identifier: Apache-2.0
//
// Epilogue: what a fused product or convolution (ops/fused_ops.h) does with its output after it has
// added the bias. It computes the same bits as the ops that were fused, including NaN: oneDNN's own
// post-ops replace NaN by 0 in Relu and Relu6. Only HardSwish, which programs write in several
// ways, can round differently. Convolutions and products with packed weights call it for a part of
// their output while that is still in the cache.
#ifndef MIRRORFLOW_KERNELS_CPU_EPILOGUE_H_
#define MIRRORFLOW_KERNELS_CPU_EPILOGUE_H_

#include <cstdint>

#include "framework/runtime/kernel.h"
#include "ops/fused_ops.h"

namespace mirrorflow {

// Rows of floats. Each row starts `stride` floats after the previous one.
struct Rows {
  float* data;
  int64_t stride;
};

struct ConstRows {
  const float* data;  // may be null
  int64_t stride;

  ConstRows From(int64_t row) const {
    return {data != nullptr ? data + row * stride : nullptr, stride};
  }
};

class Epilogue {
 public:
  Epilogue() = default;
  // Returns the epilogue of a node, which is empty if its op has none.
  static Epilogue Of(const Node& node);

  bool empty() const { return !adds_ && activation_ == Activation::kNone; }
  bool adds() const { return adds_; }
  // The input that is added, if adds(). It must not share memory with the output.
  static constexpr int kAddendInput = 3;

  // Returns the addend, whose rows start `stride` floats apart. Its data is null unless adds().
  ConstRows AddendOf(const KernelArgs& args, int64_t stride) const {
    return {adds() ? args.input<float>(kAddendInput) : nullptr, stride};
  }

  // Sets out[i] = activation(in[i] + addend[i]) for `n` elements. `addend` is null unless adds().
  // `out` may be `in`.
  void Run(const float* in, const float* addend, float* out, int64_t n) const;
  // Same as above, for `rows` rows of `n` elements.
  void Run(const Rows& in, const ConstRows& addend, const Rows& out, int64_t rows, int64_t n) const;

 private:
  enum class Activation {
    kNone,
    kRelu,
    kRelu6,
    kSigmoid,
    kTanh,
    kSwish,
    kHardSwish,
    kGelu,
    kGeluTanh
  };

  bool adds_ = false;
  Activation activation_ = Activation::kNone;
};

// Appends the epilogue to `plan`, whose output has `rows` rows of `n` floats. Output rows start
// `stride` floats apart, and addend rows `addend_stride` floats.
KernelPlan ThenRun(const Epilogue& epilogue, KernelPlan plan, int64_t rows, int64_t n,
                   int64_t stride, int64_t addend_stride);
// Same as above, for an output of `n` contiguous floats.
KernelPlan ThenRun(const Epilogue& epilogue, KernelPlan plan, int64_t n);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_EPILOGUE_H_
