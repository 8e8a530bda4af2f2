// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/topological_sort.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

using Visit = absl::FunctionRef<void(int)>;
using Inputs = absl::FunctionRef<void(int, Visit)>;

// Returns a cycle among the items whose `pending` count never reached zero.
std::vector<int> FindCycle(absl::Span<const int> pending, Inputs inputs) {
  auto stuck_input = [&](int item) {
    int stuck = -1;
    inputs(item, [&](int input) {
      if (stuck < 0 && pending[input] > 0) stuck = input;
    });
    return stuck;
  };
  // Every stuck item has a stuck input, so following inputs must lead to some item twice.
  const int start =
      std::find_if(pending.begin(), pending.end(), [](int n) { return n > 0; }) - pending.begin();
  std::vector<bool> met(pending.size(), false);
  int on_cycle = start;
  while (!met[on_cycle]) {
    met[on_cycle] = true;
    on_cycle = stuck_input(on_cycle);
  }
  std::vector<int> cycle;
  int item = on_cycle;
  do {
    cycle.push_back(item);
    item = stuck_input(item);
  } while (item != on_cycle);
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  return cycle;
}

}  // namespace

TopologicalSort SortTopologically(int count, Inputs inputs) {
  // The users of all items, concatenated: those of item i start at first_user[i].
  std::vector<int> pending(count, 0);
  std::vector<int> first_user(count + 1, 0);
  for (int i = 0; i < count; ++i) {
    inputs(i, [&](int input) {
      ++pending[i];
      ++first_user[input + 1];
    });
  }
  std::partial_sum(first_user.begin(), first_user.end(), first_user.begin());
  std::vector<int> users(first_user[count]);
  std::vector<int> next(first_user.begin(), first_user.end() - 1);
  for (int i = 0; i < count; ++i) {
    inputs(i, [&](int input) { users[next[input]++] = i; });
  }

  TopologicalSort result;
  result.order.reserve(count);
  std::vector<int> ready;  // a min-heap
  auto make_ready = [&](int item) {
    ready.push_back(item);
    std::push_heap(ready.begin(), ready.end(), std::greater<int>());
  };
  for (int i = 0; i < count; ++i) {
    if (pending[i] == 0) make_ready(i);
  }
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), std::greater<int>());
    const int item = ready.back();
    ready.pop_back();
    result.order.push_back(item);
    for (int u = first_user[item]; u < first_user[item + 1]; ++u) {
      if (--pending[users[u]] == 0) make_ready(users[u]);
    }
  }
  if (static_cast<int>(result.order.size()) != count) result.cycle = FindCycle(pending, inputs);
  return result;
}

std::string CycleToString(absl::Span<const int> cycle, absl::FunctionRef<std::string(int)> name) {
  constexpr size_t kShown = 10;
  std::string text;
  for (size_t i = 0; i < std::min(cycle.size(), kShown); ++i) {
    absl::StrAppend(&text, name(cycle[i]), " -> ");
  }
  if (cycle.size() > kShown) absl::StrAppend(&text, "… (", cycle.size(), " in all) -> ");
  return absl::StrCat(text, name(cycle[0]));
}

}  // namespace mirrorflow
