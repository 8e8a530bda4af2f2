// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/scope.h"
#include "framework/graph/shape_inference.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/op_checks.h"
#include "tests/support/strict_kernel.h"

namespace mirrorflow {
namespace {

constexpr size_t kAbsent = std::string::npos;

// The number of rows on each replica.
using Cut = std::vector<int64_t>;

// Returns uneven and empty splits of `rows` rows over 1 to 4 replicas.
std::set<Cut> Cuts(int64_t rows) {
  const int64_t third = rows / 3, half = rows / 2, two_thirds = rows - third;
  return {{rows},
          {two_thirds, third},
          {0, rows},
          {rows, 0},
          {half, 0, rows - half},
          {0, rows, 0},
          {third, third, rows - 2 * third},
          {0, two_thirds, 0, third},
          {rows - 3 * (rows / 4), rows / 4, rows / 4, rows / 4}};
}

std::string CutText(char letter, const Cut& cut) {
  return absl::StrCat("letter ", std::string(1, letter), " cut into {", absl::StrJoin(cut, ","),
                      "}");
}

// A case, and the results of its op on the unsharded operands.
class ShardingCheck {
 public:
  ShardingCheck(const OpCase& op_case, CaseNode made, const KernelRegistry& kernels)
      : op_case_(op_case), made_(std::move(made)), kernels_(kernels) {}

  // Fills `report`. Stops at the first error and returns it.
  absl::Status Run(CheckReport* report);

 private:
  // A letter of the rule, the number of rows to split, and whether an input has the letter.
  struct Letter {
    char name;
    int64_t rows;
    bool in_inputs;
  };

  absl::Status PrepareRule();
  absl::StatusOr<Letter> FindLetter(char name) const;
  absl::Status CheckLetter(const Letter& letter, const Cut& cut, CheckReport* report) const;
  absl::StatusOr<std::vector<Tensor>> RunLocally(const Letter& letter, int64_t first_row,
                                                 int64_t rows) const;
  absl::Status CheckLinearity(CheckReport* report) const;
  absl::Status CheckPartial(absl::Span<const int> partial, int replicas, Random* random,
                            CheckReport* report) const;
  absl::Status CheckExpansion(CheckReport* report) const;
  // Runs the op without changing variables.
  absl::StatusOr<std::vector<Tensor>> Evaluate(std::vector<Tensor> inputs,
                                               absl::Span<const Shape> output_shapes,
                                               const EvaluateOptions& options = {}) const;
  // Records a failure if output `i` differs from the result for the whole operands.
  void CompareOutput(int i, const Tensor& got, absl::string_view how, CheckReport* report) const;

  const OpCase& op_case_;
  const CaseNode made_;
  const KernelRegistry& kernels_;
  std::vector<Shape> output_shapes_;
  std::vector<Tensor> whole_;
  ShardingRule rule_;
  ShardingTerms terms_;
};

absl::StatusOr<std::vector<Tensor>> ShardingCheck::Evaluate(std::vector<Tensor> inputs,
                                                            absl::Span<const Shape> output_shapes,
                                                            const EvaluateOptions& options) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!op_case_.operands[i].is_variable) continue;
    MF_ASSIGN_OR_RETURN(inputs[i], inputs[i].Clone());
  }
  return EvaluateStrictly(*made_.node, inputs, output_shapes, kernels_, options);
}

absl::Status ShardingCheck::PrepareRule() {
  output_shapes_ = made_.OutputShapes();
  MF_ASSIGN_OR_RETURN(whole_, Evaluate(made_.inputs, output_shapes_));
  MF_ASSIGN_OR_RETURN(rule_,
                      made_.node->op().sharding(ShardContext(*made_.node, made_.graph.values())));
  std::vector<Shape> input_shapes;
  for (const Output& in : made_.node->inputs())
    input_shapes.push_back(made_.graph.values().shape(in));
  MF_ASSIGN_OR_RETURN(terms_, ParseShardingTerms(rule_.dims, input_shapes, output_shapes_));
  return absl::OkStatus();
}

