// SPDX-License-Identifier: Apache-2.0
#include "tests/support/op_cases.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/core/status.h"
#include "framework/graph/scope.h"
#include "framework/graph/shape_inference.h"
#include "tests/support/literals.h"
#include "tests/support/strict_kernel.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

// Parses `float<64,48>` or `int32<100> 10`.
absl::StatusOr<Tensor> ParseRandomOperand(absl::string_view text, uint64_t seed) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(' ', 1));
  const size_t name_length = std::min(parts.first.find('<'), parts.first.size());
  MF_ASSIGN_OR_RETURN(const DataType dtype, ParseDataType(parts.first.substr(0, name_length)));
  MF_ASSIGN_OR_RETURN(const AttrValue shape, ParseAttrValue(parts.first.substr(name_length)));
  int64_t limit = 0;
  const bool has_limit = absl::SimpleAtoi(parts.second, &limit) && limit > 0;
  if (shape.get_if<Shape>() == nullptr || has_limit == IsFloating(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "malformed random operand; expected a dtype, a shape, and a limit for integers, "
        "got '",
        text, "'"));
  }
  Random random(seed);
  return RandomTensor(dtype, shape.get<Shape>(), &random, limit);
}

// Parses a line of a case and adds it to `op_case`.
absl::Status ParseLine(absl::string_view line, OpCase* op_case) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  const auto& [word, rest] = parts;
  if (word == "error" && rest.empty()) {
    op_case->fails = true;
    return absl::OkStatus();
  }
  if (word == "random") {
    MF_ASSIGN_OR_RETURN(Tensor value, ParseRandomOperand(rest, op_case->operands.size()));
    op_case->operands.push_back({std::move(value)});
    return absl::OkStatus();
  }
  if (word == "grad" && rest == "none") {
    op_case->gradients.push_back(Tensor());
    return absl::OkStatus();
  }
  constexpr absl::string_view kTensorWords[] = {"in", "var", "out", "after", "dy", "grad"};
  if (std::count(std::begin(kTensorWords), std::end(kTensorWords), word) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown keyword; expected case, in, var, random, out, after, dy, grad or error, got '",
        word, "'"));
  }
  MF_ASSIGN_OR_RETURN(Tensor tensor, ParseTensorLiteral(rest));
  if (word == "out") {
    op_case->outputs.push_back(std::move(tensor));
  } else if (word == "after") {
    op_case->after.push_back(std::move(tensor));
  } else if (word == "dy") {
    op_case->dy.push_back(std::move(tensor));
  } else if (word == "grad") {
    op_case->gradients.push_back(std::move(tensor));
  } else {
    op_case->operands.push_back({std::move(tensor), word == "var"});
  }
  return absl::OkStatus();
}

absl::StatusOr<const OpDef*> OpOfRole(const OpRegistry& ops, OpRole role, absl::string_view what) {
  if (const OpDef* op = ops.FindRole(role)) return op;
  return absl::FailedPreconditionError(absl::StrCat("the registry has no op that makes a ", what));
}

Shape Known(const Shape& shape, Knowledge knowledge) {
  if (knowledge == Knowledge::kShapes) return shape;
  return knowledge == Knowledge::kRanks ? Shape::UnknownDims(shape.rank()) : Shape::UnknownRank();
}

absl::StatusOr<Output> MakeOperand(const OpCase::Operand& operand, bool is_static,
                                   const OpRegistry& ops, Knowledge knowledge, Graph* graph) {
  const Tensor& value = operand.value;
  const Scope scope = Scope(graph).WithName("operand");
  Output output;
  if (operand.is_variable) {
    MF_ASSIGN_OR_RETURN(const OpDef* op, OpOfRole(ops, OpRole::kVariable, "variable"));
    output = scope.Build(*op).Attr("dtype", value.dtype()).Attr("shape", value.shape()).One();
  } else if (is_static && knowledge != Knowledge::kNothing) {
    MF_ASSIGN_OR_RETURN(const OpDef* op, OpOfRole(ops, OpRole::kConstant, "constant"));
    output = scope.Build(*op).Attr("dtype", value.dtype()).Attr("value", value).One();
  } else {
    MF_ASSIGN_OR_RETURN(const OpDef* op, OpOfRole(ops, OpRole::kPlaceholder, "placeholder"));
    output = scope.Build(*op)
                 .Attr("dtype", value.dtype())
                 .Attr("shape", Known(value.shape(), knowledge))
                 .One();
  }
  MF_RETURN_IF_ERROR(graph->status());
  return output;
}

