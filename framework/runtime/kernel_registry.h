// SPDX-License-Identifier: Apache-2.0
//
// KernelRegistry: maps an op and a device type, `CPU` or `GPU`, to the factory of its kernel
// (kernel.h). Kernels are registered by explicit calls (kernels/cpu/all_kernels.cc lists them); a
// program adds its own through Extensions::kernels().
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
  // Creates a registry that also contains the kernels of `base`, which must outlive it.
  explicit KernelRegistry(const KernelRegistry* base) : base_(base) {}
  KernelRegistry(const KernelRegistry&) = delete;
  KernelRegistry& operator=(const KernelRegistry&) = delete;

  // Registers a factory for all dtypes of the op; the factory returns Unimplemented for dtypes that
  // it does not support. Check() reports an op that is registered twice for a device type.
  void Register(absl::string_view op, absl::string_view device_type, KernelFactory factory);
  // Returns InvalidArgument, listing all registration errors.
  absl::Status Check() const;
  // Returns whether the op has a kernel for the device type.
  bool Has(absl::string_view op, absl::string_view device_type) const {
    return Find(op, device_type) != nullptr;
  }
  // Returns the names of all ops with a kernel for the device type, sorted.
  std::vector<std::string> Ops(absl::string_view device_type) const;

  // A second way to create a kernel, which Create tries if the op's factory returns Unimplemented.
  // It receives the context and that factory. For example, it can call the factory for float and
  // return a kernel that converts half operands to float and the result back. For the library's own
  // use.
  using Fallback = absl::StatusOr<KernelPlan> (*)(const KernelContext&, KernelFactory);
  void SetFallback(absl::string_view device_type, Fallback fallback) {
    fallbacks_[std::string(device_type)] = fallback;
  }

  // A function that creates a KernelLibrary (kernel.h) for each plan on this device type. For the
  // library's own use.
  using LibraryMaker = std::unique_ptr<KernelLibrary> (*)();
  void SetLibrary(absl::string_view device_type, LibraryMaker make) {
    libraries_[std::string(device_type)] = make;
  }
  // Creates a plan's library; null if the device type has none.
  std::unique_ptr<KernelLibrary> NewLibrary(absl::string_view device_type) const;

  // Creates the kernel for the context's node. Returns Unimplemented if the op has no kernel for
  // this device type. Errors name the node.
  absl::StatusOr<KernelPlan> Create(absl::string_view device_type,
                                    const KernelContext& context) const;

 private:
  KernelFactory Find(absl::string_view op, absl::string_view device_type) const;  // or null
  Fallback FindFallback(absl::string_view device_type) const;                     // or null

  const KernelRegistry* const base_ = nullptr;
  std::vector<std::string> errors_;
  std::map<std::pair<std::string, std::string>, KernelFactory> factories_;
  std::map<std::string, Fallback> fallbacks_;      // by device type
  std::map<std::string, LibraryMaker> libraries_;  // by device type
};

// Returns the error for a factory to return if it has no kernel for `dtype`.
absl::Status UnsupportedDataType(DataType dtype);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_REGISTRY_H_