// Returns the letter `name`. The check cuts all dimensions with this letter together, each in
// proportion to its size.
absl::StatusOr<ShardingCheck::Letter> ShardingCheck::FindLetter(char name) const {
  Letter letter = {.name = name, .rows = 0, .in_inputs = false};
  bool empty = false;
  auto visit = [&](absl::string_view term, const Shape& shape) -> absl::Status {
    const size_t dim = term.find(name);
    if (dim == kAbsent) return absl::OkStatus();
    if (term.find(name, dim + 1) != kAbsent) {
      return absl::InvalidArgumentError(absl::StrCat("the letter occurs twice in '", term, "'"));
    }
    letter.rows = std::gcd(letter.rows, shape.dim(static_cast<int>(dim)));
    empty = empty || shape.dim(static_cast<int>(dim)) == 0;
    return absl::OkStatus();
  };
  for (int i = 0; i < made_.node->num_inputs(); ++i) {
    MF_RETURN_IF_ERROR(visit(terms_.inputs[i], made_.inputs[i].shape()));
    if (terms_.inputs[i].find(name) == kAbsent) continue;
    letter.in_inputs = true;
    if (made_.node->is_static_input(i) || op_case_.operands[i].is_variable) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " is static or a handle and cannot be cut"));
    }
  }
  for (size_t i = 0; i < output_shapes_.size(); ++i) {
    MF_RETURN_IF_ERROR(visit(terms_.outputs[i], output_shapes_[i]));
  }
  if (empty && letter.rows != 0) {
    return absl::InvalidArgumentError("the letter names dimensions of size 0 and of other sizes");
  }
  return letter;
}

absl::StatusOr<std::vector<Tensor>> ShardingCheck::RunLocally(const Letter& letter,
                                                              int64_t first_row,
                                                              int64_t rows) const {
  auto per_row = [&](int64_t size) { return letter.rows == 0 ? 0 : size / letter.rows; };
  std::vector<Tensor> inputs = made_.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t dim = terms_.inputs[i].find(letter.name);
    if (dim != kAbsent) {
      const int64_t factor = per_row(inputs[i].shape().dim(static_cast<int>(dim)));
      inputs[i] = SliceAlong(inputs[i], static_cast<int>(dim), first_row * factor,
                             (first_row + rows) * factor);
    }
  }
  std::vector<Shape> shapes = output_shapes_;
  std::vector<Sharding> shardings(shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    const size_t dim = terms_.outputs[i].find(letter.name);
    if (dim != kAbsent) {
      const int64_t factor = per_row(shapes[i].dim(static_cast<int>(dim)));
      shardings[i] = Sharded{/*axis=*/0, static_cast<int>(dim), factor};
      shapes[i].set_dim(static_cast<int>(dim), rows * factor);
    } else if (letter.in_inputs) {
      shardings[i] = Partial{rule_.contracted};
    }
  }
  EvaluateOptions options;
  options.params.first_row[0] = first_row;
  options.output_shardings = shardings;
  options.global_output_shapes = output_shapes_;
  return Evaluate(std::move(inputs), shapes, options);
}

void ShardingCheck::CompareOutput(int i, const Tensor& got, absl::string_view how,
                                  CheckReport* report) const {
  const Tolerance tolerance = ToleranceOf(*made_.node, made_.inputs, whole_);
  const std::string difference = Difference(whole_[i], got, tolerance);
  if (difference.empty()) return;
  report->Fail(op_case_,
               absl::StrCat("rule '", rule_.dims, "', ", how, ": output ", i, ": ", difference));
}

