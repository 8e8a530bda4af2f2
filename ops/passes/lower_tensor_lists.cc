// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/lower_tensor_lists.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/core/status.h"
#include "framework/graph/list_info.h"
#include "ops/add_n.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/gather_nd.h"
#include "ops/identity.h"
#include "ops/passes/list_rows.h"
#include "ops/tensor_list.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

std::string Where(const Node& node) { return absl::StrCat(node.op().name, "(", node.name(), ")"); }

bool IsList(const Output& value) { return value.dtype() == DT_VARIANT; }

ListInfo InfoOf(const Compilation& c, const Output& list) {
  return ListInfo::From(c.values().at(list));
}

// Of each list, also of those in bodies: what it and those that it becomes are, which all lie in
// the same rows. That is the shape of their elements, and the most of them.
using ListsByValue = absl::flat_hash_map<Output, ListInfo>;

// From a list to what an op, a branch or a loop makes of it.
using Becomes = std::pair<Output, Output>;

// Puts what the graph says of its lists, and of those in its bodies, into `lists`, and what becomes
// what into `steps`, in the order in which things happen.
absl::Status CollectLists(const Compilation& c, ListsByValue* lists, std::vector<Becomes>* steps) {
  auto becomes = [&](const Output& from, const Output& to) {
    if (IsList(from) && IsList(to)) steps->emplace_back(from, to);
  };
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  for (const Node* node : order) {
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (IsList(node->output(i))) lists->emplace(node->output(i), InfoOf(c, node->output(i)));
    }
    if (!IsControlFlow(node->op())) {
      if (node->num_outputs() == 0) continue;
      // LowerOp knows no op with more lists than that.
      for (const Output& in : node->inputs()) becomes(in, node->output(0));
      continue;
    }
    const bool loops = node->op().role == OpRole::kLoop;
    const Compilation::Bodies& bodies = c.bodies.at(node->id());
    for (size_t i = 0; i < bodies.back()->feeds.size(); ++i) {
      const Output in = node->input(FirstArgument(node->op()) + static_cast<int>(i));
      if (loops) becomes(in, node->output(static_cast<int>(i)));
      for (const auto& body : bodies) becomes(in, body->feeds[i]);
    }
    for (const auto& body : bodies) {
      MF_RETURN_IF_ERROR(CollectLists(*body, lists, steps));
      if (loops && body == bodies.front()) continue;
      for (size_t i = 0; i < body->fetches.size(); ++i) {
        becomes(body->fetches[i], node->output(static_cast<int>(i)));
        for (size_t k = 0; k < bodies.size() && loops; ++k) {
          becomes(body->fetches[i], bodies[k]->feeds[i]);
        }
      }
    }
  }
  return absl::OkStatus();
}

// Adds what `later`, which `list` becomes, is to what `list` is; whether that was new.
absl::StatusOr<bool> Extend(ListInfo* list, const ListInfo& later) {
  const bool bounded = list->max_length >= 0 && later.max_length >= 0;
  const int64_t max_length =
      bounded ? std::max(list->max_length, later.max_length) : ListInfo::kUnknown;
  MF_ASSIGN_OR_RETURN(Shape element, list->element.MergeWith(later.element));
  const bool is_new = max_length != list->max_length || !(element == list->element);
  list->max_length = max_length;
  list->element = std::move(element);
  return is_new;
}

absl::StatusOr<ListsByValue> FindLists(const Compilation& c) {
  ListsByValue lists;
  std::vector<Becomes> steps;
  MF_RETURN_IF_ERROR(CollectLists(c, &lists, &steps));
  // Backwards once is enough but for loops.
  for (bool again = true; again;) {
    again = false;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      const absl::StatusOr<bool> is_new = Extend(&lists.at(step->first), lists.at(step->second));
      if (!is_new.ok()) return Annotate(is_new.status(), Where(*step->first.node));
      again |= *is_new;
    }
  }
  return lists;
}

