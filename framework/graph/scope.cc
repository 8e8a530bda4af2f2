// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/scope.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

Scope Scope::WithName(absl::string_view name) const {
  Scope scope = *this;
  scope.name_ = std::string(name);
  return scope;
}

Scope Scope::SubScope(absl::string_view name) const {
  Scope scope = *this;
  scope.prefix_ = absl::StrCat(graph_->UniquePrefix(absl::StrCat(prefix_, name)), "/");
  scope.name_.clear();
  return scope;
}

Scope Scope::WithControlDependencies(absl::Span<const Operation> operations) const {
  Scope scope = *this;
  for (const Operation& operation : operations) {
    if (operation.valid()) scope.control_inputs_.push_back(operation.node);
  }
  return scope;
}

const Shape& Scope::shape(const Output& output) const {
  static const Shape* const unknown = new Shape(Shape::UnknownRank());
  return output.valid() ? graph_->values().shape(output) : *unknown;
}

NodeBuilder Scope::Build(const OpRegistry& ops, absl::string_view op) const {
  absl::StatusOr<const OpDef*> def = ops.Lookup(op);
  if (!def.ok()) Fail(def.status());
  return NodeBuilder(*this, def.ok() ? *def : nullptr);
}

NodeBuilder Scope::Build(const OpDef& op) const { return NodeBuilder(*this, &op); }

NodeBuilder&& NodeBuilder::Input(const Output& value) && {
  args_.push_back({value});
  return std::move(*this);
}

NodeBuilder&& NodeBuilder::InputList(absl::Span<const Output> values) && {
  args_.emplace_back(values.begin(), values.end());
  return std::move(*this);
}

NodeBuilder&& NodeBuilder::Attr(absl::string_view name, AttrValue value) && {
  attrs_.insert_or_assign(std::string(name), std::move(value));
  return std::move(*this);
}

NodeBuilder&& NodeBuilder::Control(Node* node) && {
  if (node != nullptr) control_inputs_.push_back(node);
  return std::move(*this);
}

// Reads T, N and lists of dtypes off the inputs.
absl::Status NodeBuilder::InferAttrs() {
  if (args_.size() != op_->inputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", op_->inputs.size(), " arguments, got ", args_.size()));
  }
  for (size_t i = 0; i < args_.size(); ++i) {
    const ArgDef& arg = op_->inputs[i];
    if (!arg.number_attr.empty()) {
      attrs_.emplace(arg.number_attr, static_cast<int64_t>(args_[i].size()));
    }
    if (!arg.type_attr.empty() && !args_[i].empty()) {
      attrs_.emplace(arg.type_attr, args_[i][0].dtype());
    }
    if (!arg.type_list_attr.empty()) {
      AttrList dtypes;
      for (const Output& value : args_[i]) dtypes.push_back(value.dtype());
      attrs_.emplace(arg.type_list_attr, std::move(dtypes));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Node*> NodeBuilder::TryFinish() {
  Graph& graph = *scope_.graph_;
  const std::string name = graph.UniqueName(
      absl::StrCat(scope_.prefix_, scope_.name_.empty() ? op_->name : scope_.name_));
  absl::Status status = InferAttrs();
  if (!status.ok()) return Annotate(status, absl::StrCat(op_->name, "(", name, ")"));
  std::vector<Output> inputs;
  for (const std::vector<Output>& arg : args_) inputs.insert(inputs.end(), arg.begin(), arg.end());
  std::vector<Node*> controls = scope_.control_inputs_;
  controls.insert(controls.end(), control_inputs_.begin(), control_inputs_.end());
  MF_ASSIGN_OR_RETURN(Node * node, graph.AddNode(name, *op_, std::move(attrs_), std::move(inputs),
                                                 std::move(controls)));
  MF_RETURN_IF_ERROR(graph.values().Infer(*node));
  return node;
}

Node* NodeBuilder::Finish() && {
  if (op_ == nullptr || !scope_.ok()) return nullptr;
  absl::StatusOr<Node*> node = TryFinish();
  if (node.ok()) return *node;
  scope_.Fail(node.status());
  return nullptr;
}

Output NodeBuilder::One() && {
  Node* node = std::move(*this).Finish();
  return node != nullptr ? node->output(0) : Output();
}

}  // namespace mirrorflow
