// SPDX-License-Identifier: Apache-2.0
//
// KernelRegistry: which factory makes the kernel of an op on a device type. Filled by explicit
// calls (kernels/cpu/all_kernels.cc is the table of contents).
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_REGISTRY_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_REGISTRY_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

class KernelRegistry {
 public:
  KernelRegistry() = default;
  KernelRegistry(const KernelRegistry&) = delete;
  KernelRegistry& operator=(const KernelRegistry&) = delete;

  // A factory serves all dtypes of its op and answers Unimplemented for those that it has not.
  // Registering an (op, device type) twice is our own bug.
  void Register(absl::string_view op, absl::string_view device_type, KernelFactory factory);
  bool Has(absl::string_view op, absl::string_view device_type) const;
  // All that have one, by name.
  std::vector<std::string> Ops(absl::string_view device_type) const;

  // Where a factory of this device type answers Unimplemented, its kernel for other dtypes may do
  // with a conversion around it: `fallback` gets the context and the factory.
  using Fallback = absl::StatusOr<KernelPlan> (*)(const KernelContext&, KernelFactory);
  void SetFallback(absl::string_view device_type, Fallback fallback);

  // What makes the library of a plan for this device type; without it there is none.
  using LibraryMaker = std::unique_ptr<KernelLibrary> (*)();
  void SetLibrary(absl::string_view device_type, LibraryMaker make);
  // Null if the device type has none.
  std::unique_ptr<KernelLibrary> NewLibrary(absl::string_view device_type) const;

  // The kernel of the context's node; errors name the node. Unimplemented if the op has no kernel
  // on this device type.
  absl::StatusOr<KernelPlan> Create(absl::string_view device_type,
                                    const KernelContext& context) const;

 private:
  std::map<std::pair<std::string, std::string>, KernelFactory> factories_;
  std::map<std::string, Fallback> fallbacks_;      // by device type
  std::map<std::string, LibraryMaker> libraries_;  // the same
};

// For factories: no kernel for this dtype.
absl::Status UnsupportedDataType(DataType dtype);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_REGISTRY_H_
