// SPDX-License-Identifier: Apache-2.0
//
// OpDef: everything the framework knows about an op, in one row: schema, shape function, sharding
// rule, gradient, traits. Passes and printers query the row instead of keeping lists of op names.
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

// An input or output. It stands for one tensor of `dtype`, or of the dtype in attribute
// `type_attr`; for as many such tensors as attribute `number_attr` specifies; or for one tensor of
// each dtype in attribute `type_list_attr`.
struct ArgDef {
  std::string name;
  DataType dtype = DT_INVALID;
  std::string type_attr;
  std::string number_attr;
  std::string type_list_attr;
  // True for an input whose value must be known when the step is compiled (a shape, an axis).
  // Kernels receive it as a constant, not as an operand.
  bool is_static = false;
};

struct AttrDef {
  std::string name;
  std::string type;  // string, int, float, bool, type, shape, tensor, func, or list(…) of these
  std::optional<AttrValue> default_value;
  AttrList allowed;                // the legal values (of each element if it is a list); empty: any
  std::optional<int64_t> minimum;  // of an int, or of the length of a list
};

// Marks the few ops that the framework itself must create or recognise.
enum class OpRole {
  kNone,
  kConstant,     // attribute `value` is its output
  kPlaceholder,  // a feed
  kNoOp,         // only orders other nodes
  kVariable,     // creates the handle of a variable
  kRead,         // input 0 is a handle, output 0 its value
  kWrite,        // writes the variables that handle input 0 and any further handle inputs refer to
  kHasValue,     // input 0 is a handle, output 0 is true if its variable is initialised
  kCollective,   // communicates between all ranks
  kAddAll,       // sums its list of tensors
  kOnesLike,     // ones in the shape of its input
  kBranch,       // runs one of the functions in its attributes; input 0 selects it
  kLoop,         // runs a function repeatedly while another one returns true
  kSliceRows,    // some rows of its input, in the same memory; only in plans
  kJoinRows,     // the rows of all its inputs, one after another; only in plans
  kUnknown,      // in a file but not in the registry; allowed if no step needs it
};

enum OpTrait : uint32_t {
  // The op has side effects, or two runs can give different results. It is never folded or merged,
  // and never dropped if a step needs it.
  kStateful = 1u << 0,
  // f(a, b) == f(b, a).
  kCommutative = 1u << 1,
  // Output element i depends only on element i of each (broadcast) input.
  kElementwise = 1u << 2,
  // Output 0 is input 0 with a different shape. No kernel runs and no memory is allocated.
  kView = 1u << 3,
  // Draws from the random stream: its kernel receives the op's key and the first row.
  kRandom = 1u << 4,
  // Its outputs differ between replicas and have no combined meaning (ReplicaIndex).
  kPerReplica = 1u << 5,
  // Writes a variable without reading it: the variable needs no earlier value.
  kOverwrites = 1u << 6,
  // TensorFlow lacks the op, so files also contain its expansion, a function of the same name.
  kOwnOp = 1u << 7,
  // Can fail depending on the values of its operands.
  kFailsOnData = 1u << 8,
  // This trait and the next two guide mixed precision. The op sums products, which is many times
  // faster in 16-bit floats.
  kSumsProducts = 1u << 9,
  // Its results are as precise as its operands, up to one rounding: the op moves elements, adds a
  // bias or normalises.
  kKeepsPrecision = 1u << 10,
  // Rounding an operand of this element-wise op can change the result arbitrarily. An element-wise
  // op without this trait keeps precision.
  kNeedsPrecision = 1u << 11,
};

// The input of a gradient function: y_i = op(x_0, x_1, …) and dy[i] = dL/dy_i (invalid if L does
// not depend on y_i). The function returns one gradient per input; it is invalid for an input
// without a gradient.
struct GradContext {
  const Scope& scope;
  const Node& op;
  absl::Span<const Output> dy;
};

using ShapeFn = absl::Status (*)(ShapeContext&);
using ShardingFn = absl::StatusOr<ShardingRule> (*)(const ShardContext&);
using GradientFn = absl::StatusOr<std::vector<Output>> (*)(const GradContext&);
// Expresses the op in terms of other ops. Returns one output for each output of the node.
using ExpandFn = absl::StatusOr<std::vector<Output>> (*)(const Scope&, const Node&);

// The names of the two inputs of an update whose gradient is their product aᵀ · b.
inline constexpr char kLeftOfProduct[] = "a";
inline constexpr char kRightOfProduct[] = "b";

// Upper bounds on the error of an element-wise function with one operand, in units in the last
// place (ulps). 0 if the result is correctly rounded, and for all other ops.
struct UlpBounds {
  int of_float = 0;
  int of_double = 0;
};

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
  std::string no_sharding_reason;  // why the op has no sharding rule
  GradientFn gradient = nullptr;
  std::string no_gradient_reason;  // why the op has no gradient
  ExpandFn expand = nullptr;
  // For an optimizer update, the name of the input that holds the gradient of variable 0; otherwise
  // empty.
  std::string update_gradient;
  UlpBounds max_ulps;  // of the CPU kernel

  bool has(OpTrait trait) const { return (traits & trait) != 0; }
  const AttrDef* FindAttr(absl::string_view attr_name) const;
};

// Fills `attrs` with the defaults of `op` and checks that each declared attribute is present, of
// the right type and in range. Names of undeclared attributes must start with `_`.
absl::Status CompleteAttrs(const OpDef& op, AttrMap* attrs);

// Return the dtypes of all inputs or outputs of a node, given complete attributes.
using DataTypes = absl::InlinedVector<DataType, 4>;
absl::StatusOr<DataTypes> ArgDataTypes(absl::Span<const ArgDef> args, const AttrMap& attrs);

// The indices of an argument's tensors among the tensors of all arguments: [first, last).
struct ArgRange {
  int first;
  int last;
};
absl::StatusOr<ArgRange> FindArg(absl::Span<const ArgDef> args, const AttrMap& attrs,
                                 absl::string_view arg);
// Returns the number of tensors that one argument stands for.
absl::StatusOr<int64_t> ArgCount(const ArgDef& arg, const AttrMap& attrs);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_OP_DEF_H_
