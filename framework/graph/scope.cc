// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/scope.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

Scope Scope::WithName(absl::string_view name) const& { return Scope(*this).WithName(name); }

Scope Scope::WithName(absl::string_view name) && {
  name_ = std::string(name);
  return std::move(*this);
}

Scope Scope::ForOperand(absl::string_view operand) const {
  return name_.empty() ? *this : WithName(absl::StrCat(name_, "/", operand));
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

Scope Scope::WithControlInputsOf(const Node& node) const {
  Scope scope = *this;
  scope.control_inputs_.insert(scope.control_inputs_.end(), node.control_inputs().begin(),
                               node.control_inputs().end());
  return scope;
}

bool Scope::Owns(const Output& value) const {
  absl::Status own = graph_->CheckOwns(value);
  if (own.ok()) return true;
  Fail(std::move(own));
  return false;
}

const Shape& Scope::shape(const Output& output) const {
  static const Shape* const unknown = new Shape(Shape::UnknownRank());
  return output.valid() && Owns(output) ? graph_->values().shape(output) : *unknown;
}

NodeBuilder Scope::Build(const OpRegistry& ops, absl::string_view op) const& {
  return Scope(*this).Build(ops, op);
}

NodeBuilder Scope::Build(const OpRegistry& ops, absl::string_view op) && {
  absl::StatusOr<const OpDef*> def = ops.Lookup(op);
  if (!def.ok()) Fail(def.status());
  return NodeBuilder(std::move(*this), def.ok() ? *def : nullptr);
}

NodeBuilder Scope::Build(const OpDef& op) const { return NodeBuilder(*this, &op); }

NodeBuilder& NodeBuilder::Input(const Output& value) & {
  inputs_.push_back(value);
  arg_sizes_.push_back(1);
  return *this;
}

NodeBuilder& NodeBuilder::InputList(absl::Span<const Output> values) & {
  inputs_.insert(inputs_.end(), values.begin(), values.end());
  arg_sizes_.push_back(static_cast<int>(values.size()));
  return *this;
}

NodeBuilder& NodeBuilder::Attr(absl::string_view name, AttrValue value) & {
  attrs_.insert_or_assign(std::string(name), std::move(value));
  return *this;
}

NodeBuilder& NodeBuilder::Control(Node* node) & {
  if (node != nullptr) control_inputs_.push_back(node);
  return *this;
}

// Infers T, N and lists of dtypes from the inputs.
absl::Status NodeBuilder::InferAttrs() {
  if (arg_sizes_.size() != op_->inputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "wrong number of arguments; expected ", op_->inputs.size(), ", got ", arg_sizes_.size()));
  }
  absl::Span<const Output> rest = inputs_;
  for (size_t i = 0; i < arg_sizes_.size(); ++i) {
    const ArgDef& arg = op_->inputs[i];
    const absl::Span<const Output> values = rest.first(arg_sizes_[i]);
    rest.remove_prefix(values.size());
    if (!arg.number_attr.empty()) {
      attrs_.emplace(arg.number_attr, static_cast<int64_t>(values.size()));
    }
    if (!arg.type_attr.empty() && !values.empty()) {
      attrs_.emplace(arg.type_attr, values[0].dtype());
    }
    if (!arg.type_list_attr.empty()) {
      AttrList dtypes;
      for (const Output& value : values) dtypes.push_back(value.dtype());
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
  std::vector<Node*> controls = std::move(scope_.control_inputs_);
  controls.insert(controls.end(), control_inputs_.begin(), control_inputs_.end());
  MF_ASSIGN_OR_RETURN(Node * node, graph.AddNode(name, *op_, std::move(attrs_), std::move(inputs_),
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
