// SPDX-License-Identifier: Apache-2.0
//
// Variables with initial values.
#ifndef MIRRORFLOW_TRAIN_VARIABLE_H_
#define MIRRORFLOW_TRAIN_VARIABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"
#include "train/initializers.h"

namespace mirrorflow {

// Attribute of the handle of a variable that optimizers must not update.
inline constexpr char kNotTrainableAttr[] = "_not_trainable";

// Attribute of the handle of a variable that every training step updates, such as a moving average:
// names the output (`node:1`) that holds its value after the step.
inline constexpr char kNextValueAttr[] = "_next_value";

struct Variable {
  Output handle;
  Output value;  // the value before the step
};

// The variables of a part of a model that is built several times.
struct SharedVariables {
  std::vector<Variable> variables;  // in order of creation
  bool is_built = false;
};

// When the replicas' copies of a variable are combined (TensorFlow's VariableSynchronization).
enum class VariableSynchronization {
  kOnWrite,  // all copies are equal after every step
  // Each replica adds to its own copy, and a read returns the sum of all copies (aggregation SUM).
  // For metrics and for gradients accumulated over several steps. Only assignments can update it,
  // not optimizers.
  kOnRead,
};

struct VariableOptions {
  // Whether optimizers update it.
  bool trainable = true;
  VariableSynchronization synchronization = VariableSynchronization::kOnWrite;
};

// Creates a variable named `name` in `scope`, with the initial value from `initializer`. It belongs
// to the strategy whose scope() is active (framework/graph/variable_handle.h).
Variable CreateVariable(const Scope& scope, absl::string_view name, const Shape& shape,
                        const Initializer& initializer, DataType dtype = DT_FLOAT,
                        const VariableOptions& options = {});

// Lets a part of a model be built several times with the same variables. While an object of this
// class exists, CreateVariable on this thread creates the variables of `shared` the first time, and
// returns them, in the same order, every other time. Most code uses layers::Shared instead. Fails
// the scope with InvalidArgument, naming `piece`, if a later use needs different variables, or
// creates variables through another VariableSharing.
class [[nodiscard]] VariableSharing {
 public:
  // `shared` is empty the first time. It must outlive this object.
  VariableSharing(const Scope& scope, absl::string_view piece, SharedVariables* shared);
  ~VariableSharing();
  VariableSharing(const VariableSharing&) = delete;
  VariableSharing& operator=(const VariableSharing&) = delete;

 private:
  friend Variable CreateVariable(const Scope&, absl::string_view, const Shape&, const Initializer&,
                                 DataType, const VariableOptions&);

  // The next variable of the first use. It must have this shape and dtype.
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
