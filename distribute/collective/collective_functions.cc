// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/collective_functions.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distribute/collective/collective_ops.h"
#include "framework/core/status.h"
#include "framework/graph/function_body.h"
#include "framework/graph/scope.h"
#include "framework/graph/shape_inference.h"
#include "ops/all/ops.h"

namespace mirrorflow {
namespace {

// Combines the values in rank order, as communicators do.
Output InRankOrder(const Scope& scope, absl::Span<const Output> values,
                   Output combine(const Scope& scope, Output a, Output b)) {
  Output result = values[0];
  for (const Output& value : values.subspan(1)) result = combine(scope, result, value);
  return result;
}

Output ReduceValues(const Scope& scope, Reduction reduction, absl::Span<const Output> values) {
  switch (reduction) {
    case Reduction::kSum:
      return ops::AddN(scope, values);
    case Reduction::kMean: {
      const auto count = static_cast<double>(values.size());
      return ops::RealDiv(scope, ops::AddN(scope, values),
                          ops::ScalarConst(scope, values[0].dtype(), count));
    }
    case Reduction::kMax:
      return InRankOrder(scope, values, ops::Maximum);
    case Reduction::kMin:
      return InRankOrder(scope, values, ops::Minimum);
    case Reduction::kAll:
      return InRankOrder(scope, values, ops::LogicalAnd);
    case Reduction::kAny:
      return InRankOrder(scope, values, ops::LogicalOr);
  }
  return Output();
}

}  // namespace

absl::StatusOr<FunctionRef> DefineCollective(const Node& collective,
                                             absl::Span<const Output> inputs,
                                             absl::Span<const int64_t> rows, int num_replicas,
                                             Graph& caller) {
  const std::string& op = collective.op().name;
  const int num_values = collective.num_inputs();
  FunctionBody body;
  const Scope scope(&body.graph);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = absl::StrCat("replica_", i / num_values, "_value_", i % num_values);
    body.args.push_back(ops::Placeholder(scope.WithName(name), inputs[i].dtype(),
                                         caller.values().shape(inputs[i])));
  }
  std::string name = op;
  Reduction reduction = Reduction::kSum;
  if (collective.has_attr("reduction")) {
    const std::string& reduction_name = collective.attr<std::string>("reduction");
    MF_ASSIGN_OR_RETURN(reduction, ParseReduction(reduction_name));
    absl::StrAppend(&name, "_", reduction_name);
  }
  if (op == kAllReduce) {
    std::vector<Output> reduced;
    for (int v = 0; v < num_values; ++v) {
      std::vector<Output> values;
      for (int r = 0; r < num_replicas; ++r) values.push_back(body.args[r * num_values + v]);
      reduced.push_back(ReduceValues(scope, reduction, values));
    }
    for (int r = 0; r < num_replicas; ++r) {
      body.results.insert(body.results.end(), reduced.begin(), reduced.end());
    }
  } else if (op == kAllGather) {
    body.results.assign(num_replicas, ops::ConcatV2(scope, body.args, 0));
  } else if (op == kReduceScatter) {
    std::vector<int64_t> sizes;
    for (const int64_t count : rows) sizes.push_back(count * collective.attr<int64_t>("factor"));
    body.results = ops::SplitV(scope, ReduceValues(scope, reduction, body.args), sizes, 0);
  } else {
    return absl::UnimplementedError(
        absl::StrCat(op, "(", collective.name(), "): no function defines this collective"));
  }
  MF_RETURN_IF_ERROR(body.graph.status());
  return DefineFunction(body, absl::StrCat(name, "_", num_replicas), caller);
}

}  // namespace mirrorflow
