// SPDX-License-Identifier: Apache-2.0
//
// Optimizer updates on the CPU, each over the elements of one variable.
#include "kernels/cpu/update.h"

#include <algorithm>

#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "framework/runtime/update_kernel.h"
#include "kernels/cpu/transposed_product.h"

namespace mirrorflow {
namespace {

// Where the scalars, the gradient and the gates stand among the inputs of an update.
struct Inputs {
  int gradient;
  int first_gate;
  int last_gate;
  int64_t n = 0;  // of the gradient

  bool Open(const KernelArgs& args) const {
    for (int i = first_gate; i < last_gate; ++i) {
      if (!*args.input<bool>(i)) return false;
    }
    return true;
  }
};

// The kernel that calls `update(args, gradient, first, n)` unless a gate is shut.
template <typename T, typename Update>
class GatedUpdate final : public UpdateKernel {
 public:
  GatedUpdate(const Inputs& inputs, Update update) : inputs_(inputs), update_(update) {}

  absl::Status Run(const KernelArgs& args, Lane&) const override {
    RunPart(args, args.input<T>(inputs_.gradient), 0, inputs_.n);
    return absl::OkStatus();
  }

  void RunPart(const KernelArgs& args, const void* gradient, int64_t first,
               int64_t count) const override {
    if (inputs_.Open(args)) update_(args, static_cast<const T*>(gradient), first, count);
  }

 private:
  const Inputs inputs_;
  const Update update_;
};

template <typename T, typename Update>
KernelPlan Gated(const Inputs& inputs, Update update) {
  return {.kernel = std::make_unique<GatedUpdate<T, Update>>(inputs, update)};
}

template <typename T>
T Scalar(const KernelArgs& args, int i) {
  return *args.input<T>(i);
}

template <typename T>
struct GradientDescentPlan {
  static KernelPlan Make(const Inputs& inputs, bool) {
    return Gated<T>(inputs,
                    [](const KernelArgs& args, const T* gradient, int64_t first, int64_t n) {
                      const GradientDescent<T> update{.alpha = Scalar<T>(args, 1)};
                      update(args.variable<T>(0) + first, gradient, n);
                    });
  }
};

template <typename T, template <typename, bool> class Update>
struct MomentumPlanOf {
  static KernelPlan Make(const Inputs& inputs, bool use_nesterov) {
    return use_nesterov ? Make<true>(inputs) : Make<false>(inputs);
  }
  template <bool kNesterov>
  static KernelPlan Make(const Inputs& inputs) {
    return Gated<T>(inputs, [](const KernelArgs& args, const T* gradient, int64_t first,
                               int64_t n) {
      const Update<T, kNesterov> update{.lr = Scalar<T>(args, 2), .momentum = Scalar<T>(args, 4)};
      update(args.variable<T>(0) + first, args.variable<T>(1) + first, gradient, n);
    });
  }
};
template <typename T>
using MomentumPlan = MomentumPlanOf<T, Momentum>;
template <typename T>
using KerasMomentumPlan = MomentumPlanOf<T, KerasMomentum>;

// kEpsilon: which input it is; 0 if the op has none.
template <typename T, int kEpsilon>
struct AdagradPlanOf {
  static KernelPlan Make(const Inputs& inputs, bool update_slots) {
    return update_slots ? Make<true>(inputs) : Make<false>(inputs);
  }
  template <bool kUpdateSlots>
  static KernelPlan Make(const Inputs& inputs) {
    return Gated<T>(inputs, [](const KernelArgs& args, const T* gradient, int64_t first,
                               int64_t n) {
      const Adagrad<T, kUpdateSlots> update{
          .lr = Scalar<T>(args, 2), .epsilon = kEpsilon == 0 ? T{0} : Scalar<T>(args, kEpsilon)};
      update(args.variable<T>(0) + first, args.variable<T>(1) + first, gradient, n);
    });
  }
};
template <typename T>
using AdagradPlan = AdagradPlanOf<T, 0>;
template <typename T>
using AdagradV2Plan = AdagradPlanOf<T, 3>;

template <typename T>
struct RmsPropPlan {
  static KernelPlan Make(const Inputs& inputs, bool) {
    return Gated<T>(inputs,
                    [](const KernelArgs& args, const T* gradient, int64_t first, int64_t n) {
                      const RmsProp<T> update{.lr = Scalar<T>(args, 3),
                                              .rho = Scalar<T>(args, 4),
                                              .momentum = Scalar<T>(args, 5),
                                              .epsilon = Scalar<T>(args, 6)};
                      update(args.variable<T>(0) + first, args.variable<T>(1) + first,
                             args.variable<T>(2) + first, gradient, n);
                    });
  }
};

template <typename T>
struct AdamPlan {
  static KernelPlan Make(const Inputs& inputs, bool use_nesterov) {
    return use_nesterov ? Make<true>(inputs) : Make<false>(inputs);
  }
  template <bool kNesterov>
  static KernelPlan Make(const Inputs& inputs) {
    return Gated<T>(inputs,
                    [](const KernelArgs& args, const T* gradient, int64_t first, int64_t n) {
                      const Adam<T, kNesterov> update{.beta1_power = Scalar<T>(args, 3),
                                                      .beta2_power = Scalar<T>(args, 4),
                                                      .lr = Scalar<T>(args, 5),
                                                      .beta1 = Scalar<T>(args, 6),
                                                      .beta2 = Scalar<T>(args, 7),
                                                      .epsilon = Scalar<T>(args, 8)};
                      update(args.variable<T>(0) + first, args.variable<T>(1) + first,
                             args.variable<T>(2) + first, gradient, n);
                    });
  }
};

template <template <typename> class Plan>
absl::StatusOr<KernelPlan> Create(const KernelContext& c) {
  const Node& node = c.node();
  const int gradient = node.input_index(node.op().update_gradient);
  const int num_gates = static_cast<int>(c.attr<int64_t>("_gates"));
  const Inputs inputs = {.gradient = gradient,
                         .first_gate = node.num_inputs() - num_gates,
                         .last_gate = node.num_inputs(),
                         .n = c.input_shape(gradient).num_elements()};
  // The one choice that an update has, if any.
  bool choice = false;
  for (const char* name : {"use_nesterov", "update_slots"}) {
    if (node.has_attr(name)) choice = c.attr<bool>(name);
  }
  switch (c.attr<DataType>("T")) {
    case DT_FLOAT:
      return Plan<float>::Make(inputs, choice);
    case DT_DOUBLE:
      return Plan<double>::Make(inputs, choice);
    default:
      return UnsupportedDataType(c.attr<DataType>("T"));
  }
}

// Inputs var, alpha, a, b, gates.
class GradientDescentOfProduct final : public UpdateByProductKernel {
 public:
  GradientDescentOfProduct(const Inputs& inputs, int64_t m, int64_t n, int64_t k)
      : inputs_(inputs), m_(m), n_(n), k_(k) {}

