// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/core/reduced_float.h"
#include "framework/core/status.h"
#include "framework/graph/gradients.h"
#include "framework/graph/shape_inference.h"
#include "tests/oracle/in_double.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/op_checks.h"

namespace mirrorflow {
namespace {

constexpr double kStep = 1e-5;
constexpr double kKink = 1e-3;
constexpr double kAgreement = 1e-6;
constexpr int64_t kElementsTried = 24;
constexpr int64_t kMaxElements = 1000;

using Feeds = std::vector<std::pair<Output, Tensor>>;

// A case, its gradient graph, and an interpreter that evaluates both in double precision.
class GradientCheck {
 public:
  GradientCheck(const OpCase& op_case, CaseNode made)
      : op_case_(op_case), made_(std::move(made)), random_(made_.node->num_inputs()) {}

  absl::Status Prepare(const OpRegistry& ops, const KernelRegistry& kernels);
  absl::Status Compare(CheckReport* report);
  // Compares the gradients with the case's known gradients.
  absl::Status CompareKnown(CheckReport* report);
  bool has_operands() const { return !operands_.empty(); }

 private:
  absl::Status AddGradients(const OpRegistry& ops);
  // Returns copies of the results: those of views share memory with the operands, which change.
  absl::StatusOr<std::vector<Tensor>> Results();
  // Returns the tensor that holds the value of operand `input`: a feed or a variable.
  Tensor& ValueOf(int input);
  absl::Status CompareOperand(size_t operand, CheckReport* report);

