// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/epilogue.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/vectorize.h"
#include "ops/activation.h"
#include "ops/gelu.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

MF_INLINE inline float Relu6(float x) { return x < 0 ? 0.0f : x > 6 ? 6.0f : x; }

// Sets out[i] = fn(in[i] + addend[i]).
template <typename Fn>
void ForEach(const float* in, const float* addend, float* out, int64_t n, Fn fn) {
  WithWidestVectors([=]() MF_INLINE {
    if (addend == nullptr) {
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < n; ++i) out[i] = fn(in[i]);
    } else {
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < n; ++i) out[i] = fn(in[i] + addend[i]);
    }
  });
}

}  // namespace

Epilogue Epilogue::Of(const Node& node) {
  const std::optional<ops::FusedProduct> fused = ops::AsFused(node.op().name);
  if (!fused.has_value()) return {};
  static const auto* const activations =
      new std::map<std::string, Activation>{{"", Activation::kNone},
                                            {ops::kRelu, Activation::kRelu},
                                            {ops::kRelu6, Activation::kRelu6},
                                            {ops::kSigmoid, Activation::kSigmoid},
                                            {ops::kTanh, Activation::kTanh},
                                            {ops::kSwish, Activation::kSwish},
                                            {ops::kHardSwish, Activation::kHardSwish},
                                            {ops::kGelu, Activation::kGelu},
                                            {ops::kGeluTanh, Activation::kGeluTanh}};
  Epilogue epilogue;
  epilogue.adds_ = fused->epilogue.add;
  epilogue.activation_ = activations->at(fused->epilogue.activation);
  return epilogue;
}

void Epilogue::Run(const float* in, const float* addend, float* out, int64_t n) const {
  switch (activation_) {
    case Activation::kNone:
      if (addend == nullptr && in == out) return;
      return ForEach(in, addend, out, n, [](float x) MF_INLINE { return x; });
    case Activation::kRelu:
      return ForEach(in, addend, out, n, [](float x) MF_INLINE { return x <= 0 ? 0.0f : x; });
    case Activation::kRelu6:
      return ForEach(in, addend, out, n, [](float x) MF_INLINE { return Relu6(x); });
    case Activation::kSigmoid:
      return ForEach(in, addend, out, n, [](float x) MF_INLINE { return Logistic(x); });
    case Activation::kTanh:
      return ForEach(in, addend, out, n, [](float x) MF_INLINE { return Tanh(x); });
    case Activation::kSwish:
      return ForEach(in, addend, out, n, [](float x) MF_INLINE { return x * Logistic(x); });
    case Activation::kHardSwish:
      return ForEach(in, addend, out, n,
                     [](float x) MF_INLINE { return x * (Relu6(x + 3.0f) * (1.0f / 6)); });
    case Activation::kGelu:
      return ForEach(in, addend, out, n,
                     [](float x) MF_INLINE { return x * gelu::Normal::Cdf(x); });
    case Activation::kGeluTanh:
      return ForEach(in, addend, out, n,
                     [](float x) MF_INLINE { return x * gelu::Approximate::Cdf(x); });
  }
}

void Epilogue::Run(const Rows& in, const ConstRows& addend, const Rows& out, int64_t rows,
                   int64_t n) const {
  if (empty() && in.data == out.data) return;
  const bool adds_contiguous_rows = addend.data == nullptr || addend.stride == n;
  if (in.stride == n && out.stride == n && adds_contiguous_rows) {
    return Run(in.data, addend.data, out.data, rows * n);
  }
  for (int64_t i = 0; i < rows; ++i) {
    Run(in.data + i * in.stride, addend.From(i).data, out.data + i * out.stride, n);
  }
}

KernelPlan ThenRun(const Epilogue& epilogue, KernelPlan plan, int64_t rows, int64_t n,
                   int64_t stride, int64_t addend_stride) {
  if (epilogue.empty()) return plan;
  MF_CHECK(!plan.supports_row_stride);
  plan.kernel = MakeKernel([epilogue, rows, n, stride, addend_stride,
                            kernel = std::move(plan.kernel)](const KernelArgs& args, Lane& lane) {
    const absl::Status status = kernel->Run(args, lane);
    if (status.ok()) {
      const Rows out = {args.output<float>(0), stride};
      epilogue.Run(out, epilogue.AddendOf(args, addend_stride), out, rows, n);
    }
    return status;
  });
  return plan;
}

KernelPlan ThenRun(const Epilogue& epilogue, KernelPlan plan, int64_t n) {
  return ThenRun(epilogue, std::move(plan), 1, n, n, n);
}

}  // namespace mirrorflow
