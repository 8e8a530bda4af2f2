// SPDX-License-Identifier: Apache-2.0
//
// OpDef: everything the framework knows about an op, in one row: schema, shape function, sharding
// rule, gradient, traits. Passes and printers ask the row; none has a list of op names of its own.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_OP_DEF_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_OP_DEF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/attr_value.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

class Node;
class Scope;
class ShapeContext;
class ShardContext;
struct Output;

// An input or output: one tensor of `dtype` or of the dtype in `type_attr`, or `number_attr` such
// tensors, or one tensor for each dtype of `type_list_attr`.
struct ArgDef {
  std::string name;
  DataType dtype = DT_INVALID;
  std::string type_attr;
  std::string number_attr;
  std::string type_list_attr;
  // An input whose value must be known when a plan is made (a shape, an axis); kernels get it as a
  // constant and it is no operand of theirs.
  bool is_static = false;
};

struct AttrDef {
  std::string name;
  std::string type;  // string, int, float, bool, type, shape, tensor, func, or list(one of them)
  std::optional<AttrValue> default_value;
  AttrList allowed;                // if not empty: the only values (of each element, for a list)
  std::optional<int64_t> minimum;  // of an int, or of the length of a list
};

// The few ops that the framework itself has to make or to recognise.
enum class OpRole {
  kNone,
  kConstant,     // attribute `value` is its output
  kPlaceholder,  // a feed
  kNoOp,         // only orders
  kVariable,     // makes the handle of a variable
  kRead,         // input 0 is a handle, output 0 its value
  kWrite,        // input 0 is a handle, and what it names is written (other handles likewise)
  kHasValue,     // input 0 is a handle, output 0 says whether its variable is initialised
  kCollective,   // all ranks take part
  kAddAll,       // the sum of its list of tensors
  kOnesLike,     // ones in the shape of its input
  kBranch,       // runs one of the functions in its attributes; input 0 says which
  kLoop,         // runs a function again and again, as long as another one says so
  kUnknown,      // of a file, and no op of the registry: may stand where no step needs it
};

enum OpTrait : uint32_t {
  // Two runs may differ, or something but the outputs changes: never folded, merged or dropped
  // although wanted.
  kStateful = 1u << 0,
  // f(a, b) == f(b, a).
  kCommutative = 1u << 1,
  // Output element i depends on element i of each (broadcast) input alone.
  kElementwise = 1u << 2,
  // Output 0 is input 0 under another shape: no kernel runs and no memory is taken.
  kView = 1u << 3,
  // Draws from the random stream: its kernel gets the op's key and the first row.
  kRandom = 1u << 4,
  // Its outputs differ between replicas and mean nothing together (ReplicaIndex).
  kPerReplica = 1u << 5,
  // A write that does not read: the variable needs no value before it.
  kOverwrites = 1u << 6,
  // TensorFlow has no such op: files have a function of its name besides, its expansion.
  kOwnOp = 1u << 7,
  // Numbers in its operands can make it an error.
  kFailsOnData = 1u << 8,
  // What mixed precision does with the op. It adds up products, which 16-bit floats make many times
  // faster.
  kSumsProducts = 1u << 9,
  // Its results are as precise as its operands, to a rounding: what moves elements, adds a bias or
  // normalises.
  kKeepsPrecision = 1u << 10,
  // Of an element-wise op, which keeps precision if it has not this: the rounding of an operand can
  // make any other number of the result.
  kNeedsPrecision = 1u << 11,
};

// What a gradient function sees: y_i = op(x_0, x_1, …) and dy[i] = dL/dy_i (invalid where L does
// not depend on y_i). It returns one gradient an input, invalid where there is none.
struct GradContext {
  const Scope& scope;
  const Node& op;
  absl::Span<const Output> dy;
};

using ShapeFn = absl::Status (*)(ShapeContext&);
using ShardingFn = absl::StatusOr<ShardingRule> (*)(const ShardContext&);
using GradientFn = absl::StatusOr<std::vector<Output>> (*)(const GradContext&);
// Builds what the op means in other ops; returns one output for each output of the node.
using ExpandFn = absl::StatusOr<std::vector<Output>> (*)(const Scope&, const Node&);

// The inputs of an update whose gradient is their product aᵀ · b.
inline constexpr char kLeftOfProduct[] = "a";
inline constexpr char kRightOfProduct[] = "b";

struct OpDef {
  std::string name;
  std::string doc;
  std::vector<ArgDef> inputs;
  std::vector<ArgDef> outputs;
  std::vector<AttrDef> attrs;
  OpRole role = OpRole::kNone;
  uint32_t traits = 0;
  ShapeFn shape = nullptr;
  ShardingFn sharding = nullptr;
  std::string gathers_because;  // in place of a sharding rule
  GradientFn gradient = nullptr;
  std::string no_gradient_because;  // in place of a gradient
  ExpandFn expand = nullptr;
  // Not empty for an optimizer update: the name of the input that is the gradient of variable 0.
  std::string update_gradient;

  bool has(OpTrait trait) const { return (traits & trait) != 0; }
  const AttrDef* FindAttr(absl::string_view attr_name) const;
};

// Fills `attrs` with the defaults of `op` and checks each declared attribute: present, of the right
// type, in range. Undeclared ones must start with `_`.
absl::Status CompleteAttrs(const OpDef& op, AttrMap* attrs);

// The dtypes of all inputs (or outputs) of a node, given complete attributes.
using DataTypes = absl::InlinedVector<DataType, 4>;
absl::StatusOr<DataTypes> ArgDataTypes(absl::Span<const ArgDef> args, const AttrMap& attrs);

// Where the tensors of argument `arg` stand among all of `args`: [first, last).
struct ArgRange {
  int first;
  int last;
};
absl::StatusOr<ArgRange> FindArg(absl::Span<const ArgDef> args, const AttrMap& attrs,
                                 absl::string_view arg);
// How many tensors one argument stands for.
absl::StatusOr<int64_t> ArgCount(const ArgDef& arg, const AttrMap& attrs);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_OP_DEF_H_
