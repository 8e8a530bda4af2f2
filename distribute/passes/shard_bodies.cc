// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/shard_bodies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/shape_ops.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// Returns a sharding for a value that has sharding `a` in one branch, or before an iteration, and
// sharding `b` in the other branch, or after the iteration.
Sharding Join(const Sharding& a, bool a_is_zero, const Sharding& b, bool b_is_zero) {
  if (a == b) return a;
  const auto sums = [](const Sharding& s) {
    return AsPartial(s) != nullptr && AsPartial(s)->reduction == Reduction::kSum;
  };
  if (IsPerReplica(a) || IsPerReplica(b)) return PerReplica();
  if (IsReplicated(a) && (AsSharded(b) != nullptr || (a_is_zero && sums(b)))) return b;
  if (IsReplicated(b) && (AsSharded(a) != nullptr || (b_is_zero && sums(a)))) return a;
  return Replicated();
}

absl::Status PropagateInto(Compilation& body, const Shardings& arguments, PropagateFn propagate,
                           bool may_differ = false) {
  // Every sweep propagates into every body, and bodies nest, so skip a body whose arguments have
  // not changed.
  const bool known = body.required_inputs.size() == static_cast<size_t>(body.graph.id_limit()) &&
                     body.argument_shardings == arguments;
  if (known) return absl::OkStatus();
  body.argument_shardings = arguments;
  MF_RETURN_IF_ERROR(propagate(body));
  for (const Output& result : body.fetches) {
    if (may_differ || !IsPerReplica(body.shardings.at(result))) continue;
    return absl::UnimplementedError(
        absl::StrCat(result.ToString(),
                     ": a loop's result differs between the replicas; expected one value across "
                     "all of them"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsZero(const Compilation& c, const Output& output) {
  Output made = StripViews(output);
  // A ZerosLike that was too large to be folded has no constant value.
  if (made.node->op().name == ops::kZerosLike) return true;
  if (made.node->op().name == ops::kFill) made = made.node->input(1);
  const Tensor& value = c.values().at(made).constant;
  if (!value.has_value()) return false;
  return std::all_of(value.raw(), value.raw() + value.bytes(),
                     [](std::byte b) { return b == std::byte{0}; });
}

absl::StatusOr<Shardings> ShardBranches(const Compilation::Bodies& branches,
                                        const Shardings& arguments, PropagateFn propagate) {
  Shardings results;
  std::vector<bool> is_zero;
  for (const auto& branch : branches) {
    MF_RETURN_IF_ERROR(PropagateInto(*branch, arguments, propagate, /*may_differ=*/true));
    for (size_t i = 0; i < branch->fetches.size(); ++i) {
      const Sharding& result = branch->shardings.at(branch->fetches[i]);
      const bool zero = IsZero(*branch, branch->fetches[i]);
      if (i == results.size()) {
        results.push_back(result);
        is_zero.push_back(zero);
      } else {
        results[i] = Join(results[i], is_zero[i], result, zero);
        is_zero[i] = is_zero[i] && zero;
      }
    }
  }
  for (const auto& branch : branches) branch->result_shardings = results;
  return results;
}

absl::StatusOr<Shardings> ShardLoop(const Compilation::Bodies& bodies, const Shardings& first,
                                    const std::vector<bool>& first_is_zero, PropagateFn propagate) {
  Compilation &condition = *bodies[0], &body = *bodies[1];
  Shardings values = first;
  // To terminate, a value whose sharding changes again after a join becomes whole. Every value
  // therefore changes at most three times.
  std::vector<bool> joined(values.size(), false);
  auto run_to_fixed_point = [&]() -> absl::Status {
    for (bool changed = true; changed;) {
      changed = false;
      MF_RETURN_IF_ERROR(PropagateInto(body, values, propagate));
      for (size_t i = 0; i < values.size(); ++i) {
        const Sharding& result = body.shardings.at(body.fetches[i]);
        if (result == values[i]) continue;
        const bool zero = IsZero(body, body.fetches[i]);
        const Sharding together =
            joined[i] ? Sharding(Replicated()) : Join(values[i], first_is_zero[i], result, zero);
        if (together == values[i]) continue;
        values[i] = together;
        joined[i] = true;
        changed = true;
      }
    }
    return absl::OkStatus();
  };
  MF_RETURN_IF_ERROR(run_to_fixed_point());
  // A value that starts as zero may become a partial sum, which is better reduced once, after the
  // loop.
  bool tries = false;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool adds = body.fetches[i].dtype() != DT_BOOL;
    if (!first_is_zero[i] || joined[i] || !IsReplicated(values[i]) || !adds) continue;
    values[i] = Partial{Reduction::kSum};
    joined[i] = true;
    tries = true;
  }
  if (tries) MF_RETURN_IF_ERROR(run_to_fixed_point());
  body.result_shardings = values;
  MF_RETURN_IF_ERROR(PropagateInto(condition, values, propagate));
  condition.result_shardings.assign(1, Replicated());
  return values;
}

}  // namespace mirrorflow
