// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "tests/oracle/in_double.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/op_checks.h"

namespace mirrorflow {

double RoundingUnit(DataType dtype) {
  switch (dtype) {
    case DT_HALF:
      return 0x1p-10;
    case DT_BFLOAT16:
      return 0x1p-7;
    case DT_FLOAT:
      return std::numeric_limits<float>::epsilon();
    default:
      return std::numeric_limits<double>::epsilon();
  }
}

namespace {

// Compares `got` with `want`; `what` is "output" or "variable".
void Compare(const OpCase& op_case, absl::string_view what, absl::Span<const Tensor> want,
             absl::Span<const Tensor> got, const Tolerance& tolerance, CheckReport* report) {
  if (want.size() != got.size()) {
    report->Fail(op_case, absl::StrCat("expected ", want.size(), " values of kind ", what, ", got ",
                                       got.size()));
    return;
  }
  for (size_t i = 0; i < want.size(); ++i) {
    const std::string difference = Difference(want[i], got[i], tolerance);
    if (!difference.empty()) report->Fail(op_case, absl::StrCat(what, " ", i, ": ", difference));
  }
}

std::vector<Tensor> VariablesOf(const OpCase& op_case, absl::Span<const Tensor> inputs) {
  std::vector<Tensor> variables;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (op_case.operands[i].is_variable) variables.push_back(inputs[i]);
  }
  return variables;
}

// Infers shapes and constants, with all operands known as constants.
absl::StatusOr<ShapeTable> InferFromConstants(const CaseNode& made) {
  ShapeTable table = made.graph.values();
  for (int i = 0; i < made.node->num_inputs(); ++i) {
    const Output input = made.node->input(i);
    if (input.dtype() == DT_RESOURCE) continue;
    table.Set(input, {.shape = made.inputs[i].shape(), .constant = made.inputs[i]});
  }
  const absl::Status status = table.Infer(*made.node);
  if (!status.ok()) return status;
  return table;
}

void CheckConstants(const OpCase& op_case, const CaseNode& made, absl::Span<const Tensor> results,
                    const Tolerance& tolerance, CheckReport* report) {
  const absl::StatusOr<ShapeTable> table = InferFromConstants(made);
  if (!table.ok()) {
    report->Fail(op_case, absl::StrCat("shape function on constants: ", table.status().ToString()));
    return;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueInfo& info = table->at(made.node->output(static_cast<int>(i)));
    if (!info.constant.has_value()) continue;
    const std::string difference = Difference(results[i], info.constant, tolerance);
    if (!difference.empty()) {
      report->Fail(op_case,
                   absl::StrCat("the shape function declares output ", i,
                                " a constant that the kernel does not compute: ", difference));
    }
  }
}

void CheckPartialShapes(const OpCase& op_case, const OpRegistry& ops,
                        absl::Span<const Tensor> results, CheckReport* report) {
  for (const Knowledge knowledge : {Knowledge::kRanks, Knowledge::kNothing}) {
    const char* told = knowledge == Knowledge::kRanks ? "ranks" : "nothing";
    const absl::StatusOr<CaseNode> made = MakeCaseNode(op_case, ops, knowledge);
    if (!made.ok()) {
      report->Fail(op_case, absl::StrCat("shape function that knows ", told,
                                         " of its operands: ", made.status().ToString()));
      continue;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const ValueInfo& info = made->graph.values().at(made->node->output(static_cast<int>(i)));
      if (info.shape.IsCompatibleWith(results[i].shape())) continue;
      report->Fail(op_case, absl::StrCat("shape function that knows ", told, " of its operands: ",
                                         "output ", i, " is ", results[i].shape().ToString(),
                                         ", not ", info.shape.ToString()));
    }
  }
}

// Returns the results of a case, computed in double precision and rounded.
absl::StatusOr<std::vector<Tensor>> ResultsByDouble(const CaseNode& made,
                                                    const KernelRegistry& kernels) {
  MF_ASSIGN_OR_RETURN(Interpreter interpreter,
                      Interpreter::Create(made.graph, kernels, {.in_double = true}));
  std::vector<std::pair<Output, Tensor>> feeds;
  std::vector<Output> fetches;
  for (int i = 0; i < made.node->num_inputs(); ++i) {
    feeds.emplace_back(made.node->input(i), made.inputs[i]);
  }
  for (int i = 0; i < made.node->num_outputs(); ++i) fetches.push_back(made.node->output(i));
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> results, interpreter.Run(feeds, fetches));
  for (size_t i = 0; i < results.size(); ++i) {
    MF_ASSIGN_OR_RETURN(results[i], ConvertFloating(results[i], fetches[i].dtype()));
  }
  return results;
}

