// SPDX-License-Identifier: Apache-2.0
//
// Parses and runs op cases: an op, its operands and the expected results, in the format of
// tests/references/README.md. Two extensions are allowed: a case without results, and an operand
// `random float<64,48>` (in [-1, 1)) or `random int32<100> 10` (in [0, 10)).
#ifndef MIRRORFLOW_TESTS_SUPPORT_OP_CASES_H_
#define MIRRORFLOW_TESTS_SUPPORT_OP_CASES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"
#include "framework/runtime/evaluate_node.h"

namespace mirrorflow {

struct OpCase {
  struct Operand {
    Tensor value;
    bool is_variable = false;  // whether the operand is a handle of a variable with this value
  };

  std::string where;  // `matmul.txt:12`
  std::string op;
  AttrMap attrs;
  std::vector<Operand> operands;
  std::vector<Tensor> outputs;
  std::vector<Tensor> after;  // the final value of each variable
  bool fails = false;         // whether preparing or running the case must fail
  // If the gradients are known, `dy` holds the gradients of the first floating-point results, and
  // `gradients` holds the resulting gradients of the operands. A tensor without a value means no
  // gradient.
  std::vector<Tensor> dy, gradients;

  // Returns false for a case that has only operands, because its results are not known.
  bool has_results() const { return fails || !outputs.empty() || !after.empty(); }
  std::string ToString() const;  // `matmul.txt:12: MatMul {T=float}`
};

// Parses cases. Returns InvalidArgument with `file` and the line of the first error.
absl::StatusOr<std::vector<OpCase>> ParseOpCases(absl::string_view text, absl::string_view file);
// Returns the cases of all `.txt` files in a folder, ordered by file name.
absl::StatusOr<std::vector<OpCase>> LoadOpCases(const std::string& folder);

// Returns all cases in the tree, by op. Reads them once, and aborts if they cannot be read.
const std::map<std::string, std::vector<OpCase>>& OpCasesByOp();

// A node with its inputs: static inputs are constants, other inputs are placeholders and handles.
struct CaseNode {
  Graph graph;
  Node* node = nullptr;
  std::vector<Tensor> inputs;  // one per input; for a handle, the variable

  // Returns the output shapes according to the shape function.
  std::vector<Shape> OutputShapes() const;
};

// How much a shape function knows about operands that are not constants.
enum class Knowledge {
  kShapes,   // their shapes
  kRanks,    // their ranks
  kNothing,  // not even their ranks, and static inputs are not constants
};

// Creates the node of a case. Fails with the error of the op's schema or shape function.
absl::StatusOr<CaseNode> MakeCaseNode(const OpCase& op_case, const OpRegistry& ops,
                                      Knowledge knowledge = Knowledge::kShapes);

// Runs the node. Changes the variables among its inputs.
absl::StatusOr<std::vector<Tensor>> EvaluateCase(const CaseNode& node,
                                                 const KernelRegistry& kernels);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_OP_CASES_H_
