// SPDX-License-Identifier: Apache-2.0
//
// OpRegistry: the set of known ops. AllOps() (ops/registry.h) has the library's ops; a program adds
// its own through Extensions::ops(). Explicit calls fill a registry (ops/all/all_ops.cc lists them
// all), never static initialisers, so a test can start with an empty registry.
//
//   void RegisterMatMul(OpRegistry& ops) {
//     ops.Define("MatMul")
//         .Doc("product[m,n] = sum_k a[m,k] * b[k,n]")
//         .Input("a: T").Input("b: T").Output("product: T")
//         .Attr("transpose_a: bool = false").Attr("transpose_b: bool = false")
//         .Attr("T: {float, double}")
//         .Shape(MatMulShape).Sharding(MatMulSharding).Gradient(MatMulGrad);
//   }
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_OP_REGISTRY_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_OP_REGISTRY_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/graph/op_def.h"

namespace mirrorflow {

class OpRegistry;

// Fills one OpDef. Schema strings use TensorFlow's syntax (REGISTER_OP): inputs and outputs `name:
// T`, `name: float`, `name: N * T`, `name: Tlist`; attributes `name: type`, `= default`, `>=
// minimum`, `name: {float, int32}` for a type, `{'SAME', 'VALID'}` for a string from a set, and
// `list(type)` for lists of these. OpRegistry::Seal() reports malformed strings and missing parts:
// every op needs Doc, Shape, either Sharding or Gathers, and either Gradient or NoGradient.
class OpBuilder {
 public:
  OpBuilder(OpRegistry* registry, OpDef* def) : registry_(registry), def_(def) {}

  // Sets what the op computes, in one line such as `y = |x|`.
  OpBuilder& Doc(absl::string_view text) { return Set(&OpDef::doc, text); }
  // Adds an input. Kernels and builders take inputs in the order of these calls.
  OpBuilder& Input(absl::string_view spec);
  // Adds an input whose value must be known when the step is compiled, such as a shape. Kernels
  // read it with KernelContext::constant.
  OpBuilder& StaticInput(absl::string_view spec);
  // Add an output or an attribute.
  OpBuilder& Output(absl::string_view spec);
  OpBuilder& Attr(absl::string_view spec);
  // Sets properties for passes: OpTrait values, combined with `|`. The default is none.
  OpBuilder& Traits(uint32_t traits);
  // Marks an op that the framework itself creates or recognises. Programs need not call this.
  OpBuilder& Role(OpRole role);
  // Sets the function that computes the shapes of the outputs (shape_inference.h).
  OpBuilder& Shape(ShapeFn fn) { return Set(&OpDef::shape, fn); }
  // Sets the rule for computing the op on the shards of its inputs (sharding.h).
  // ops/sharding_rules.h has rules that many ops share.
  OpBuilder& Sharding(ShardingFn fn) { return Set(&OpDef::sharding, fn); }
  // States, with the reason, that the op has no such rule: its inputs are gathered, so that every
  // replica computes the whole result.
  OpBuilder& Gathers(absl::string_view because) { return Set(&OpDef::no_sharding_reason, because); }
  // Sets the function that adds the nodes of the op's gradient (GradContext).
  OpBuilder& Gradient(GradientFn fn) { return Set(&OpDef::gradient, fn); }
  // States, with the reason, that differentiating through the op is an error.
  OpBuilder& NoGradient(absl::string_view because) {
    return Set(&OpDef::no_gradient_reason, because);
  }
  // Sets upper bounds on the error of the CPU kernel.
  OpBuilder& MaxUlps(const UlpBounds& ulps) { return Set(&OpDef::max_ulps, ulps); }
  // Sets a function that expresses the op in terms of other ops. ShardingRule::expand determines
  // when the compiler replaces the op with them.
  OpBuilder& Expand(ExpandFn fn) { return Set(&OpDef::expand, fn); }
  // Marks the op as an optimizer update that applies the gradient in input `gradient` to variable
  // 0.
  OpBuilder& Update(absl::string_view gradient) { return Set(&OpDef::update_gradient, gradient); }

 private:
  template <typename Field, typename Value>
  OpBuilder& Set(Field OpDef::*field, Value value) {
    def_->*field = static_cast<Field>(value);
    return *this;
  }

  OpRegistry* const registry_;
  OpDef* const def_;
};

class OpRegistry {
 public:
  OpRegistry() = default;
  // Creates a registry that also contains the ops of `base`, which must outlive it.
  explicit OpRegistry(const OpRegistry* base) : base_(base) {}
  OpRegistry(const OpRegistry&) = delete;
  OpRegistry& operator=(const OpRegistry&) = delete;

  // Adds an op. The name must be new; Seal() reports a duplicate. To complete the definition, call
  // the methods of the builder that this returns.
  OpBuilder Define(absl::string_view name);
  OpBuilder Define(OpDef def);

  // Checks all definitions. Returns InvalidArgument, listing everything that is missing or
  // malformed. Call it once, after the last Define().
  absl::Status Seal() const;

  // Returns the op, or null if it is unknown.
  const OpDef* Find(absl::string_view name) const;
  // Returns the op, or a NotFound error that suggests the nearest name.
  absl::StatusOr<const OpDef*> Lookup(absl::string_view name) const;
  // Returns the first defined op with this role, or null.
  const OpDef* FindRole(OpRole role) const;
  // Returns all ops, sorted by name.
  std::vector<const OpDef*> All() const;

 private:
  friend class OpBuilder;

  const OpRegistry* const base_ = nullptr;
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops_;
  std::map<OpRole, const OpDef*> roles_;
  std::vector<std::string> errors_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_OP_REGISTRY_H_
