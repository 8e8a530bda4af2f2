// SPDX-License-Identifier: Apache-2.0
//
// Creates variables with initial values, and reuses them in several parts of a model.
//
//   const Variable scale = CreateVariable(root, "scale", {10}, initializers::Ones());
//   Output y = ops::Mul(root, x, scale.value);
#ifndef MIRRORFLOW_TRAIN_VARIABLE_H_
#define MIRRORFLOW_TRAIN_VARIABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "train/initializers.h"

namespace mirrorflow {

// Handle attribute that marks a variable that optimizers must not update.
inline constexpr char kNotTrainableAttr[] = "_not_trainable";

// Handle attribute of a variable that every training step updates, such as a moving average. Names
// the output, such as `node:1`, that holds the variable's value after the step.
inline constexpr char kNextValueAttr[] = "_next_value";

struct Variable {
  Output handle;  // identifies the variable in a graph; for update ops and MinimizeOptions
  Output value;   // the value before the step
};

// The variables of a part of a model that is built several times (see VariableSharing).
struct SharedVariables {
  std::vector<Variable> variables;  // in order of creation
  bool is_built = false;
};

// When the replicas' copies of a variable are combined (see TensorFlow's VariableSynchronization).
enum class VariableSynchronization {
  kOnWrite,  // all copies are equal after every step: a mirrored variable
  // The variable is synchronised on read: each replica assigns to its own copy, without
  // communication, and a read returns the sum of all copies (aggregation SUM). Meant for metrics
  // and for gradients that are accumulated over several steps. Optimizers do not update such a
  // variable.
  kOnRead,
};

struct VariableOptions {
  // Whether optimizers update the variable.
  bool trainable = true;
  VariableSynchronization synchronization = VariableSynchronization::kOnWrite;
};

// Creates a variable named `name` in `scope`, and initialises it with `initializer` when a session
// is created. The variable belongs to the strategy whose scope() exists
// (framework/graph/creation_scope.h). Returns invalid outputs, and fails the scope, if
// `initializer` fails.
Variable CreateVariable(const Scope& scope, absl::string_view name, const Shape& shape,
                        const Initializer& initializer, DataType dtype = DT_FLOAT,
                        const VariableOptions& options = {});

// Builds a part of a model several times with the same variables. Most code uses layers::Shared
// instead. For each build, create a VariableSharing that exists during the build, always with the
// same `shared`:
//
//   SharedVariables shared;
//   for (const Output& input : {left, right}) {
//     const VariableSharing sharing(scope, "encoder", &shared);
//     codes.push_back(Encode(scope, input));  // calls CreateVariable
//   }
//
// In the first build, CreateVariable on this thread creates variables and records them in `shared`.
// In later builds, it returns them in the same order.
// Errors: InvalidArgument, naming `piece`, if a later build needs different variables, or creates
// variables through another VariableSharing.
class [[nodiscard]] VariableSharing {
 public:
  // `piece` is the part's name in errors. `shared` must be empty for the first build, and must
  // outlive this object.
  VariableSharing(const Scope& scope, absl::string_view piece, SharedVariables* shared);
  ~VariableSharing();
  VariableSharing(const VariableSharing&) = delete;
  VariableSharing& operator=(const VariableSharing&) = delete;

 private:
  friend Variable CreateVariable(const Scope&, absl::string_view, const Shape&, const Initializer&,
                                 DataType, const VariableOptions&);

  // Returns the next variable of the first build, which must have this shape and dtype.
  Variable Next(const Scope& scope, absl::string_view name, const Shape& shape, DataType dtype);

  const Scope scope_;
  const std::string piece_;
  SharedVariables& shared_;
  VariableSharing* const outer_;
  const bool is_first_;
  size_t used_ = 0;
};

// Returns the handles of all trainable variables of the graph, in creation order.
std::vector<Output> TrainableVariables(const Graph& graph);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_VARIABLE_H_