bool DependsOn(const Node& node, const Node& on) {
  absl::flat_hash_set<const Node*> seen = {&node};
  std::vector<const Node*> pending = {&node};
  auto visit = [&](const Node* before) {
    if (seen.insert(before).second) pending.push_back(before);
  };
  while (!pending.empty()) {
    const Node* at = pending.back();
    pending.pop_back();
    if (at == &on) return true;
    for (const Output& in : at->inputs()) visit(in.node);
    for (const Node* control : at->control_inputs()) visit(control);
  }
  return false;
}

// Who reads rows reads them before they are written over, where that is possible: else each
// iteration of a loop would copy the whole list.
void ReadBeforeWriting(Compilation& body) {
  constexpr size_t kManyReaders = 16;
  for (Node* writer : body.graph.Nodes()) {
    if (writer->op().name != ops::kTensorScatterUpdate) continue;
    Output rows = writer->input(0);
    while (rows.node->op().has(kView) && rows.node->num_inputs() > 0) rows = rows.node->input(0);
    std::vector<Node*> readers, aliases = {rows.node};
    while (!aliases.empty() && readers.size() <= kManyReaders) {
      Node* alias = aliases.back();
      aliases.pop_back();
      for (const Use& use : alias->uses()) {
        const bool reads =
            use.slot != Use::kControl &&
            (alias != rows.node || alias->output(rows.index) == use.user->input(use.slot));
        if (!reads || use.user == writer) continue;
        (use.user->op().has(kView) ? aliases : readers).push_back(use.user);
        if (readers.size() > kManyReaders) break;
      }
    }
    if (readers.size() > kManyReaders) continue;  // a copy is less than so much waiting
    for (Node* reader : readers) {
      if (reader->op().name == ops::kTensorScatterUpdate || DependsOn(*reader, *writer)) continue;
      body.graph.AddControlEdge(reader, writer);
    }
  }
}

class Lowering {
 public:
  // `lists`: what stands for the feeds that are lists.
  Lowering(Compilation& c, const ListsByValue& all, absl::flat_hash_map<Output, ListRows> lists)
      : c_(c), all_(all), lists_(std::move(lists)) {}

