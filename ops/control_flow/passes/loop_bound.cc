// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/passes/loop_bound.h"

#include <algorithm>
#include <string>

#include "ops/binary.h"

namespace mirrorflow {
namespace {

// The limit for counters and bounds, so that int64 arithmetic on them cannot overflow.
constexpr int64_t kLargest = int64_t{1} << 40;
// Limits the visits to comparisons, LogicalAnds, and loops bounded by other loops' counters. A node
// that is used twice is visited twice.
constexpr int kMaxVisits = 256;

using Bound = std::optional<int64_t>;

Bound ConstantOf(const Compilation& c, const Output& value) {
  const Tensor& tensor = c.values().at(value).constant;
  if (!tensor.has_value() || tensor.num_elements() != 1) return std::nullopt;
  const absl::StatusOr<std::vector<int64_t>> numbers = IntegersOf(tensor);
  if (!numbers.ok() || std::abs((*numbers)[0]) > kLargest) return std::nullopt;
  return (*numbers)[0];
}

// Returns the index of `value` among the body's arguments, or -1 if it is not an argument.
int ArgumentOf(const Compilation& body, const Output& value) {
  const auto at = std::find(body.feeds.begin(), body.feeds.end(), StripViews(value));
  return at != body.feeds.end() ? static_cast<int>(at - body.feeds.begin()) : -1;
}

Bound UpperBound(const Compilation& c, const Output& value, int& visits);

struct Counter {
  int64_t start;
  int64_t step;  // above 0
};

// Returns value i of the loop as a counter, if it counts up.
std::optional<Counter> CounterOf(const Compilation& c, const Node& loop, int i) {
  const Compilation& body = *c.bodies.at(loop.id())[1];
  const Bound start = ConstantOf(c, loop.input(i));
  const Node& add = *StripViews(body.fetches[i]).node;
  if (!start.has_value() || (add.op().name != ops::kAddV2 && add.op().name != ops::kAdd)) {
    return std::nullopt;
  }
  for (const int side : {0, 1}) {
    if (ArgumentOf(body, add.input(side)) != i) continue;
    const Bound step = ConstantOf(body, add.input(1 - side));
    if (step.has_value() && *step > 0) return Counter{*start, *step};
  }
  return std::nullopt;
}

// Returns an upper bound on how often `smaller` < `larger` (<= if `equal`) can be true.
Bound BoundOfComparison(const Compilation& c, const Node& loop, const Output& smaller,
                        const Output& larger, bool equal, int& visits) {
  const Compilation& condition = *c.bodies.at(loop.id())[0];
  const int i = ArgumentOf(condition, smaller);
  if (i < 0) return std::nullopt;
  const std::optional<Counter> counter = CounterOf(c, loop, i);
  if (!counter.has_value()) return std::nullopt;
  Bound limit = ConstantOf(condition, larger);
  const int j = ArgumentOf(condition, larger);
  const Compilation& body = *c.bodies.at(loop.id())[1];
  if (!limit.has_value() && j >= 0 && ArgumentOf(body, body.fetches[j]) == j) {
    limit = UpperBound(c, loop.input(j), visits);  // the same in all iterations
  }
  if (!limit.has_value()) return std::nullopt;
  const int64_t room = *limit - counter->start + (equal ? 1 : 0);
  return room <= 0 ? 0 : (room + counter->step - 1) / counter->step;
}

Bound BoundOfPredicate(const Compilation& c, const Node& loop, const Output& predicate,
                       int& visits) {
  if (--visits < 0) return std::nullopt;
  const Node& node = *StripViews(predicate).node;
  const std::string& op = node.op().name;
  const auto compare = [&](int smaller, bool equal) {
    return BoundOfComparison(c, loop, node.input(smaller), node.input(1 - smaller), equal, visits);
  };
  if (op == ops::kLess) return compare(0, false);
  if (op == ops::kLessEqual) return compare(0, true);
  if (op == ops::kGreater) return compare(1, false);
  if (op == ops::kGreaterEqual) return compare(1, true);
  if (op != ops::kLogicalAnd) return std::nullopt;
  const Bound a = BoundOfPredicate(c, loop, node.input(0), visits);
  const Bound b = BoundOfPredicate(c, loop, node.input(1), visits);
  if (a.has_value() && b.has_value()) return std::min(*a, *b);
  return a.has_value() ? a : b;
}

Bound BoundOf(const Compilation& c, const Node& loop, int& visits) {
  return BoundOfPredicate(c, loop, c.bodies.at(loop.id())[0]->fetches[0], visits);
}

// Returns an upper bound of `value` if it is a constant or the final value of a bounded loop's
// counter, and nullopt otherwise.
Bound UpperBound(const Compilation& c, const Output& value, int& visits) {
  const Bound constant = ConstantOf(c, value);
  if (constant.has_value()) return constant;
  const Output counted = StripViews(value);
  const auto bodies = c.bodies.find(counted.node->id());
  if (bodies == c.bodies.end() || counted.node->op().role != OpRole::kLoop) return std::nullopt;
  const std::optional<Counter> counter = CounterOf(c, *counted.node, counted.index);
  const Bound times = BoundOf(c, *counted.node, visits);
  if (!counter.has_value() || !times.has_value()) return std::nullopt;
  if (*times > kLargest / counter->step) return std::nullopt;
  return counter->start + *times * counter->step;
}

}  // namespace

std::optional<int64_t> LoopBound(const Compilation& c, const Node& loop) {
  int visits = kMaxVisits;
  return BoundOf(c, loop, visits);
}

}  // namespace mirrorflow