  const OpCase& op_case_;
  CaseNode made_;
  Random random_;
  Feeds feeds_;
  std::vector<Output> results_;    // the floating-point results
  std::vector<Tensor> dy_;         // for each of results_
  std::vector<int> operands_;      // input indices of floating-point operands and variables
  std::vector<Output> gradients_;  // for each of operands_; may be invalid
  std::vector<Tensor> before_;     // results_ for the case's operands
  std::optional<Interpreter> interpreter_;
};

absl::Status GradientCheck::AddGradients(const OpRegistry& ops) {
  Node* node = made_.node;
  const Scope scope(&made_.graph);
  std::vector<Output> xs;
  for (int i = 0; i < node->num_inputs(); ++i) {
    const bool variable = op_case_.operands[i].is_variable;
    if (!variable && (!IsFloating(node->input(i).dtype()) || node->is_static_input(i))) continue;
    operands_.push_back(i);
    xs.push_back(node->input(i));
  }
  GradientOptions options;
  for (int i = 0; i < node->num_outputs(); ++i) {
    const Output result = node->output(i);
    if (!IsFloating(result.dtype())) continue;
    if (!op_case_.dy.empty() && dy_.size() == op_case_.dy.size()) break;
    results_.push_back(result);
    const Shape& shape = made_.graph.values().shape(result);
    options.grad_ys.push_back(scope.WithName("dy")
                                  .Build(*ops.FindRole(OpRole::kPlaceholder))
                                  .Attr("dtype", result.dtype())
                                  .Attr("shape", shape)
                                  .One());
    MF_RETURN_IF_ERROR(scope.status());
    const size_t k = dy_.size();
    dy_.push_back(RandomTensor(DT_DOUBLE, shape, &random_));
    if (k < op_case_.dy.size()) {
      MF_ASSIGN_OR_RETURN(dy_[k], ConvertFloating(op_case_.dy[k], DT_DOUBLE));
    }
  }
  MF_ASSIGN_OR_RETURN(gradients_, Gradients(ops, scope, results_, xs, options));
  for (size_t i = 0; i < results_.size(); ++i) feeds_.emplace_back(options.grad_ys[i], dy_[i]);
  return absl::OkStatus();
}

absl::Status GradientCheck::Prepare(const OpRegistry& ops, const KernelRegistry& kernels) {
  MF_RETURN_IF_ERROR(AddGradients(ops));
  MF_ASSIGN_OR_RETURN(Interpreter interpreter,
                      Interpreter::Create(made_.graph, kernels, {.in_double = true}));
  interpreter_ = std::move(interpreter);
  for (int i = 0; i < made_.node->num_inputs(); ++i) {
    const Output input = made_.node->input(i);
    MF_ASSIGN_OR_RETURN(Tensor value, ConvertFloating(made_.inputs[i], DT_DOUBLE));
    if (op_case_.operands[i].is_variable) {
      interpreter_->variables()[input.node->name()] = std::move(value);
    } else if (input.node->op().role == OpRole::kPlaceholder) {
      feeds_.emplace_back(input, std::move(value));
    }
  }
  MF_ASSIGN_OR_RETURN(before_, Results());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> GradientCheck::Results() {
  MF_ASSIGN_OR_RETURN(std::vector<Tensor> results, interpreter_->Run(feeds_, results_));
  for (Tensor& result : results) {
    MF_ASSIGN_OR_RETURN(result, result.Clone());
  }
  return results;
}

Tensor& GradientCheck::ValueOf(int input) {
  const Output output = made_.node->input(input);
  if (op_case_.operands[input].is_variable) return interpreter_->variables()[output.node->name()];
  for (auto& [value, tensor] : feeds_) {
    if (value == output) return tensor;
  }
  MF_CHECK(false && "the operand has no feed");
  return feeds_[0].second;
}

absl::Status GradientCheck::Compare(CheckReport* report) {
  for (size_t i = 0; i < operands_.size(); ++i) MF_RETURN_IF_ERROR(CompareOperand(i, report));
  return absl::OkStatus();
}

// Returns dL/dx by central differences, or no value where the op is not smooth, that is, where the
// differences to the left and to the right disagree.
std::optional<double> Derivative(absl::Span<const Tensor> dy, absl::Span<const Tensor> left,
                                 absl::Span<const Tensor> here, absl::Span<const Tensor> right,
                                 double step) {
  double derivative = 0;
  for (size_t k = 0; k < dy.size(); ++k) {
    for (int64_t j = 0; j < dy[k].num_elements(); ++j) {
      const double l = left[k].flat<double>()[j], h = here[k].flat<double>()[j],
                   r = right[k].flat<double>()[j];
      if (!std::isfinite(l) || !std::isfinite(h) || !std::isfinite(r)) return std::nullopt;
      const double to_left = (h - l) / step, to_right = (r - h) / step;
      const double size = std::max({1.0, std::abs(to_left), std::abs(to_right)});
      if (std::abs(to_left - to_right) > kKink * size) return std::nullopt;
      derivative += dy[k].flat<double>()[j] * (r - l) / (2 * step);
    }
  }
  return derivative;
}

absl::Status GradientCheck::CompareOperand(size_t operand, CheckReport* report) {
  const int input = operands_[operand];
  Tensor symbolic;
  if (gradients_[operand].valid()) {
    MF_ASSIGN_OR_RETURN(std::vector<Tensor> values,
                        interpreter_->Run(feeds_, {gradients_[operand]}));
    symbolic = std::move(values[0]);
    if (symbolic.shape() != made_.inputs[input].shape()) {
      return absl::InternalError(absl::StrCat(
          "gradient of operand ", input, ": wrong shape; expected ",
          made_.inputs[input].shape().ToString(), ", got ", symbolic.shape().ToString()));
    }
  }
  const DataType dtype = made_.inputs[input].dtype();
  const double agreement = IsReducedFloat(dtype) ? RoundingUnit(dtype) : kAgreement;
  const int64_t size = made_.inputs[input].num_elements();
  for (int64_t n = 0; n < std::min(size, kElementsTried); ++n) {
    const int64_t i = size <= kElementsTried ? n : random_.Below(size);
    double& x = ValueOf(input).flat<double>()[i];
    const double at = x;
    x = at - kStep;
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> left, Results());
    ValueOf(input).flat<double>()[i] = at + kStep;
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> right, Results());
    ValueOf(input).flat<double>()[i] = at;
    const std::optional<double> want = Derivative(dy_, left, before_, right, kStep);
    if (!want.has_value()) continue;
    ++report->checked;
    const double got = symbolic.has_value() ? symbolic.flat<double>()[i] : 0;
    if (std::abs(got - *want) <= agreement * std::max(1.0, std::abs(*want))) continue;
    report->Fail(op_case_, absl::StrCat("gradient of operand ", input, ", element ", i, " (", at,
                                        "): expected ", *want, " by differences, got ",
                                        symbolic.has_value() ? absl::StrCat(got) : "none"));
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status GradientCheck::CompareKnown(CheckReport* report) {
  if (operands_.size() != op_case_.gradients.size()) {
    return absl::InternalError(absl::StrCat("wrong number of known gradients; expected ",
                                            operands_.size(), ", got ", op_case_.gradients.size()));
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    MF_ASSIGN_OR_RETURN(const Tensor zeros,
                        Tensor::Allocate(DT_DOUBLE, made_.inputs[operands_[i]].shape()));
    const Tensor& known = op_case_.gradients[i];
    Tensor want = zeros;
    if (known.has_value()) {
      MF_ASSIGN_OR_RETURN(want, ConvertFloating(known, DT_DOUBLE));
    }
    std::vector<Tensor> got = {zeros};
    if (gradients_[i].valid()) {
      MF_ASSIGN_OR_RETURN(got, interpreter_->Run(feeds_, {gradients_[i]}));
    }
    ++report->checked;
    const std::string difference =
        Difference(want, got[0], ToleranceOfKnownGradient(known.has_value() ? known : zeros));
    if (difference.empty()) continue;
    report->Fail(op_case_, absl::StrCat("gradient of operand ", operands_[i], ": ", difference));
  }
  return absl::OkStatus();
}

// Prepares a check of the case, with the case's dy if it has any, and runs `compare`.
using CompareFn = absl::Status (GradientCheck::*)(CheckReport*);
void Check(const OpCase& op_case, const OpRegistry& ops, const KernelRegistry& kernels,
           CompareFn compare, CheckReport* report) {
  absl::StatusOr<CaseNode> made = MakeCaseNode(op_case, ops);
  if (!made.ok()) {
    report->Fail(op_case, made.status().ToString());
    return;
  }
  GradientCheck check(op_case, *std::move(made));
  absl::Status status = check.Prepare(ops, kernels);
  if (status.ok()) status = (check.*compare)(report);
  if (!status.ok()) report->Fail(op_case, status.ToString());
}

}  // namespace

Tolerance ToleranceOfKnownGradient(const Tensor& gradient) {
  const double agreement = gradient.dtype() == DT_DOUBLE ? 1e-10 : 1e-5;
  return {.relative = agreement, .absolute = agreement * LargestFinite(gradient)};
}

CheckReport CheckKnownGradients(const OpCase& op_case, const OpRegistry& ops,
                                const KernelRegistry& kernels) {
  CheckReport report;
  if (op_case.gradients.empty()) return report;
  Check(op_case, ops, kernels, &GradientCheck::CompareKnown, &report);
  return report;
}

CheckReport CheckGradient(const OpCase& op_case, const OpRegistry& ops,
                          const KernelRegistry& kernels) {
  CheckReport report;
  const OpDef* op = ops.Find(op_case.op);
  if (op == nullptr || op->gradient == nullptr || op_case.fails) return report;
  bool floating = false;
  for (const OpCase::Operand& operand : op_case.operands) {
    floating = floating || IsFloating(operand.value.dtype());
    if (!AllFinite(operand.value) || operand.value.num_elements() > kMaxElements) return report;
  }
  if (!floating) return report;
  Check(op_case, ops, kernels, &GradientCheck::Compare, &report);
  return report;
}

}  // namespace mirrorflow