  absl::StatusOr<bool> Run() {
    MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c_.graph));
    bool changed = false;
    for (Node* node : order) {
      bool touches = false;
      for (const Output& in : node->inputs()) touches |= IsList(in);
      for (int i = 0; i < node->num_outputs(); ++i) touches |= IsList(node->output(i));
      if (node->op().role == OpRole::kPlaceholder) {
        if (!touches || lists_.contains(node->output(0))) continue;
        return absl::UnimplementedError(absl::StrCat(Where(*node), ": a list cannot be fed"));
      }
      changed |= touches;
      absl::Status status = absl::OkStatus();
      if (IsControlFlow(node->op())) {
        status = LowerControlFlow(node, touches, &changed);
      } else if (touches) {
        status = LowerOp(node);
      }
      if (status.ok()) status = c_.graph.status();
      if (!status.ok()) return Annotate(status, Where(*node));
    }
    return changed;
  }

  const ListRows& at(const Output& list) const { return lists_.at(list); }

 private:
  // New nodes wait for what the old one waited for and are named after it.
  Scope ScopeOf(const Node& node) {
    std::vector<Operation> before;
    for (Node* control : node.control_inputs()) before.push_back({control});
    return c_.scope().SubScope(absl::StrCat(node.name(), "/rows")).WithControlDependencies(before);
  }

  // How many elements there must be room for.
  absl::StatusOr<int64_t> Capacity(const Node& node, const ListInfo& all) const {
    int64_t given = -1;
    if (node.op().name == ops::kEmptyTensorList) {
      const Tensor& max = c_.values().at(node.input(1)).constant;
      if (max.has_value()) {
        MF_ASSIGN_OR_RETURN(const std::vector<int64_t> number, IntegersOf(max));
        given = number[0];
      }
    } else if (all.length < 0) {
      return absl::UnimplementedError(
          "num_elements must be known before the step runs; lists whose length depends on data are "
          "not supported");
    }
    if (given >= 0) return given;
    if (all.max_length >= 0) return all.max_length;
    return absl::UnimplementedError(
        "how long the list becomes cannot be told before the step runs; expected max_num_elements, "
        "or elements pushed by a loop that a counter and a constant bound (`maximum_iterations` of "
        "a loop whose gradient is taken)");
  }

  absl::StatusOr<ListRows> Create(const Node& node) {
    const ListInfo& all = all_.at(node.output(0));
    MF_ASSIGN_OR_RETURN(const int64_t capacity, Capacity(node, all));
    const Scope scope = ScopeOf(node);
    if (node.op().name == ops::kTensorListFromTensor) {
      const Output rows = ops::Identity(scope, node.input(0));
      MF_RETURN_IF_ERROR(scope.status());
      return WithRoom(scope, {.rows = rows, .length = Output(), .fixed = all.length}, capacity);
    }
    // What is not known of the shape now is of elements that are never there.
    Shape element = all.element.unknown_rank() ? Shape() : all.element;
    for (int d = 0; d < element.rank(); ++d) {
      if (element.dim(d) == kUnknownDim) element.set_dim(d, 0);
    }
    return ZeroRows(scope, all.dtype, capacity, element, all.length);
  }

  absl::Status LowerOp(Node* node) {
    const std::string& op = node->op().name;
    if (op == ops::kEmptyTensorList || op == ops::kTensorListReserve ||
        op == ops::kTensorListFromTensor) {
      MF_ASSIGN_OR_RETURN(const ListRows made, Create(*node));
      MF_RETURN_IF_ERROR(c_.graph.status());
      lists_[node->output(0)] = made;
      Replace(node, made.rows.node);
      return absl::OkStatus();
    }
    const Scope scope = ScopeOf(*node);
    std::vector<ListRows> in(node->num_inputs());
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (IsList(node->input(i))) in[i] = lists_.at(node->input(i));
    }
    ListRows list;  // output 0, if that is one
    Output value;   // the output that is none
    if (op == ops::kTensorListStack) {
      value = StackRows(scope, in[0], node->attr<int64_t>("num_elements"));
    } else if (op == ops::kTensorListGetItem) {
      value = GetRow(scope, in[0], node->input(1));
    } else if (op == ops::kTensorListSetItem) {
      list = SetRow(scope, in[0], node->input(1), node->input(2));
    } else if (op == ops::kTensorListPushBack) {
      list = PushRow(scope, in[0], node->input(1));
    } else if (op == ops::kTensorListPopBack) {
      list = in[0];
      value = PopRow(scope, &list);
    } else if (op == ops::kTensorListLength) {
      value = LengthOf(scope, in[0]);
    } else if (op == ops::kTensorListElementShape) {
      const Shape rows = scope.shape(in[0].rows);
      value = ops::VectorConst(scope, rows.dims().subspan(1), node->output_dtype(0));
    } else if (op == ops::kTensorListResize) {
      MF_ASSIGN_OR_RETURN(list, Resize(scope, *node, in[0]));
    } else if (op == ops::kTensorListGather) {
      value = GatherRows(scope, in[0], node->input(1));
    } else if (op == ops::kTensorListScatterIntoExistingList) {
      list = ScatterRows(scope, in[0], node->input(2), node->input(1));
    } else if (op == ops::kZerosLike) {
      list = in[0];
      list.rows = ops::ZerosLike(scope, list.rows);
    } else if (node->op().role == OpRole::kAddAll) {
      list = in[0];
      const Output length = LengthOf(scope, list);
      std::vector<Output> rows;
      std::vector<Operation> checks;
      for (const ListRows& part : in) {
        rows.push_back(part.rows);
        const bool same = part.length.valid() || list.length.valid() ? part.length == list.length
                                                                     : part.fixed == list.fixed;
        if (!same) checks.push_back(CheckLength(scope, part, length));
      }
      list.rows = ops::AddN(scope.WithControlDependencies(checks), rows);
    } else if (node->op().has(kView) && node->num_outputs() == 1) {
      list = in[0];
      list.rows = ops::Identity(scope, list.rows);
    } else {
      return absl::UnimplementedError("takes a list of tensors; expected a tensor");
    }
    MF_RETURN_IF_ERROR(c_.graph.status());
    Node* by = value.valid() ? value.node : list.rows.node;
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (IsList(node->output(i))) {
        lists_[node->output(i)] = list;
      } else {
        c_.ReplaceValue(node->output(i), value);
      }
    }
    Replace(node, by);
    return absl::OkStatus();
  }

  absl::StatusOr<ListRows> Resize(const Scope& scope, const Node& node, const ListRows& list) {
    const int64_t size = InfoOf(c_, node.output(0)).length;
    if (size >= 0 && !list.length.valid()) return ResizeRows(scope, list, size);
    return absl::UnimplementedError(
        "the lengths before and after must be known before the step runs");
  }

  void Replace(Node* node, Node* by) {
    c_.graph.ReplaceControlUses(node, by);
    std::replace(c_.targets.begin(), c_.targets.end(), node, by);
  }

  // --- Branches and loops ---------------------------------------------------------------------

  // Whether the list's length must be carried with it: it is not always the same.
  static bool Varies(const ListInfo& info) { return info.length < 0; }

  absl::Status LowerControlFlow(Node* node, bool touches, bool* changed) {
    Compilation::Bodies& bodies = c_.bodies.at(node->id());
    if (!touches) {
      for (const auto& body : bodies) {
        MF_ASSIGN_OR_RETURN(const bool inside, Lowering(*body, all_, {}).Run());
        if (inside) body->RemoveDeadNodes();
        *changed |= inside;
      }
      return absl::OkStatus();
    }
    const bool loops = node->op().role == OpRole::kLoop;
    const int first = FirstArgument(node->op());
    const Scope scope = c_.scope();
    std::vector<Output> inputs;
    for (int i = first; i < node->num_inputs(); ++i) {
      if (!IsList(node->input(i))) {
        inputs.push_back(node->input(i));
        continue;
      }
      const ListRows& list = lists_.at(node->input(i));
      inputs.push_back(list.rows);
      const ListInfo inside = InfoOf(*bodies.back(), bodies.back()->feeds[i - first]);
      if (Varies(inside)) inputs.push_back(LengthOf(scope, list));
    }
    std::vector<bool> carried;  // by output: its length
    for (int i = 0; i < node->num_outputs(); ++i) {
      const ListInfo info =
          loops ? InfoOf(*bodies.back(), bodies.back()->feeds[i]) : InfoOf(c_, node->output(i));
      carried.push_back(IsList(node->output(i)) && Varies(info));
    }
    for (const auto& body : bodies) {
      const bool is_condition = loops && &body == &bodies.front();
      MF_RETURN_IF_ERROR(LowerBody(*node, *body, is_condition ? nullptr : &carried));
    }
    MF_RETURN_IF_ERROR(CheckRows(*node, bodies, inputs));
    return Rebuild(node, inputs, carried);
  }

  // Its arguments and results that are lists become rows, and lengths where those vary.
  absl::Status LowerBody(const Node& node, Compilation& body, const std::vector<bool>* carried) {
    absl::flat_hash_map<Output, ListRows> arguments;
    std::vector<Output> feeds;
    const int first = FirstArgument(node.op());
    for (size_t i = 0; i < body.feeds.size(); ++i) {
      const Output feed = body.feeds[i];
      if (!IsList(feed)) {
        feeds.push_back(feed);
        continue;
      }
      const ListInfo info = InfoOf(body, feed);
      const Output outer = lists_.at(node.input(first + static_cast<int>(i))).rows;
      const Scope scope = body.scope().SubScope(feed.node->name());
      ListRows& list = arguments[feed];
      list.rows = ops::Placeholder(scope.WithName("rows"), outer.dtype(), c_.values().shape(outer));
      feeds.push_back(list.rows);
      list.fixed = info.length;
      if (!Varies(info)) continue;
      list.length = ops::Placeholder(scope.WithName("length"), DT_INT32, Shape());
      feeds.push_back(list.length);
    }
    body.feeds = feeds;
    Lowering inside(body, all_, std::move(arguments));
    MF_RETURN_IF_ERROR(inside.Run().status());
    if (carried != nullptr) {
      std::vector<Output> fetches;
      for (size_t i = 0; i < body.fetches.size(); ++i) {
        const Output fetch = body.fetches[i];
        if (!IsList(fetch)) {
          fetches.push_back(fetch);
          continue;
        }
        const ListRows& list = inside.at(fetch);
        fetches.push_back(list.rows);
        if ((*carried)[i]) fetches.push_back(LengthOf(body.scope(), list));
      }
      body.fetches = fetches;
    }
    MF_RETURN_IF_ERROR(body.graph.status());
    body.RemoveDeadNodes();
    ReadBeforeWriting(body);
    return absl::OkStatus();
  }

  // A list may be another one behind the node, but must have as much room.
  absl::Status CheckRows(const Node& node, const Compilation::Bodies& bodies,
                         const std::vector<Output>& inputs) const {
    const bool loops = node.op().role == OpRole::kLoop;
    const std::vector<Output>& results = bodies.back()->fetches;
    for (size_t i = 0; i < results.size(); ++i) {
      const Shape& have = bodies.back()->values().shape(results[i]);
      const Shape& want = loops ? c_.values().shape(inputs[i])
                                : bodies.front()->values().shape(bodies.front()->fetches[i]);
      if (have.IsCompatibleWith(want)) continue;
      return absl::UnimplementedError(absl::StrCat(
          "a list must have room for as many elements ",
          loops ? "before and after an iteration" : "from one branch as from the other",
          "; got rows ", want.ToString(), " and ", have.ToString()));
    }
    return absl::OkStatus();
  }

  // Puts a node without lists in the place of `node`.
  absl::Status Rebuild(Node* node, const std::vector<Output>& inputs,
                       const std::vector<bool>& carried) {
    const bool loops = node->op().role == OpRole::kLoop;
    std::vector<Operation> before;
    for (Node* control : node->control_inputs()) before.push_back({control});
    NodeBuilder builder =
        c_.scope().WithControlDependencies(before).WithName(node->name()).Build(node->op());
    AttrMap attrs = node->attrs();
    attrs["output_shapes"] = AttrList();
    AttrList dtypes;
    for (const Output& result : c_.bodies.at(node->id()).back()->fetches) {
      dtypes.emplace_back(result.dtype());
    }
    attrs[node->op().outputs[0].type_list_attr] = std::move(dtypes);
    if (!loops) {
      attrs.erase(node->op().inputs[1].type_list_attr);
      std::move(builder).Input(node->input(0));
    }
    std::move(builder).InputList(inputs);
    for (auto& [name, value] : attrs) std::move(builder).Attr(name, std::move(value));
    Node* plain = std::move(builder).Finish();
    MF_RETURN_IF_ERROR(c_.graph.status());
    const Compilation::Bodies& bodies =
        c_.bodies.emplace(plain->id(), std::move(c_.bodies.at(node->id()))).first->second;
    c_.bodies.erase(node->id());
    int next = 0;
    for (int i = 0; i < node->num_outputs(); ++i) {
      const Output result = bodies.back()->fetches[next];
      c_.values().Set(plain->output(next), {.shape = bodies.back()->values().shape(result)});
      if (!IsList(node->output(i))) {
        c_.ReplaceValue(node->output(i), plain->output(next++));
        continue;
      }
      ListRows& list = lists_[node->output(i)];
      list.rows = plain->output(next++);
      list.fixed = InfoOf(c_, node->output(i)).length;
      if (!carried[i]) continue;
      list.length = plain->output(next);
      c_.values().Set(plain->output(next++), {.shape = Shape()});
    }
    Replace(node, plain);
    return absl::OkStatus();
  }

  Compilation& c_;
  const ListsByValue& all_;
  absl::flat_hash_map<Output, ListRows> lists_;  // by what they stand for
};

}  // namespace

absl::StatusOr<bool> LowerTensorLists::Run(Compilation& c) {
  for (const Output& fetch : c.fetches) {
    if (!IsList(fetch)) continue;
    return absl::UnimplementedError(
        absl::StrCat("fetch ", fetch.ToString(), " is a list; expected a tensor"));
  }
  MF_ASSIGN_OR_RETURN(const ListsByValue all, FindLists(c));
  MF_ASSIGN_OR_RETURN(const bool changed, Lowering(c, all, {}).Run());
  if (!changed) return false;
  c.RemoveDeadNodes();
  return InferAndFold().Run(c);  // of what stands for the lists now
}

}  // namespace mirrorflow