// Returns, for each input of a node of `op`, whether it is static.
absl::StatusOr<std::vector<bool>> StaticInputs(const OpDef& op, AttrMap attrs) {
  MF_RETURN_IF_ERROR(CompleteAttrs(op, &attrs));
  std::vector<bool> is_static;
  for (const ArgDef& arg : op.inputs) {
    MF_ASSIGN_OR_RETURN(const int64_t count, ArgCount(arg, attrs));
    is_static.insert(is_static.end(), count, arg.is_static);
  }
  return is_static;
}

}  // namespace

std::string OpCase::ToString() const {
  return absl::StrCat(where, ": ", op, " ", AttrMapToString(attrs));
}

absl::StatusOr<std::vector<OpCase>> ParseOpCases(absl::string_view text, absl::string_view file) {
  std::vector<OpCase> cases;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string where = absl::StrCat(file, ":", ++number);
    if (line.empty() || absl::StartsWith(line, "#")) continue;
    absl::Status status;
    if (absl::ConsumePrefix(&line, "case ")) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(line, absl::MaxSplits(' ', 1));
      absl::StatusOr<AttrMap> attrs = ParseAttrMap(parts.second);
      status = attrs.status();
      cases.push_back({.where = where, .op = std::string(parts.first)});
      if (attrs.ok()) cases.back().attrs = *std::move(attrs);
    } else if (cases.empty()) {
      status = absl::InvalidArgumentError("the line belongs to no case; start with a `case` line");
    } else {
      status = ParseLine(line, &cases.back());
    }
    if (!status.ok()) return Annotate(status, where);
  }
  return cases;
}

absl::StatusOr<std::vector<OpCase>> LoadOpCases(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  if (paths.empty()) return absl::NotFoundError(absl::StrCat(folder, ": no *.txt case files"));
  std::sort(paths.begin(), paths.end());
  std::vector<OpCase> cases;
  for (const std::filesystem::path& path : paths) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    MF_ASSIGN_OR_RETURN(std::vector<OpCase> of_file,
                        ParseOpCases(text.str(), path.filename().string()));
    cases.insert(cases.end(), of_file.begin(), of_file.end());
  }
  return cases;
}

const std::map<std::string, std::vector<OpCase>>& OpCasesByOp() {
  static const auto* const cases = [] {
    auto* by_op = new std::map<std::string, std::vector<OpCase>>();
    for (const char* folder : {"tests/references/cases", "tests/ops/cases"}) {
      const absl::StatusOr<std::vector<OpCase>> of_folder = LoadOpCases(folder);
      MF_CHECK(of_folder.ok());
      for (const OpCase& op_case : *of_folder) (*by_op)[op_case.op].push_back(op_case);
    }
    return by_op;
  }();
  return *cases;
}

std::vector<Shape> CaseNode::OutputShapes() const {
  std::vector<Shape> shapes;
  for (int i = 0; i < node->num_outputs(); ++i) {
    shapes.push_back(graph.values().shape(node->output(i)));
  }
  return shapes;
}

absl::StatusOr<CaseNode> MakeCaseNode(const OpCase& op_case, const OpRegistry& ops,
                                      Knowledge knowledge) {
  MF_ASSIGN_OR_RETURN(const OpDef* op, ops.Lookup(op_case.op));
  MF_ASSIGN_OR_RETURN(const std::vector<bool> is_static, StaticInputs(*op, op_case.attrs));
  if (is_static.size() != op_case.operands.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(op->name, ": wrong number of operands; expected ", is_static.size(), ", got ",
                     op_case.operands.size()));
  }
  CaseNode made;
  std::vector<Output> inputs;
  for (size_t i = 0; i < is_static.size(); ++i) {
    const OpCase::Operand& operand = op_case.operands[i];
    MF_ASSIGN_OR_RETURN(const Output input,
                        MakeOperand(operand, is_static[i], ops, knowledge, &made.graph));
    inputs.push_back(input);
    // Copies the value, because the kernel can change a variable, and the case is reused.
    MF_ASSIGN_OR_RETURN(Tensor value, operand.value.Clone());
    made.inputs.push_back(std::move(value));
  }
  MF_ASSIGN_OR_RETURN(made.node, made.graph.AddNode("node", *op, op_case.attrs, std::move(inputs)));
  MF_RETURN_IF_ERROR(made.graph.values().Infer(*made.node));
  return made;
}

absl::StatusOr<std::vector<Tensor>> EvaluateCase(const CaseNode& node,
                                                 const KernelRegistry& kernels) {
  const std::vector<Shape> shapes = node.OutputShapes();
  for (const Shape& shape : shapes) {
    if (!shape.IsFullyDefined()) {
      return absl::InternalError(
          absl::StrCat("the shape function leaves an output unknown: ", shape.ToString()));
    }
  }
  return EvaluateStrictly(*node.node, node.inputs, shapes, kernels);
}

}  // namespace mirrorflow
