// SPDX-License-Identifier: Apache-2.0
//
// OpRegistry: the set of known ops. Explicit calls fill it (ops/all/all_ops.cc lists them all),
// never static initialisers, so a test can start with an empty registry.
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
// `list(type)` for lists of these. OpRegistry::Seal() reports malformed strings.
class OpBuilder {
 public:
  OpBuilder(OpRegistry* registry, OpDef* def) : registry_(registry), def_(def) {}

  // Describes what the op computes, for docs/ops. Required.
  OpBuilder& Doc(absl::string_view text);
  OpBuilder& Input(absl::string_view spec);
  // Adds an input whose value must be known when the step is compiled.
  OpBuilder& StaticInput(absl::string_view spec);
  OpBuilder& Output(absl::string_view spec);
  OpBuilder& Attr(absl::string_view spec);
  // Sets flags such as kView (op_def.h).
  OpBuilder& Traits(uint32_t traits);
  // Marks an op that the compiler treats specially, such as a variable read (op_def.h).
  OpBuilder& Role(OpRole role);
  // Infers the output shapes (shape_inference.h). Required.
  OpBuilder& Shape(ShapeFn fn);
  // States how the op works on sharded operands (sharding.h). Required, unless Gathers is called.
  OpBuilder& Sharding(ShardingFn fn);
  // States that the op needs whole operands on every replica, and why.
  OpBuilder& Gathers(absl::string_view because);
  // Adds the gradient's nodes to the graph (gradients.h). Required, unless NoGradient is called.
  OpBuilder& Gradient(GradientFn fn);
  // States that the op has no gradient, and why.
  OpBuilder& NoGradient(absl::string_view because);
  // Expresses the op in terms of other ops. The compiler then replaces its nodes.
  OpBuilder& Expand(ExpandFn fn);
  // Marks the op as an optimizer update that applies the gradient in input `gradient` to variable
  // 0.
  OpBuilder& Update(absl::string_view gradient);

 private:
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
