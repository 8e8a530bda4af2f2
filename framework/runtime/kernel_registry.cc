// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/kernel_registry.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {

void KernelRegistry::Register(absl::string_view op, absl::string_view device_type,
                              KernelFactory factory) {
  const bool inserted =
      factories_.emplace(std::make_pair(std::string(op), std::string(device_type)), factory).second;
  MF_CHECK(inserted);
}

void KernelRegistry::SetFallback(absl::string_view device_type, Fallback fallback) {
  fallbacks_[std::string(device_type)] = fallback;
}

void KernelRegistry::SetLibrary(absl::string_view device_type, LibraryMaker make) {
  libraries_[std::string(device_type)] = make;
}

std::unique_ptr<KernelLibrary> KernelRegistry::NewLibrary(absl::string_view device_type) const {
  const auto it = libraries_.find(std::string(device_type));
  return it != libraries_.end() ? it->second() : nullptr;
}

bool KernelRegistry::Has(absl::string_view op, absl::string_view device_type) const {
  return factories_.count({std::string(op), std::string(device_type)}) > 0;
}

std::vector<std::string> KernelRegistry::Ops(absl::string_view device_type) const {
  std::vector<std::string> ops;
  for (const auto& [key, factory] : factories_) {
    if (key.second == device_type) ops.push_back(key.first);
  }
  return ops;
}

absl::StatusOr<KernelPlan> KernelRegistry::Create(absl::string_view device_type,
                                                  const KernelContext& context) const {
  const Node& node = context.node();
  const std::string where = OpAndName(node);
  const auto it = factories_.find({node.op().name, std::string(device_type)});
  if (it == factories_.end()) {
    return absl::UnimplementedError(absl::StrCat(where, ": no kernel for device ", device_type));
  }
  absl::StatusOr<KernelPlan> plan = it->second(context);
  if (absl::IsUnimplemented(plan.status())) {
    const auto fallback = fallbacks_.find(std::string(device_type));
    if (fallback != fallbacks_.end()) {
      absl::StatusOr<KernelPlan> other = fallback->second(context, it->second);
      // Where that has none either, what the factory said counts.
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
