// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/passes/list_flow.h"

#include <string>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "ops/control_flow/optional.h"
#include "ops/control_flow/tensor_list.h"

namespace mirrorflow {
namespace {

// An edge from a list to a value that an op, branch or loop derives from it: another list, an
// element, or a list that contains it.
struct Derivation {
  Output from, to;
  enum { kList, kElement, kOuter } kind = kList;
};

void CollectOpLists(const Node& node, std::vector<Derivation>* derivations) {
  const std::string& op = node.op().name;
  const bool gets = op == ops::kOptionalGetValue;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (!IsList(node.input(i)) || !IsList(node.output(0))) continue;
    const bool enters = op == ops::kOptionalFromValue || (op == ops::kTensorListPushBack && i == 1);
    derivations->push_back(
        {node.input(i), node.output(0),
         gets ? Derivation::kElement : (enters ? Derivation::kOuter : Derivation::kList)});
  }
  if (op == ops::kTensorListPopBack && IsList(node.output(1))) {
    derivations->push_back({node.input(0), node.output(1), Derivation::kElement});
  }
}

// Collects the lists of the graph and of its bodies in `lists`, and the edges between them in
// `derivations`, in execution order.
absl::Status CollectLists(const Compilation& c, ListsByValue* lists,
                          std::vector<Derivation>* derivations) {
  auto add = [&](const Output& from, const Output& to) {
    if (IsList(from) && IsList(to)) derivations->push_back({from, to});
  };
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  for (const Node* node : order) {
    for (int i = 0; i < node->num_outputs(); ++i) {
      const Output list = node->output(i);
      if (IsList(list)) lists->emplace(list, ListInfo::From(c.values().at(list)));
    }
    if (!IsControlFlow(node->op())) {
      if (node->num_outputs() == 0) continue;
      CollectOpLists(*node, derivations);
      continue;
    }
    const bool loops = node->op().role == OpRole::kLoop;
    const Compilation::Bodies& bodies = c.bodies.at(node->id());
    for (size_t i = 0; i < bodies.back()->feeds.size(); ++i) {
      const Output in = node->input(FirstArgument(node->op()) + static_cast<int>(i));
      if (loops) add(in, node->output(static_cast<int>(i)));
      for (const auto& body : bodies) add(in, body->feeds[i]);
    }
    for (const auto& body : bodies) {
      MF_RETURN_IF_ERROR(CollectLists(*body, lists, derivations));
      if (loops && body == bodies.front()) continue;
      for (size_t i = 0; i < body->fetches.size(); ++i) {
        add(body->fetches[i], node->output(static_cast<int>(i)));
        for (size_t k = 0; k < bodies.size() && loops; ++k) {
          add(body->fetches[i], bodies[k]->feeds[i]);
        }
      }
    }
  }
  return absl::OkStatus();
}

// Merges `later`, which is derived from `list`, into `list`. Returns whether that changed it.
absl::StatusOr<bool> Extend(ListInfo* list, ListInfo later, const Derivation& derivation) {
  if (derivation.kind == Derivation::kElement) {
    MF_ASSIGN_OR_RETURN(later, later.InList());
    later.max_length = list->max_length;  // an element does not determine the list's length
  } else if (derivation.kind == Derivation::kOuter) {
    later = later.ElementList();
  }
  MF_ASSIGN_OR_RETURN(ListInfo either, EitherList(*list, later));
  if (!either.known() && !either.holds_nothing()) either = list->OfAnyLength();
  either.length = list->length;
  const bool is_new = !(either == *list);
  *list = std::move(either);
  return is_new;
}

}  // namespace

absl::StatusOr<ListsByValue> FindLists(const Compilation& c) {
  ListsByValue lists;
  std::vector<Derivation> derivations;
  MF_RETURN_IF_ERROR(CollectLists(c, &lists, &derivations));
  // Without loops, one backward sweep suffices.
  for (bool again = true; again;) {
    again = false;
    for (auto derivation = derivations.rbegin(); derivation != derivations.rend(); ++derivation) {
      const absl::StatusOr<bool> is_new =
          Extend(&lists.at(derivation->from), lists.at(derivation->to), *derivation);
      if (!is_new.ok()) return Annotate(is_new.status(), OpAndName(*derivation->from.node));
      again |= *is_new;
    }
  }
  return lists;
}

}  // namespace mirrorflow
