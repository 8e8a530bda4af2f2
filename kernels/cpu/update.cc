// SPDX-License-Identifier: Apache-2.0
//
// Optimizer updates on the CPU. Each kernel updates the elements of one variable.
#include "kernels/cpu/update.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "framework/runtime/update_kernel.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/type_list.h"
#include "ops/fused_ops.h"

namespace mirrorflow {
namespace {

// Input indices of an update's gradient and gates.
struct Inputs {
  int gradient;
  int first_gate;
  int last_gate;
  int64_t n = 0;  // elements of the gradient

  bool Open(const KernelArgs& args) const {
    for (int i = first_gate; i < last_gate; ++i) {
      if (!*args.input<bool>(i)) return false;
    }
    return true;
  }
};

// Calls update(args, gradient, first, n) unless a gate is false.
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

// kEpsilon is the index of the epsilon input, or 0 if the op has none.
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

// Returns the inputs of an update whose gradient has `n` elements. `gradient` is the gradient's
// input index, or -1 if the gradient is not an input.
absl::StatusOr<Inputs> InputsOf(const Node& node, int gradient, int64_t n) {
  MF_ASSIGN_OR_RETURN(const ArgRange gates, FindArg(node.op().inputs, node.attrs(), "predicate"));
  return Inputs{.gradient = gradient, .first_gate = gates.first, .last_gate = gates.last, .n = n};
}

template <template <typename> class Plan>
absl::StatusOr<KernelPlan> CreateUpdate(const KernelContext& c, const Inputs& inputs) {
  // The update's boolean option, if it has one.
  bool choice = false;
  for (const char* name : {"use_nesterov", "update_slots"}) {
    if (c.node().has_attr(name)) choice = c.attr<bool>(name);
  }
  return ForType(FloatingTypes(), c.attr<DataType>("T"),
                 [&]<typename T>(TypeTag<T>) { return Plan<T>::Make(inputs, choice); });
}

template <template <typename> class Plan>
absl::StatusOr<KernelPlan> Create(const KernelContext& c) {
  const int gradient = c.node().input_index(c.node().op().update_gradient);
  MF_ASSIGN_OR_RETURN(const Inputs inputs,
                      InputsOf(c.node(), gradient, c.input_shape(gradient).num_elements()));
  return CreateUpdate<Plan>(c, inputs);
}

// Updates rows [first, first + product.m) of the variable with a product whose operands have at
// most kMaxRows rows. Needs ScratchFloats() floats of scratch memory.
template <template <typename> class Plan>
struct ByRows {
  static constexpr int64_t kMaxRows = Product::kMaxDepthOfPieces;
  static int64_t ScratchFloats() { return Product::PieceFloats(); }
  static void Run(const UpdateKernel& update, const KernelArgs& args, const Product& product,
                  int64_t first) {
    product.ForEachPiece(args.scratch<float>(),
                         [&](int64_t at, const float* gradient, int64_t count) {
                           update.RunPart(args, gradient, first * product.n + at, count);
                         });
  }
};

// Gradient descent subtracts each product element while it is in a register. With few examples,
// this takes 0.7 times as long as the general case.
template <>
struct ByRows<GradientDescentPlan> {
  static constexpr int64_t kMaxRows = std::numeric_limits<int64_t>::max();
  static int64_t ScratchFloats() { return 0; }
  static void Run(const UpdateKernel&, const KernelArgs& args, const Product& product,
                  int64_t first) {
    product.Subtract(Scalar<float>(args, 1), args.variable<float>(0) + first * product.n);
  }
};

template <template <typename> class Plan>
class UpdateOfProduct final : public UpdateByProductKernel {
 public:
  // The shapes are var [m,n], left [k,m] in input `left`, and right [k,n] in input `right`.
  struct Operands {
    int left, right;
    int64_t m, n, k;
  };

  // Requires that `update` is an UpdateKernel.
  UpdateOfProduct(const Operands& operands, const Inputs& inputs,
                  std::unique_ptr<const Kernel> update)
      : p_(operands), inputs_(inputs), update_(std::move(update)) {}

  absl::Status Run(const KernelArgs& args, Lane&) const override {
    const ProductRows rows = {args.input<float>(p_.left), args.input<float>(p_.right), p_.k};
    RunRows(args, {&rows, 1}, 0, p_.m);
    return absl::OkStatus();
  }

  void RunRows(const KernelArgs& args, absl::Span<const ProductRows> parts, int64_t first,
               int64_t last) const override {
    if (!inputs_.Open(args)) return;
    const UpdateKernel& update = *update_->AsUpdate();
    absl::InlinedVector<ProductTerm, 16> terms;
    for (const ProductRows& part : parts) {
      terms.push_back({.a = {static_cast<const float*>(part.a) + first, 1, p_.m},
                       .b = {static_cast<const float*>(part.b), p_.n, 1},
                       .k = part.count});
    }
    ByRows<Plan>::Run(update, args, {terms, last - first, p_.n}, first);
  }

 private:
  const Operands p_;
  const Inputs inputs_;
  const std::unique_ptr<const Kernel> update_;
};

template <template <typename> class Plan>
absl::StatusOr<KernelPlan> CreateOfProduct(const KernelContext& c) {
  const Node& node = c.node();
  const int left = node.input_index(kLeftOfProduct), right = node.input_index(kRightOfProduct);
  const int64_t k = c.input_shape(left).dim(0);
  const int64_t m = c.input_shape(left).dim(1), n = c.input_shape(right).dim(1);
  MF_ASSIGN_OR_RETURN(const Inputs inputs, InputsOf(node, /*gradient=*/-1, m * n));
  MF_ASSIGN_OR_RETURN(KernelPlan update, CreateUpdate<Plan>(c, inputs));
  if (k > ByRows<Plan>::kMaxRows) {
    return absl::UnimplementedError(absl::StrCat("the update multiplies matrices of ", k,
                                                 " rows; expected at most ",
                                                 ByRows<Plan>::kMaxRows));
  }
  using Kernel = UpdateOfProduct<Plan>;
  return KernelPlan{
      .kernel = std::make_unique<Kernel>(typename Kernel::Operands{left, right, m, n, k}, inputs,
                                         std::move(update.kernel)),
      .scratch_bytes = ByRows<Plan>::ScratchFloats() * static_cast<int64_t>(sizeof(float)),
      .flops = 2 * m * n * k};
}

template <template <typename> class Plan>
void Register(KernelRegistry& kernels, const char* op) {
  kernels.Register(op, "CPU", Create<Plan>);
  kernels.Register(ops::OfProduct(op), "CPU", CreateOfProduct<Plan>);
}

}  // namespace

void RegisterUpdateCpu(KernelRegistry& kernels) {
  Register<AdagradPlan>(kernels, "ResourceApplyAdagrad");
  Register<AdagradV2Plan>(kernels, "ResourceApplyAdagradV2");
  Register<AdamPlan>(kernels, "ResourceApplyAdam");
  Register<GradientDescentPlan>(kernels, "ResourceApplyGradientDescent");
  Register<KerasMomentumPlan>(kernels, "ResourceApplyKerasMomentum");
  Register<MomentumPlan>(kernels, "ResourceApplyMomentum");
  Register<RmsPropPlan>(kernels, "ResourceApplyRMSProp");
}

}  // namespace mirrorflow