absl::Status ShardingCheck::CheckLetter(const Letter& letter, const Cut& cut,
                                        CheckReport* report) const {
  std::vector<std::vector<Tensor>> parts(whole_.size());  // per output, then per replica
  std::vector<double> weights;
  int64_t first_row = 0;
  for (const int64_t rows : cut) {
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> local, RunLocally(letter, first_row, rows));
    for (size_t i = 0; i < local.size(); ++i) parts[i].push_back(local[i]);
    weights.push_back(letter.rows == 0 ? 0 : static_cast<double>(rows) / letter.rows);
    first_row += rows;
  }
  ++report->checked;
  const std::string how = CutText(letter.name, cut);
  for (size_t i = 0; i < whole_.size(); ++i) {
    const int output = static_cast<int>(i);
    const size_t dim = terms_.outputs[i].find(letter.name);
    if (dim != kAbsent) {
      CompareOutput(output, ConcatenateAlong(parts[i], static_cast<int>(dim)), how, report);
    } else if (letter.in_inputs) {
      CompareOutput(output, Combine(parts[i], rule_.contracted, weights), how, report);
    } else {
      for (const Tensor& part : parts[i]) CompareOutput(output, part, how, report);
    }
  }
  return absl::OkStatus();
}

// Checks that the results for partial operands add up to the results for the whole operands.
absl::Status ShardingCheck::CheckPartial(absl::Span<const int> partial, int replicas,
                                         Random* random, CheckReport* report) const {
  std::vector<std::vector<Tensor>> inputs(replicas, made_.inputs);  // per replica
  for (const int i : partial) {
    const Tensor& value = made_.inputs[i];
    if (value.dtype() == DT_BOOL || op_case_.operands[i].is_variable) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " is bool or a handle and cannot be a partial sum"));
    }
    const std::vector<Tensor> parts = RandomParts(value, replicas, random);
    for (int r = 0; r < replicas; ++r) inputs[r][i] = parts[r];
  }
  std::vector<std::vector<Tensor>> results(whole_.size());  // per output, then per replica
  Tolerance tolerance = ToleranceOf(*made_.node, made_.inputs, whole_);
  for (const std::vector<Tensor>& local : inputs) {
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, Evaluate(local, output_shapes_));
    for (size_t i = 0; i < outputs.size(); ++i) results[i].push_back(outputs[i]);
    // Partial sums can be larger than their total, and can cancel even if the op adds nothing.
    const double unit = ToleranceOf(*made_.node, local, outputs).relative / 16;
    for (const std::vector<Tensor>* tensors : {&local, &outputs}) {
      for (const Tensor& tensor : *tensors) {
        tolerance.absolute = std::max(tolerance.absolute, 64 * unit * LargestFinite(tensor));
      }
    }
  }
  ++report->checked;
  for (size_t i = 0; i < whole_.size(); ++i) {
    const Tensor sum = Combine(results[i], Reduction::kSum, {});
    // With infinities or NaN, even a linear op need not be additive.
    if (!AllFinite(sum) || !AllFinite(whole_[i])) continue;
    const std::string difference = Difference(whole_[i], sum, tolerance);
    if (difference.empty()) continue;
    report->Fail(op_case_,
                 absl::StrCat("rule '", rule_.dims, "', input(s) ", absl::StrJoin(partial, ","),
                              " in ", replicas, " partial sums: output ", i, ": ", difference));
  }
  return absl::OkStatus();
}

absl::Status ShardingCheck::CheckLinearity(CheckReport* report) const {
  if (rule_.linearity == Linearity::kNone) return absl::OkStatus();
  std::vector<int> linear = rule_.linear_inputs;
  for (int i = 0; rule_.linear_inputs.empty() && i < made_.node->num_inputs(); ++i) {
    linear.push_back(i);
  }
  for (const int i : linear) {
    if (i < 0 || i >= made_.node->num_inputs() || made_.node->is_static_input(i)) {
      return absl::InvalidArgumentError(
          absl::StrCat("rule '", rule_.dims, "': linear input ", i, " is static or missing"));
    }
  }
  Random random(linear.size());
  for (int replicas = 2; replicas <= 4; ++replicas) {
    if (rule_.linearity == Linearity::kJoint) {
      MF_RETURN_IF_ERROR(CheckPartial(linear, replicas, &random, report));
      continue;
    }
    for (const int i : linear) MF_RETURN_IF_ERROR(CheckPartial({i}, replicas, &random, report));
  }
  return absl::OkStatus();
}

