// SPDX-License-Identifier: Apache-2.0
#include "train/variable.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/graph/creation_scope.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/random.h"
#include "ops/shape_ops.h"
#include "ops/variable.h"

namespace mirrorflow {
namespace {

struct Fans {
  double in = 1;
  double out = 1;
};

// The fans of a weight [in, out] or a filter [height, width, in, out].
Fans FansOf(const Shape& shape) {
  Fans fans;
  const int rank = shape.rank();
  if (rank == 0) return fans;
  double receptive = 1;
  for (int d = 0; d + 2 < rank; ++d) receptive *= static_cast<double>(shape.dim(d));
  fans.in = receptive * static_cast<double>(shape.dim(rank >= 2 ? rank - 2 : 0));
  fans.out = receptive * static_cast<double>(shape.dim(rank - 1));
  return fans;
}

Output ShapeConst(const Scope& scope, const Shape& shape) {
  return ops::VectorConst(scope, shape.dims());
}

// factor * x + offset
Output Scale(const Scope& scope, Output x, double factor, double offset, DataType dtype) {
  const Output scaled = ops::Mul(scope, x, ops::ScalarConst(scope, dtype, factor));
  if (offset == 0) return scaled;
  return ops::AddV2(scope, scaled, ops::ScalarConst(scope, dtype, offset));
}

Output Uniform(const Scope& scope, const Shape& shape, DataType dtype, double limit) {
  const Output x = ops::RandomUniform(scope, ShapeConst(scope, shape), dtype);
  return Scale(scope, x, 2 * limit, -limit, dtype);
}

}  // namespace

namespace initializers {

Initializer Constant(double value) {
  return [value](const Scope& scope, const Shape& shape, DataType dtype) {
    return ops::Fill(scope, ShapeConst(scope, shape), ops::ScalarConst(scope, dtype, value));
  };
}

Initializer Zeros() { return Constant(0); }
Initializer Ones() { return Constant(1); }

Initializer RandomNormal(double deviation) {
  return [deviation](const Scope& scope, const Shape& shape, DataType dtype) {
    return Scale(scope, ops::RandomStandardNormal(scope, ShapeConst(scope, shape), dtype),
                 deviation, 0, dtype);
  };
}

Initializer GlorotUniform() {
  return [](const Scope& scope, const Shape& shape, DataType dtype) {
    const Fans fans = FansOf(shape);
    return Uniform(scope, shape, dtype, std::sqrt(6 / (fans.in + fans.out)));
  };
}

Initializer HeUniform() {
  return [](const Scope& scope, const Shape& shape, DataType dtype) {
    return Uniform(scope, shape, dtype, std::sqrt(6 / FansOf(shape).in));
  };
}

Initializer HeNormal() {
  return [](const Scope& scope, const Shape& shape, DataType dtype) {
    // Truncation at two standard deviations reduces the standard deviation to 0.8796 of its value.
    const double deviation = std::sqrt(2 / FansOf(shape).in) / 0.87962566103423978;
    return Scale(scope, ops::TruncatedNormal(scope, ShapeConst(scope, shape), dtype), deviation, 0,
                 dtype);
  };
}

}  // namespace initializers

Variable CreateVariable(const Scope& scope, absl::string_view name, const Shape& shape,
                        const Initializer& initializer, DataType dtype,
                        const VariableOptions& options) {
  Variable variable;
  variable.handle = ops::VarHandleOp(scope.WithName(name), dtype, shape);
  if (!scope.ok()) return variable;
  Node* handle = variable.handle.node;
  Graph& graph = scope.graph();
  // Checkpoints and error messages use this name.
  graph.SetAttr(handle, "shared_name", handle->name());
  const Scope inside = scope.SubScope(name);
  const Output initial = initializer(inside.SubScope("initializer"), shape, dtype);
  if (!initial.valid()) return variable;
  graph.SetAttr(handle, "_initializer", initial.ToString());
  graph.SetAttr(handle, kCreationScopeAttr, CreationScope::Current());
  const bool on_read = options.synchronization == VariableSynchronization::kOnRead;
  if (on_read) {
    graph.SetAttr(handle, "_synchronization", std::string("ON_READ"));
    graph.SetAttr(handle, "_aggregation", std::string("SUM"));
  }
  if (!options.trainable || on_read) graph.SetAttr(handle, kNotTrainableAttr, true);
  variable.value = ops::ReadVariableOp(inside.WithName("read"), variable.handle);
  return variable;
}

std::vector<Output> TrainableVariables(const Graph& graph) {
  std::vector<Output> handles;
  for (Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kVariable && !node->has_attr(kNotTrainableAttr)) {
      handles.push_back(node->output(0));
    }
  }
  return handles;
}

}  // namespace mirrorflow