  absl::Status Run(const KernelArgs& args, Lane&) const override {
    const ProductRows rows = {args.input<float>(2), args.input<float>(3), k_};
    RunRows(args, {&rows, 1}, 0, m_);
    return absl::OkStatus();
  }

  void RunRows(const KernelArgs& args, absl::Span<const ProductRows> parts, int64_t first,
               int64_t last) const override {
    if (!inputs_.Open(args)) return;
    float* const out = args.variable<float>(0) + first * n_;
    const int64_t m = last - first;
    if (parts.size() == 1) {
      const float* const a = static_cast<const float*>(parts[0].a) + first;
      const float* const b = static_cast<const float*>(parts[0].b);
      return TransposedProduct{a, b, m, n_, parts[0].count, m_}.Subtract(Scalar<float>(args, 1),
                                                                         out);
    }
    // One below the other, near this core: they are read again and again.
    int64_t k = 0;
    for (const ProductRows& part : parts) k += part.count;
    float* a = args.scratch<float>();
    float* b = a + k * m;
    const TransposedProduct product = {a, b, m, n_, k};
    for (const ProductRows& part : parts) {
      const float* from = static_cast<const float*>(part.a) + first;
      for (int64_t i = 0; i < part.count; ++i, from += m_, a += m) std::copy_n(from, m, a);
      b = std::copy_n(static_cast<const float*>(part.b), part.count * n_, b);
    }
    product.Subtract(Scalar<float>(args, 1), out);
  }

 private:
  const Inputs inputs_;
  const int64_t m_, n_, k_;
};

absl::StatusOr<KernelPlan> CreateGradientDescentOfProduct(const KernelContext& c) {
  const int num_inputs = c.node().num_inputs();
  const Inputs inputs = {.gradient = -1,
                         .first_gate = num_inputs - static_cast<int>(c.attr<int64_t>("_gates")),
                         .last_gate = num_inputs};
  const int64_t k = c.input_shape(2).dim(0);
  const int64_t m = c.input_shape(2).dim(1), n = c.input_shape(3).dim(1);
  const int64_t rows = c.node().has_attr(kRowsAttr) ? c.attr<int64_t>(kRowsAttr) : 0;
  return KernelPlan{.kernel = std::make_unique<GradientDescentOfProduct>(inputs, m, n, k),
                    .scratch_bytes = rows * (m + n) * static_cast<int64_t>(sizeof(float)),
                    .flops = 2 * m * n * k};
}

}  // namespace

void RegisterUpdateCpu(KernelRegistry& kernels) {
  kernels.Register("GradientDescentOfProduct", "CPU", CreateGradientDescentOfProduct);
  kernels.Register("ResourceApplyAdagrad", "CPU", Create<AdagradPlan>);
  kernels.Register("ResourceApplyAdagradV2", "CPU", Create<AdagradV2Plan>);
  kernels.Register("ResourceApplyAdam", "CPU", Create<AdamPlan>);
  kernels.Register("ResourceApplyGradientDescent", "CPU", Create<GradientDescentPlan>);
  kernels.Register("ResourceApplyKerasMomentum", "CPU", Create<KerasMomentumPlan>);
  kernels.Register("ResourceApplyMomentum", "CPU", Create<MomentumPlan>);
  kernels.Register("ResourceApplyRMSProp", "CPU", Create<RmsPropPlan>);
}

}  // namespace mirrorflow