absl::Status ShardingCheck::CheckExpansion(CheckReport* report) const {
  if (made_.node->op().expand == nullptr) {
    return absl::InvalidArgumentError("the rule requires an expansion, but the op has none");
  }
  Graph graph = made_.graph.Clone();
  Node* node = graph.node(made_.node->id());
  MF_ASSIGN_OR_RETURN(const std::vector<Output> expansion,
                      node->op().expand(Scope(&graph).SubScope("expansion"), *node));
  MF_RETURN_IF_ERROR(graph.status());
  MF_ASSIGN_OR_RETURN(Interpreter interpreter, Interpreter::Create(graph, kernels_));
  std::vector<std::pair<Output, Tensor>> feeds;
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (node->input(i).node->op().role != OpRole::kPlaceholder) continue;
    feeds.emplace_back(node->input(i), made_.inputs[i]);
  }
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> results, interpreter.Run(feeds, expansion));
  if (results.size() != whole_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("expansion: wrong number of outputs; expected ",
                                                   whole_.size(), ", got ", results.size()));
  }
  ++report->checked;
  for (size_t i = 0; i < results.size(); ++i) {
    CompareOutput(static_cast<int>(i), results[i], "expansion", report);
  }
  return absl::OkStatus();
}

absl::Status ShardingCheck::Run(CheckReport* report) {
  MF_RETURN_IF_ERROR(PrepareRule());
  std::set<char> letters;
  bool contracts = false;
  for (const ShardingTerms::Terms* terms : {&terms_.inputs, &terms_.outputs}) {
    for (absl::string_view term : *terms) {
      for (const char c : term) {
        if (std::isalpha(static_cast<unsigned char>(c))) letters.insert(c);
      }
    }
  }
  for (const char name : letters) {
    absl::StatusOr<Letter> letter = FindLetter(name);
    if (!letter.ok()) return Annotate(letter.status(), absl::StrCat("rule '", rule_.dims, "'"));
    // Every output must have the letter. If an output contracts it, an expansion replaces the op.
    const bool survives =
        std::all_of(terms_.outputs.begin(), terms_.outputs.end(),
                    [&](absl::string_view term) { return term.find(name) != kAbsent; });
    if (rule_.expand && !survives) {
      contracts = true;
      continue;
    }
    for (const Cut& cut : Cuts(letter->rows)) {
      MF_RETURN_IF_ERROR(CheckLetter(*letter, cut, report));
    }
  }
  if (contracts) MF_RETURN_IF_ERROR(CheckExpansion(report));
  MF_RETURN_IF_ERROR(CheckLinearity(report));
  // Even if nothing can be cut, the case shows that the rule can be created and is well-formed.
  if (report->checked == 0) report->checked = 1;
  return absl::OkStatus();
}

}  // namespace

CheckReport CheckShardingRule(const OpCase& op_case, const OpRegistry& ops,
                              const KernelRegistry& kernels) {
  CheckReport report;
  const OpDef* op = ops.Find(op_case.op);
  if (op == nullptr || op->sharding == nullptr || op_case.fails) return report;
  absl::StatusOr<CaseNode> made = MakeCaseNode(op_case, ops);
  absl::Status status = made.status();
  if (status.ok()) status = ShardingCheck(op_case, *std::move(made), kernels).Run(&report);
  if (!status.ok()) report.Fail(op_case, status.ToString());
  return report;
}

}  // namespace mirrorflow
