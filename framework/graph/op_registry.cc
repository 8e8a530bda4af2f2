// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/op_registry.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/names.h"
#include "framework/graph/op_spec.h"

namespace mirrorflow {
namespace {
void AddArg(absl::string_view spec, bool is_static, std::vector<ArgDef>* args,
            std::vector<std::string>* errors) {
  absl::StatusOr<ArgDef> arg = ParseArgSpec(spec);
  if (!arg.ok()) {
    errors->push_back(std::string(arg.status().message()));
    return;
  }
  arg->is_static = is_static;
  args->push_back(*std::move(arg));
}
}  // namespace

OpBuilder& OpBuilder::Input(absl::string_view spec) {
  AddArg(spec, /*is_static=*/false, &def_->inputs, &registry_->errors_);
  return *this;
}

OpBuilder& OpBuilder::StaticInput(absl::string_view spec) {
  AddArg(spec, /*is_static=*/true, &def_->inputs, &registry_->errors_);
  return *this;
}

OpBuilder& OpBuilder::Output(absl::string_view spec) {
  AddArg(spec, /*is_static=*/false, &def_->outputs, &registry_->errors_);
  return *this;
}

OpBuilder& OpBuilder::Attr(absl::string_view spec) {
  absl::StatusOr<AttrDef> attr = ParseAttrSpec(spec);
  if (!attr.ok()) {
    registry_->errors_.push_back(std::string(attr.status().message()));
    return *this;
  }
  if (attr->type == "list(type)") {
    for (std::vector<ArgDef>* args : {&def_->inputs, &def_->outputs}) {
      for (ArgDef& arg : *args) {
        if (arg.type_attr == attr->name) std::swap(arg.type_attr, arg.type_list_attr);
      }
    }
  }
  def_->attrs.push_back(*std::move(attr));
  return *this;
}

OpBuilder& OpBuilder::Traits(uint32_t traits) {
  def_->traits |= traits;
  return *this;
}

OpBuilder& OpBuilder::Role(OpRole role) {
  def_->role = role;
  registry_->roles_.emplace(role, def_);
  return *this;
}

OpBuilder OpRegistry::Define(absl::string_view name) {
  return Define(OpDef{.name = std::string(name)});
}

OpBuilder OpRegistry::Define(OpDef def) {
  const auto [it, inserted] = ops_.emplace(def.name, nullptr);
  if (!inserted || (base_ != nullptr && base_->Find(def.name) != nullptr)) {
    errors_.push_back(absl::StrCat("op ", def.name, " is defined twice"));
  }
  if (inserted) it->second = std::make_unique<OpDef>(std::move(def));
  return OpBuilder(this, it->second.get());
}

absl::Status OpRegistry::Seal() const {
  std::vector<std::string> errors = errors_;
  for (const auto& [name, def] : ops_) {
    auto missing = [&, op = name](absl::string_view what) {
      errors.push_back(absl::StrCat("op ", op, " has ", what));
    };
    if (def->doc.empty()) missing("no doc");
    if (def->shape == nullptr) missing("no shape function");
    if ((def->sharding == nullptr) == def->no_sharding_reason.empty()) {
      missing("a sharding rule and a reason to gather, or neither; expected exactly one of them");
    }
    if ((def->gradient == nullptr) == def->no_gradient_reason.empty()) {
      missing("a gradient and a reason for its absence, or neither; expected exactly one of them");
    }
    for (const std::vector<ArgDef>* args : {&def->inputs, &def->outputs}) {
      for (const ArgDef& arg : *args) {
        for (const std::string& attr : {arg.type_attr, arg.number_attr, arg.type_list_attr}) {
          if (!attr.empty() && def->FindAttr(attr) == nullptr) {
            missing(
                absl::StrCat("no attribute '", attr, "', which argument '", arg.name, "' names"));
          }
        }
      }
    }
  }
  if (errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors, "\n"));
}

const OpDef* OpRegistry::Find(absl::string_view name) const {
  const auto it = ops_.find(name);
  if (it != ops_.end()) return it->second.get();
  return base_ != nullptr ? base_->Find(name) : nullptr;
}

absl::StatusOr<const OpDef*> OpRegistry::Lookup(absl::string_view name) const {
  if (const OpDef* def = Find(name)) return def;
  std::vector<std::string> names;
  for (const OpDef* def : All()) names.push_back(def->name);
  return absl::NotFoundError(
      absl::StrCat("unknown op '", Printable(name), "'", DidYouMean(name, names)));
}

const OpDef* OpRegistry::FindRole(OpRole role) const {
  if (const OpDef* base = base_ != nullptr ? base_->FindRole(role) : nullptr) return base;
  const auto it = roles_.find(role);
  return it != roles_.end() ? it->second : nullptr;
}

std::vector<const OpDef*> OpRegistry::All() const {
  std::vector<const OpDef*> all;
  if (base_ != nullptr) all = base_->All();
  for (const auto& entry : ops_) all.push_back(entry.second.get());
  absl::c_sort(all, [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  return all;
}

}  // namespace mirrorflow
