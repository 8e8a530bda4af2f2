// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/passes/lower_tensor_lists.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/core/status.h"
#include "ops/add_n.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/control_flow/optional.h"
#include "ops/control_flow/passes/list_flow.h"
#include "ops/control_flow/passes/list_parts.h"
#include "ops/control_flow/passes/list_rows.h"
#include "ops/control_flow/tensor_list.h"
#include "ops/gather_nd.h"
#include "ops/identity.h"
#include "ops/reshape.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// Orders reads of a list's rows before the writes that overwrite them, if possible. Otherwise each
// iteration of a loop would copy the whole list.
void ReadBeforeWriting(Compilation& body) {
  constexpr size_t kManyReaders = 16;
  for (Node* writer : body.graph.Nodes()) {
    if (writer->op().name != ops::kTensorScatterUpdate) continue;
    const Output rows = StripViews(writer->input(0));
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
    if (readers.size() > kManyReaders) continue;  // copying is cheaper than adding this many edges
    const std::vector<char> after = Dependents(body.graph, {writer});
    for (Node* reader : readers) {
      if (reader->op().name == ops::kTensorScatterUpdate || after[reader->id()]) continue;
      body.graph.AddControlEdge(reader, writer);
    }
  }
}

class Lowering {
 public:
  // `lists` holds the lowered forms of the feeds that are lists.
  Lowering(Compilation& c, const ListsByValue& all, absl::flat_hash_map<Output, ListParts> lists)
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
        return absl::UnimplementedError(absl::StrCat(OpAndName(*node), ": a list cannot be fed"));
      }
      changed |= touches;
      absl::Status status = absl::OkStatus();
      if (IsControlFlow(node->op())) {
        status = LowerControlFlow(node, touches, &changed);
      } else if (touches) {
        status = LowerOp(node);
      }
      if (status.ok()) status = c_.graph.status();
      if (!status.ok()) return Annotate(status, OpAndName(*node));
    }
    return changed;
  }

  // Returns the parts of `list`, converted to the parts that `want` describes.
  absl::StatusOr<ListParts> PartsAs(const Scope& scope, const Output& list,
                                    const ListInfo& want) const {
    return SelectParts(scope, all_.at(list), want, false,
                       [&](int i) { return lists_.at(list)[i]; });
  }

 private:
  // Returns a scope whose new nodes are named after `node` and get its control inputs.
  Scope ScopeOf(const Node& node) {
    return c_.scope().SubScope(absl::StrCat(node.name(), "/rows")).WithControlInputsOf(node);
  }

  // Returns the capacity to create the list with.
  absl::StatusOr<int64_t> Capacity(const Node& node, const ListInfo& all) const {
    if (node.op().name == ops::kEmptyTensorList) {
      const Tensor& max = c_.values().at(node.input(1)).constant;
      if (max.has_value()) {
        MF_ASSIGN_OR_RETURN(const std::vector<int64_t> number, IntegersOf(max));
        if (number[0] >= 0) return number[0];
      }
    } else if (all.length < 0) {
      return absl::UnimplementedError(
          "num_elements must be known before the step runs; lists whose length depends on data are "
          "not supported");
    }
    return all.max_length;
  }

  absl::StatusOr<ListParts> Create(const Node& node) {
    const ListInfo& all = all_.at(node.output(0));
    MF_ASSIGN_OR_RETURN(const int64_t capacity, Capacity(node, all));
    const Scope scope = ScopeOf(node);
    const bool has_value = node.op().name == ops::kOptionalFromValue;
    const std::vector<ListKind> kinds = all.kinds();
    ListParts parts;
    for (const ListKind& kind : kinds) {
      MF_ASSIGN_OR_RETURN(ListRows none, NoRows(scope, kind, capacity, has_value ? 0 : all.length));
      parts.push_back(std::move(none));
    }
    if (has_value && IsList(node.input(0))) {
      MF_RETURN_IF_ERROR(PushParts(scope, node.input(0), all, &parts));
    } else if (has_value) {
      const ListKind kind{.dtype = node.input(0).dtype(), .element = scope.shape(node.input(0))};
      const Output row = ops::ExpandDims(scope, node.input(0), 0);
      MF_RETURN_IF_ERROR(scope.status());
      parts.at(FindKind(kinds, kind, 0)) =
          WithRoom(scope, {.rows = row, .length = Output(), .fixed = 1}, capacity);
    } else if (node.op().name == ops::kTensorListFromTensor) {
      const Output rows = ops::Identity(scope, node.input(0));
      MF_RETURN_IF_ERROR(scope.status());
      parts[0] = WithRoom(scope, {.rows = rows, .length = Output(), .fixed = all.length}, capacity);
    }
    return parts;
  }

  // Pushes `item` onto `parts`, the parts of a list of lists described by `all`.
  absl::Status PushParts(const Scope& scope, const Output& item, const ListInfo& all,
                         ListParts* parts) {
    const std::vector<ListKind> kinds = all.kinds();
    for (size_t k = 0; k < kinds.size(); ++k) {
      if (kinds[k].inner.empty()) continue;  // an optional that may hold a tensor
      ListInfo want;
      static_cast<ListKind&>(want) = kinds[k];
      want.max_length = kinds[k].inner[0];
      want.inner.erase(want.inner.begin());
      MF_ASSIGN_OR_RETURN(const ListParts as, PartsAs(scope, item, want));
      (*parts)[k] = PushList(scope, (*parts)[k], as[0]);
    }
    return absl::OkStatus();
  }

  absl::Status LowerOp(Node* node) {
    const std::string& op = node->op().name;
    if (op == ops::kEmptyTensorList || op == ops::kTensorListReserve ||
        op == ops::kTensorListFromTensor || op == ops::kOptionalFromValue ||
        op == ops::kOptionalNone) {
      MF_ASSIGN_OR_RETURN(ListParts made, Create(*node));
      MF_RETURN_IF_ERROR(c_.graph.status());
      c_.ReplaceOperation(node, made[0].rows.node);
      lists_[node->output(0)] = std::move(made);
      return absl::OkStatus();
    }
    const Scope scope = ScopeOf(*node);
    const Output first = node->input(0);
    if (!IsList(first)) return NoListTaken();
    ListParts list = lists_.at(first);  // output 0 if it is a list
    ListRows& rows = list[0];           // the only part if the elements are tensors
    Output value;                       // the output that is a tensor
    ListParts item;                     // the element if it is a list
    if (op == ops::kTensorListStack) {
      value = StackRows(scope, rows, node->attr<int64_t>("num_elements"));
    } else if (op == ops::kTensorListGetItem || op == ops::kTensorListGather) {
      value = GetRow(scope, rows, node->input(1));
    } else if (op == ops::kTensorListSetItem) {
      rows = SetRow(scope, rows, node->input(1), node->input(2));
    } else if (op == ops::kTensorListPushBack && IsList(node->input(1))) {
      MF_RETURN_IF_ERROR(PushParts(scope, node->input(1), all_.at(first), &list));
      MF_RETURN_IF_ERROR(KeepKinds(scope, first, node->output(0), &list));
    } else if (op == ops::kTensorListPushBack) {
      rows = PushRow(scope, rows, node->input(1));
    } else if (op == ops::kTensorListPopBack && IsList(node->output(1))) {
      MF_ASSIGN_OR_RETURN(item, SelectParts(scope, all_.at(first), all_.at(node->output(1)), true,
                                            [&](int i) { return PopList(scope, &list[i]); }));
      MF_RETURN_IF_ERROR(KeepKinds(scope, first, node->output(0), &list));
    } else if (op == ops::kTensorListPopBack) {
      value = PopRow(scope, &rows);
    } else if (op == ops::kTensorListLength) {
      value = LengthOf(scope, rows);
    } else if (op == ops::kTensorListElementShape) {
      value =
          ops::VectorConst(scope, scope.shape(rows.rows).dims().subspan(1), node->output_dtype(0));
    } else if (op == ops::kOptionalGetValue) {
      MF_RETURN_IF_ERROR(GetValue(scope, *node, &list, &value));
    } else if (op == ops::kOptionalHasValue) {
      std::vector<Output> lengths;
      for (const ListRows& part : list) lengths.push_back(LengthOf(scope, part));
      value = ops::Cast(scope, ops::AddN(scope, lengths), DT_BOOL);
    } else if (op == ops::kTensorListResize) {
      MF_ASSIGN_OR_RETURN(rows, Resize(scope, *node, rows));
    } else if (op == ops::kTensorListScatterIntoExistingList) {
      rows = ScatterRows(scope, rows, node->input(2), node->input(1));
    } else if (op == ops::kZerosLike) {
      for (ListRows& part : list) part.rows = ops::ZerosLike(scope, part.rows);
    } else if (node->op().role == OpRole::kAddAll) {
      MF_RETURN_IF_ERROR(Add(scope, *node, &rows));
    } else if (node->op().has(kView) && node->num_outputs() == 1) {
      for (ListRows& part : list) part.rows = ops::Identity(scope, part.rows);
      MF_RETURN_IF_ERROR(KeepKinds(scope, first, node->output(0), &list));
    } else {
      return NoListTaken();
    }
    MF_RETURN_IF_ERROR(c_.graph.status());
    Node* by = value.valid() ? value.node : list[0].rows.node;
    for (int i = 0; i < node->num_outputs(); ++i) {
      if (IsList(node->output(i))) {
        lists_[node->output(i)] = i == 0 ? list : item;
      } else {
        c_.ReplaceValue(node->output(i), value);
      }
    }
    c_.ReplaceOperation(node, by);
    return absl::OkStatus();
  }

  static absl::Status NoListTaken() {
    return absl::UnimplementedError("does not support lists of tensors; expected a tensor");
  }

  // Converts the parts of `from` to the parts of `to`, which is derived from it.
  absl::Status KeepKinds(const Scope& scope, const Output& from, const Output& to,
                         ListParts* list) const {
    MF_ASSIGN_OR_RETURN(*list, SelectParts(scope, all_.at(from), all_.at(to), false,
                                           [list](int i) { return (*list)[i]; }));
    return absl::OkStatus();
  }

  // Sets `list` to the value of an optional. If the value is a tensor, sets `value` instead.
  absl::Status GetValue(const Scope& scope, const Node& node, ListParts* list, Output* value) {
    const Output result = node.output(0);
    const ListInfo& have = all_.at(node.input(0));
    const Output zero = ops::Const(scope, Tensor::Scalar<int32_t>(0));
    if (IsList(result)) {
      MF_ASSIGN_OR_RETURN(*list, SelectParts(scope, have, all_.at(result), true, [&](int i) {
        return GetList(scope, (*list)[i], zero);
      }));
      return absl::OkStatus();
    }
    const ListKind kind{.dtype = result.dtype(), .element = c_.values().shape(result)};
    const int found = FindKind(have.kinds(), kind, 0);
    if (found < 0) return absl::InvalidArgumentError("the optional never has a value");
    *value = GetRow(scope, (*list)[found], zero);
    return absl::OkStatus();
  }

  // Adds the other inputs of AddN to `sum`, which holds the first.
  absl::Status Add(const Scope& scope, const Node& node, ListRows* sum) {
    const Output length = LengthOf(scope, *sum);
    std::vector<Output> rows;
    std::vector<Operation> checks;
    for (const Output& in : node.inputs()) {
      const ListInfo& all = all_.at(in);
      if (!all.inner.empty() || !all.others.empty()) {
        return absl::UnimplementedError(
            "does not support lists of lists; expected lists of tensors");
      }
      const ListRows& part = lists_.at(in)[0];
      rows.push_back(part.rows);
      const bool same = part.length.valid() || sum->length.valid() ? part.length == sum->length
                                                                   : part.fixed == sum->fixed;
      if (!same) checks.push_back(CheckLength(scope, part, length));
    }
    sum->rows = ops::AddN(scope.WithControlDependencies(checks), rows);
    return absl::OkStatus();
  }

  absl::StatusOr<ListRows> Resize(const Scope& scope, const Node& node, const ListRows& list) {
    const int64_t size = ListInfo::From(c_.values().at(node.output(0))).length;
    if (size >= 0 && !list.length.valid()) return ResizeRows(scope, list, size);
    return absl::UnimplementedError(
        "the list's lengths before and after the resize must be known before the step runs");
  }

  // --- Branches and loops ---------------------------------------------------------------------

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
    const std::vector<Output>& feeds = bodies.back()->feeds;
    Carried arguments, results;
    for (const Output& feed : feeds) {
      arguments.push_back(IsList(feed) ? std::optional<ListInfo>(all_.at(feed)) : std::nullopt);
    }
    for (int i = 0; i < node->num_outputs(); ++i) {
      const Output result = loops ? feeds[i] : node->output(i);
      results.push_back(IsList(result) ? std::optional<ListInfo>(all_.at(result)) : std::nullopt);
    }
    std::vector<Output> inputs;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Output in = node->input(first + static_cast<int>(i));
      MF_RETURN_IF_ERROR(AppendAs(c_.scope(), in, arguments[i], &inputs));
    }
    MF_RETURN_IF_ERROR(c_.graph.status());
    for (const auto& body : bodies) {
      const bool is_condition = loops && &body == &bodies.front();
      MF_RETURN_IF_ERROR(LowerBody(*body, inputs, arguments, is_condition ? nullptr : &results));
    }
    MF_RETURN_IF_ERROR(CheckRows(*node, bodies, inputs));
    return Rebuild(node, inputs, results);
  }

  // For each value that passes through a branch or loop, by argument or result: a ListInfo for a
  // list, or nullopt for a tensor.
  using Carried = std::vector<std::optional<ListInfo>>;

  absl::Status AppendAs(const Scope& scope, const Output& value,
                        const std::optional<ListInfo>& carried, std::vector<Output>* values) const {
    if (!carried.has_value()) {
      values->push_back(value);
      return absl::OkStatus();
    }
    MF_ASSIGN_OR_RETURN(const ListParts parts, PartsAs(scope, value, *carried));
    AppendParts(scope, parts, *carried, values);
    return absl::OkStatus();
  }

  // Replaces arguments and results that are lists with their rows, and with their lengths if these
  // vary. `inputs` are the values passed for the new arguments.
  absl::Status LowerBody(Compilation& body, const std::vector<Output>& inputs,
                         const Carried& arguments, const Carried* results) {
    absl::flat_hash_map<Output, ListParts> lists;
    std::vector<Output> feeds;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Output feed = body.feeds[i];
      if (!arguments[i].has_value()) {
        feeds.push_back(feed);
        continue;
      }
      const Scope scope = body.scope().SubScope(feed.node->name());
      const ListParts parts = TakeParts(*arguments[i], [&] {
        const Output& in = inputs[feeds.size()];
        feeds.push_back(ops::Placeholder(scope, in.dtype(), c_.values().shape(in)));
        return feeds.back();
      });
      MF_RETURN_IF_ERROR(body.graph.status());
      MF_ASSIGN_OR_RETURN(lists[feed], SelectParts(scope, *arguments[i], all_.at(feed), false,
                                                   [&](int k) { return parts[k]; }));
    }
    body.feeds = feeds;
    Lowering inside(body, all_, std::move(lists));
    MF_RETURN_IF_ERROR(inside.Run().status());
    if (results != nullptr) {
      std::vector<Output> fetches;
      for (size_t i = 0; i < body.fetches.size(); ++i) {
        MF_RETURN_IF_ERROR(inside.AppendAs(body.scope(), body.fetches[i], (*results)[i], &fetches));
      }
      body.fetches = fetches;
    }
    MF_RETURN_IF_ERROR(body.graph.status());
    body.RemoveDeadNodes();
    ReadBeforeWriting(body);
    return absl::OkStatus();
  }

  // Checks capacities: a branch or loop can return a different list only if that list has the same
  // capacity.
  absl::Status CheckRows(const Node& node, const Compilation::Bodies& bodies,
                         const std::vector<Output>& inputs) const {
    const bool loops = node.op().role == OpRole::kLoop;
    const std::vector<Output>& results = bodies.back()->fetches;
    for (size_t i = 0; i < results.size(); ++i) {
      const Shape& have = bodies.back()->values().shape(results[i]);
      const Shape& want = loops ? c_.values().shape(inputs[i])
                                : bodies.front()->values().shape(bodies.front()->fetches[i]);
      if (have.IsCompatibleWith(want)) continue;
      return absl::UnimplementedError(
          absl::StrCat("a list must have the same capacity ",
                       loops ? "before and after an iteration" : "in both branches", "; got rows ",
                       want.ToString(), " and ", have.ToString()));
    }
    return absl::OkStatus();
  }

  // Replaces `node` with a node without lists.
  absl::Status Rebuild(Node* node, const std::vector<Output>& inputs, const Carried& results) {
    const bool loops = node->op().role == OpRole::kLoop;
    NodeBuilder builder =
        c_.scope().WithControlInputsOf(*node).WithName(node->name()).Build(node->op());
    AttrMap attrs = node->attrs();
    attrs["output_shapes"] = AttrList();
    AttrList dtypes;
    for (const Output& result : c_.bodies.at(node->id()).back()->fetches) {
      dtypes.emplace_back(result.dtype());
    }
    attrs[node->op().outputs[0].type_list_attr] = std::move(dtypes);
    if (!loops) {
      attrs.erase(node->op().inputs[1].type_list_attr);
      builder.Input(node->input(0));
    }
    builder.InputList(inputs);
    for (auto& [name, value] : attrs) builder.Attr(name, std::move(value));
    Node* plain = std::move(builder).Finish();
    MF_RETURN_IF_ERROR(c_.graph.status());
    const Compilation::Bodies& bodies =
        c_.bodies.emplace(plain->id(), std::move(c_.bodies.at(node->id()))).first->second;
    c_.bodies.erase(node->id());
    int next = 0;
    auto next_output = [&] {
      const Output result = bodies.back()->fetches[next];
      c_.values().Set(plain->output(next), {.shape = bodies.back()->values().shape(result)});
      return plain->output(next++);
    };
    for (int i = 0; i < node->num_outputs(); ++i) {
      const Output old = node->output(i);
      if (!results[i].has_value()) {
        c_.ReplaceValue(old, next_output());
        continue;
      }
      const ListParts parts = TakeParts(*results[i], next_output);
      MF_ASSIGN_OR_RETURN(lists_[old], SelectParts(c_.scope(), *results[i], all_.at(old), false,
                                                   [&](int k) { return parts[k]; }));
    }
    c_.ReplaceOperation(node, plain);
    return absl::OkStatus();
  }

  Compilation& c_;
  const ListsByValue& all_;
  absl::flat_hash_map<Output, ListParts> lists_;  // by the list that they replace
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
  return InferAndFold().Run(c);  // infers the shapes of the tensors that replace the lists
}

}  // namespace mirrorflow
