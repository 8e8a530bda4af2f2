// SPDX-License-Identifier: Apache-2.0
//
// Optimizer updates on the CPU, each over the elements of one variable.
#include "kernels/cpu/update.h"

#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

// Where the scalars, the gradient and the gates stand among the inputs of an update.
struct Inputs {
  int gradient;
  int first_gate;
  int last_gate;
  int64_t n;

  bool Open(const KernelArgs& args) const {
    for (int i = first_gate; i < last_gate; ++i) {
      if (!*args.input<bool>(i)) return false;
    }
    return true;
  }
};

// The kernel that calls `update(args, gradient, n)` unless a gate is shut.
template <typename Update>
KernelPlan Gated(const Inputs& inputs, Update update) {
  return {.kernel = MakeKernel([inputs, update](const KernelArgs& args, Lane&) {
            if (inputs.Open(args)) update(args, inputs.gradient, inputs.n);
            return absl::OkStatus();
          })};
}

template <typename T>
T Scalar(const KernelArgs& args, int i) {
  return *args.input<T>(i);
}

template <typename T>
struct GradientDescentPlan {
  static KernelPlan Make(const Inputs& inputs, bool) {
    return Gated(inputs, [](const KernelArgs& args, int gradient, int64_t n) {
      const GradientDescent<T> update{.alpha = Scalar<T>(args, 1)};
      update(args.variable<T>(0), args.input<T>(gradient), n);
    });
  }
};

template <typename T>
struct MomentumPlan {
  static KernelPlan Make(const Inputs& inputs, bool use_nesterov) {
    return use_nesterov ? Make<true>(inputs) : Make<false>(inputs);
  }
  template <bool kNesterov>
  static KernelPlan Make(const Inputs& inputs) {
    return Gated(inputs, [](const KernelArgs& args, int gradient, int64_t n) {
      const Momentum<T, kNesterov> update{.lr = Scalar<T>(args, 2), .momentum = Scalar<T>(args, 4)};
      update(args.variable<T>(0), args.variable<T>(1), args.input<T>(gradient), n);
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
    return Gated(inputs, [](const KernelArgs& args, int gradient, int64_t n) {
      const Adam<T, kNesterov> update{.beta1_power = Scalar<T>(args, 3),
                                      .beta2_power = Scalar<T>(args, 4),
                                      .lr = Scalar<T>(args, 5),
                                      .beta1 = Scalar<T>(args, 6),
                                      .beta2 = Scalar<T>(args, 7),
                                      .epsilon = Scalar<T>(args, 8)};
      update(args.variable<T>(0), args.variable<T>(1), args.variable<T>(2), args.input<T>(gradient),
             n);
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
  const bool use_nesterov = node.has_attr("use_nesterov") && c.attr<bool>("use_nesterov");
  switch (c.attr<DataType>("T")) {
    case DT_FLOAT:
      return Plan<float>::Make(inputs, use_nesterov);
    case DT_DOUBLE:
      return Plan<double>::Make(inputs, use_nesterov);
    default:
      return UnsupportedDataType(c.attr<DataType>("T"));
  }
}

}  // namespace

void RegisterUpdateCpu(KernelRegistry& kernels) {
  kernels.Register("ResourceApplyGradientDescent", "CPU", Create<GradientDescentPlan>);
  kernels.Register("ResourceApplyMomentum", "CPU", Create<MomentumPlan>);
  kernels.Register("ResourceApplyAdam", "CPU", Create<AdamPlan>);
}

}  // namespace mirrorflow