bool IsInFloat(const OpCase& op_case) {
  return std::any_of(
      op_case.operands.begin(), op_case.operands.end(),
      [](const OpCase::Operand& operand) { return operand.value.dtype() == DT_FLOAT; });
}

}  // namespace

void CheckReport::Fail(const OpCase& op_case, absl::string_view what) {
  failures.push_back(absl::StrCat(op_case.ToString(), ": ", what));
}

void CheckReport::Add(const CheckReport& other) {
  checked += other.checked;
  failures.insert(failures.end(), other.failures.begin(), other.failures.end());
}

std::string CheckReport::ToString() const {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < failures.size() && i < kShown; ++i) {
    absl::StrAppend(&text, failures[i], "\n");
  }
  if (failures.size() > kShown) absl::StrAppend(&text, "… ", failures.size(), " failures in all\n");
  return text;
}

double LargestUnit(absl::Span<const Tensor> inputs, absl::Span<const Tensor> outputs) {
  double unit = 0;
  for (const absl::Span<const Tensor> tensors : {inputs, outputs}) {
    for (const Tensor& tensor : tensors) {
      if (IsFloating(tensor.dtype())) unit = std::max(unit, RoundingUnit(tensor.dtype()));
    }
  }
  return unit;
}

Tolerance ToleranceOf(const Node& node, absl::Span<const Tensor> inputs,
                      absl::Span<const Tensor> outputs) {
  const double unit = LargestUnit(inputs, outputs);
  double largest = 1;
  bool reduced = false;
  for (const absl::Span<const Tensor> tensors : {inputs, outputs}) {
    for (const Tensor& tensor : tensors) {
      if (!IsFloating(tensor.dtype())) continue;
      reduced = reduced || IsReducedFloat(tensor.dtype());
      largest = std::max(largest, LargestFinite(tensor));
    }
  }
  // Results in these dtypes are rounded once; half's denormals are 2^-24 apart.
  if (reduced) {
    return {.relative = unit,
            .absolute = node.op().has(kElementwise) ? 0x1p-24 : 2 * unit * largest};
  }
  // TensorFlow flushes subnormal results to 0.
  const double smallest = unit >= RoundingUnit(DT_FLOAT) ? std::numeric_limits<float>::min()
                                                         : std::numeric_limits<double>::min();
  return {.relative = 16 * unit,
          .absolute = node.op().has(kElementwise) ? smallest : 64 * unit * largest};
}

CheckReport CheckValues(const OpCase& op_case, const OpRegistry& ops,
                        const KernelRegistry& kernels) {
  CheckReport report;
  if (!op_case.has_results() && !IsInFloat(op_case)) return report;
  report.checked = 1;
  absl::StatusOr<CaseNode> made = MakeCaseNode(op_case, ops);
  absl::StatusOr<std::vector<Tensor>> results =
      made.ok() ? EvaluateCase(*made, kernels) : made.status();
  if (op_case.fails) {
    if (results.ok()) report.Fail(op_case, "expected an error, got results");
    return report;
  }
  if (!results.ok()) {
    report.Fail(op_case, results.status().ToString());
    return report;
  }
  std::vector<Tensor> want = op_case.outputs;
  if (!op_case.has_results()) {
    absl::StatusOr<std::vector<Tensor>> by_double = ResultsByDouble(*made, kernels);
    if (!by_double.ok())
      report.Fail(op_case, absl::StrCat("in double precision: ", by_double.status().ToString()));
    if (by_double.ok()) want = *std::move(by_double);
  }
  const Tolerance tolerance = ToleranceOf(*made->node, made->inputs, want);
  Compare(op_case, "output", want, *results, tolerance, &report);
  Compare(op_case, "variable", op_case.after, VariablesOf(op_case, made->inputs), tolerance,
          &report);
  if (!report.failures.empty()) return report;
  CheckConstants(op_case, *made, *results, tolerance, &report);
  CheckPartialShapes(op_case, ops, *results, &report);
  return report;
}

}  // namespace mirrorflow
