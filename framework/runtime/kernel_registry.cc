// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/kernel_registry.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"

namespace mirrorflow {

void KernelRegistry::Register(absl::string_view op, absl::string_view device_type,
                              KernelFactory factory) {
  const bool is_new =
      !Has(op, device_type) &&
      factories_.emplace(std::make_pair(std::string(op), std::string(device_type)), factory).second;
  if (is_new) return;
  errors_.push_back(
      absl::StrCat("the kernel for op ", op, " for device ", device_type, " is registered twice"));
}

absl::Status KernelRegistry::Check() const {
  if (errors_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
}

KernelFactory KernelRegistry::Find(absl::string_view op, absl::string_view device_type) const {
  const auto it = factories_.find({std::string(op), std::string(device_type)});
  if (it != factories_.end()) return it->second;
  return base_ != nullptr ? base_->Find(op, device_type) : nullptr;
}

KernelRegistry::Fallback KernelRegistry::FindFallback(absl::string_view device_type) const {
  const auto it = fallbacks_.find(std::string(device_type));
  if (it != fallbacks_.end()) return it->second;
  return base_ != nullptr ? base_->FindFallback(device_type) : nullptr;
}

std::unique_ptr<KernelLibrary> KernelRegistry::NewLibrary(absl::string_view device_type) const {
  const auto it = libraries_.find(std::string(device_type));
  if (it != libraries_.end()) return it->second();
  return base_ != nullptr ? base_->NewLibrary(device_type) : nullptr;
}

std::vector<std::string> KernelRegistry::Ops(absl::string_view device_type) const {
  std::vector<std::string> ops;
  if (base_ != nullptr) ops = base_->Ops(device_type);
  for (const auto& [key, factory] : factories_) {
    if (key.second == device_type) ops.push_back(key.first);
  }
  absl::c_sort(ops);
  return ops;
}

absl::StatusOr<KernelPlan> KernelRegistry::Create(absl::string_view device_type,
                                                  const KernelContext& context) const {
  const Node& node = context.node();
  const std::string where = OpAndName(node);
  const KernelFactory factory = Find(node.op().name, device_type);
  if (factory == nullptr) {
    return absl::UnimplementedError(absl::StrCat(where, ": no kernel for device ", device_type));
  }
  absl::StatusOr<KernelPlan> plan = factory(context);
  if (absl::IsUnimplemented(plan.status())) {
    if (const Fallback fallback = FindFallback(device_type); fallback != nullptr) {
      absl::StatusOr<KernelPlan> other = fallback(context, factory);
      // If the fallback has no kernel either, report the factory's error.
      if (!absl::IsUnimplemented(other.status())) plan = std::move(other);
    }
  }
  if (!plan.ok()) return Annotate(plan.status(), where);
  return plan;
}

absl::Status UnsupportedDataType(DataType dtype) {
  return absl::UnimplementedError(absl::StrCat("no kernel for dtype ", DataTypeName(dtype)));
}

}  // namespace mirrorflow
