// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/plan_forms.h"

#include <algorithm>
#include <cstdint>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/invariants.h"
#include "framework/core/hash.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// A constant of at most this size is part of the key of its forms, so that steps compiled for
// different batch sizes, which each fold their own small constants, share the forms.
constexpr size_t kMaxKeyBytes = 64 << 10;

std::string KeyOf(const Tensor& constant) {
  std::string key = absl::StrCat(DataTypeName(constant.dtype()), constant.shape().ToString());
  if (constant.bytes() <= kMaxKeyBytes) {
    key.append(reinterpret_cast<const char*>(constant.raw()), constant.bytes());
  } else {
    absl::StrAppend(&key, " at ", reinterpret_cast<uintptr_t>(constant.raw()));
  }
  return key;
}

// Returns 128 bits that identify a key. A form can be an operand of many others, so they do not
// repeat its key.
std::string DigestOf(absl::string_view key) {
  return absl::StrCat("form ", StableHash(key), " ", absl::HashOf(key));
}

}  // namespace

int PlanForms::StorageOf(const Output& value, const OperandForm& form) {
  PlannedForm planned = {.name = form.key,
                         .key = absl::StrCat(form.key, "("),
                         .bytes = form.bytes,
                         .scratch_bytes = form.scratch_bytes,
                         .make = form.make};
  AppendOperand(value, &planned);
  return Keep(Add(std::move(planned)));
}

int PlanForms::FormOf(const Node& node) {
  const auto known = by_node_.find(node.id());
  if (known != by_node_.end()) return known->second;
  KernelPlan& kernel = s_.kernel_plans[node.id()];
  MF_CHECK(kernel.kernel != nullptr);
  PlannedForm planned = {.name = OpAndName(node),
                         .key = node.op().name,
                         .bytes = s_.LocalBytes(node.output(0)),
                         .scratch_bytes = kernel.scratch_bytes,
                         .make = std::move(kernel.kernel)};
  for (const auto& [name, value] : node.attrs()) {
    absl::StrAppend(&planned.key, " ", name, "=", value.ToString());
  }
  absl::StrAppend(&planned.key, s_.local_shape(node.output(0)).ToString(), "(");
  for (const Output& input : node.inputs()) AppendOperand(input, &planned);
  return by_node_[node.id()] = Add(std::move(planned));
}

int PlanForms::Add(PlannedForm form) {
  form.key += ")";
  std::sort(form.variables.begin(), form.variables.end());
  form.variables.erase(std::unique(form.variables.begin(), form.variables.end()),
                       form.variables.end());
  std::vector<PlannedForm>& forms = s_.plan->forms;
  const auto [it, is_new] = by_key_.emplace(form.key, static_cast<int>(forms.size()));
  if (is_new) {
    forms.push_back(std::move(form));
    storages_.push_back(-1);
  }
  return it->second;
}

void PlanForms::AppendOperand(const Output& value, PlannedForm* form) {
  const Node& source = *s_.invariants->SourceOf(value);
  FormOperand& operand = form->operands.emplace_back();
  if (source.op().role == OpRole::kConstant) {
    operand.constant = s_.values().at(source.output(0)).constant;
    absl::StrAppend(&form->key, KeyOf(operand.constant), ",");
  } else if (source.op().role == OpRole::kRead) {
    operand.variable = s_.layout->FindHandle(source.input(0));
    const VariableInfo& variable = s_.layout->variables()[operand.variable];
    operand.source = {s_.plan->layout_region(variable.region), variable.offset};
    operand.source_bytes = variable.bytes();
    form->variables.push_back(operand.variable);
    absl::StrAppend(&form->key, "variable ", operand.variable, ",");
  } else {
    operand.form = FormOf(source);
    const PlannedForm& inner = s_.plan->forms[operand.form];
    form->variables.insert(form->variables.end(), inner.variables.begin(), inner.variables.end());
    absl::StrAppend(&form->key, DigestOf(inner.key), ",");
  }
  // A view has the memory of its source but another shape, on which the result can depend.
  absl::StrAppend(&form->key, s_.local_shape(value).ToString(), ",");
}

int PlanForms::Keep(int form) {
  PlannedForm& planned = s_.plan->forms[form];
  if (!planned.kept) {
    planned.kept = true;
    storages_[form] = s_.storage.Add(
        {.bytes = planned.bytes, .region = s_.plan->form_region(form), .pinned = true});
  }
  return storages_[form];
}

}  // namespace mirrorflow
