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
#include "framework/runtime/update_kernel.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/type_list.h"
#include "ops/fused_ops.h"
#include "ops/update.h"

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

// An op that updates its first kVariables inputs, a variable and its slots, by a formula of
// update.h. The members of the formula are the scalars in inputs kScalars. The formula's bool is
// the op's boolean option.
template <template <typename, bool> class Formula, int kVariables, int... kScalars>
struct UpdateOp {
  template <typename T, bool kOption>
  static void Run(const KernelArgs& args, const T* gradient, int64_t first, int64_t n) {
    const Formula<T, kOption> formula{*args.input<T>(kScalars)...};
    [&]<int... i>(std::integer_sequence<int, i...>) {
      formula(args.variable<T>(i) + first..., gradient, n);
    }
    (std::make_integer_sequence<int, kVariables>());
  }
};

template <typename T, bool>
using GradientDescentOf = GradientDescent<T>;
using GradientDescentOp = UpdateOp<GradientDescentOf, 1, 1>;
template <typename T, bool>
using RmsPropOf = RmsProp<T>;

// Updates the variables, but only if every gate is true.
template <typename Op, typename T, bool kOption>
class GatedUpdate final : public UpdateKernel {
 public:
  explicit GatedUpdate(const Inputs& inputs) : inputs_(inputs) {}

  absl::Status Run(const KernelArgs& args, Lane&) const override {
    RunPart(args, args.input<T>(inputs_.gradient), 0, inputs_.n);
    return absl::OkStatus();
  }

  void RunPart(const KernelArgs& args, const void* gradient, int64_t first,
               int64_t count) const override {
    if (!inputs_.Open(args)) return;
    Op::template Run<T, kOption>(args, static_cast<const T*>(gradient), first, count);
  }

 private:
  const Inputs inputs_;
};

// Returns the inputs of an update whose gradient has `n` elements. `gradient` is the gradient's
// input index, or -1 if the gradient is not an input.
absl::StatusOr<Inputs> InputsOf(const Node& node, int gradient, int64_t n) {
  MF_ASSIGN_OR_RETURN(const ArgRange gates, FindArg(node.op().inputs, node.attrs(), "predicate"));
  return Inputs{.gradient = gradient, .first_gate = gates.first, .last_gate = gates.last, .n = n};
}

template <typename Op>
absl::StatusOr<KernelPlan> CreateUpdate(const KernelContext& c, const Inputs& inputs) {
  // The update's boolean option, if it has one.
  bool choice = false;
  for (const char* name : {"use_nesterov", "update_slots"}) {
    if (c.node().has_attr(name)) choice = c.attr<bool>(name);
  }
  return ForType(FloatingTypes(), c.attr<DataType>("T"), [&]<typename T>(TypeTag<T>) {
    KernelPlan plan;
    if (choice) {
      plan.kernel = std::make_unique<GatedUpdate<Op, T, true>>(inputs);
    } else {
      plan.kernel = std::make_unique<GatedUpdate<Op, T, false>>(inputs);
    }
    return plan;
  });
}

template <typename Op>
absl::StatusOr<KernelPlan> Create(const KernelContext& c) {
  const int gradient = c.node().input_index(c.node().op().update_gradient);
  MF_ASSIGN_OR_RETURN(const Inputs inputs,
                      InputsOf(c.node(), gradient, c.input_shape(gradient).num_elements()));
  return CreateUpdate<Op>(c, inputs);
}

// Updates rows [first, first + product.m) of the variable with a product whose operands have at
// most kMaxRows rows. Needs ScratchFloats() floats of scratch memory.
template <typename Op>
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
struct ByRows<GradientDescentOp> {
  static constexpr int64_t kMaxRows = std::numeric_limits<int64_t>::max();
  static int64_t ScratchFloats() { return 0; }
  static void Run(const UpdateKernel&, const KernelArgs& args, const Product& product,
                  int64_t first) {
    product.Subtract(*args.input<float>(1), args.variable<float>(0) + first * product.n);
  }
};

template <typename Op>
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
    ByRows<Op>::Run(update, args, {terms, last - first, p_.n}, first);
  }

 private:
  const Operands p_;
  const Inputs inputs_;
  const std::unique_ptr<const Kernel> update_;
};

template <typename Op>
absl::StatusOr<KernelPlan> CreateOfProduct(const KernelContext& c) {
  const Node& node = c.node();
  const int left = node.input_index(kLeftOfProduct), right = node.input_index(kRightOfProduct);
  const int64_t k = c.input_shape(left).dim(0);
  const int64_t m = c.input_shape(left).dim(1), n = c.input_shape(right).dim(1);
  MF_ASSIGN_OR_RETURN(const Inputs inputs, InputsOf(node, /*gradient=*/-1, m * n));
  MF_ASSIGN_OR_RETURN(KernelPlan update, CreateUpdate<Op>(c, inputs));
  if (k > ByRows<Op>::kMaxRows) {
    return absl::UnimplementedError(absl::StrCat("the update multiplies matrices of ", k,
                                                 " rows; expected at most ", ByRows<Op>::kMaxRows));
  }
  using Kernel = UpdateOfProduct<Op>;
  return KernelPlan{
      .kernel = std::make_unique<Kernel>(typename Kernel::Operands{left, right, m, n, k}, inputs,
                                         std::move(update.kernel)),
      .scratch_bytes = ByRows<Op>::ScratchFloats() * static_cast<int64_t>(sizeof(float)),
      .flops = 2 * m * n * k};
}

template <typename Op>
void Register(KernelRegistry& kernels, const char* op) {
  kernels.Register(op, "CPU", Create<Op>);
  kernels.Register(ops::OfProduct(op), "CPU", CreateOfProduct<Op>);
}

}  // namespace

void RegisterUpdateCpu(KernelRegistry& kernels) {
  // The numbers of variables, then the inputs that hold the scalars.
  Register<UpdateOp<Adagrad, 2, 2>>(kernels, "ResourceApplyAdagrad");
  Register<UpdateOp<Adagrad, 2, 2, 3>>(kernels, "ResourceApplyAdagradV2");
  Register<UpdateOp<Adam, 3, 3, 4, 5, 6, 7, 8>>(kernels, "ResourceApplyAdam");
  Register<GradientDescentOp>(kernels, "ResourceApplyGradientDescent");
  Register<UpdateOp<KerasAdam, 3, 3, 4, 5, 6>>(kernels, ops::kResourceApplyKerasAdam);
  Register<UpdateOp<KerasMomentum, 2, 2, 4>>(kernels, "ResourceApplyKerasMomentum");
  Register<UpdateOp<Momentum, 2, 2, 4>>(kernels, "ResourceApplyMomentum");
  Register<UpdateOp<RmsPropOf, 3, 3, 4, 5, 6>>(kernels, "ResourceApplyRMSProp");
}

}  // namespace mirrorflow
