// SPDX-License-Identifier: Apache-2.0
//
// Kernel: the code of one node of a plan for one device type. It is created from static shapes when
// the plan is made; that is when it chooses its algorithm and states how much scratch it needs. At
// step time it only runs. Kernels are const and shared by all replicas; everything that changes
// between steps is in device memory, reached through KernelArgs.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/core/shape.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/kernel_options.h"

namespace mirrorflow {

class Lane;
class TuningTable;

// Identifies a memory region of a replica: an index into the replica's table of base addresses.
using RegionId = int32_t;
// The region of a static input, which is not an operand of any kernel.
inline constexpr RegionId kNoRegion = -1;
// Region 0 of every replica holds its StepParams.
inline constexpr RegionId kParamsRegion = 0;

struct Operand {
  RegionId region = kNoRegion;
  int64_t offset = 0;
};

// Everything that changes between steps except the feeds; one per replica, in device memory.
struct StepParams {
  uint64_t step = 0;
  uint64_t seed = 0;
  uint64_t iteration = 0;  // of the enclosing loops; see IterationOf
  int64_t replica = 0;     // rank among all replicas
  // The first global row of this replica's shard of each axis.
  int64_t first_row[kMaxAxes] = {};
};

// Returns the identifier of iteration `i` of a loop that runs within iteration `outer` of its
// enclosing loops. Each iteration has its own, so each draws its own random numbers.
inline uint64_t IterationOf(uint64_t outer, uint64_t i) {
  return (outer + 1) * 0x9E3779B97F4A7C15 + i;
}

// Locates the operands of a kernel: the inputs of the node (the slot of a static input is empty),
// the outputs, then scratch if the kernel asked for any.
class KernelArgs {
 public:
  KernelArgs(std::byte* const* bases, const Operand* operands, int num_inputs, int num_outputs)
      : bases_(bases), operands_(operands), num_inputs_(num_inputs), num_outputs_(num_outputs) {}

  template <typename T>
  const T* input(int i) const {
    return reinterpret_cast<const T*>(Resolve(operands_[i]));
  }
  // The memory of the variable whose handle is input i.
  template <typename T>
  T* variable(int i) const {
    return reinterpret_cast<T*>(Resolve(operands_[i]));
  }
  template <typename T>
  T* output(int i) const {
    return reinterpret_cast<T*>(Resolve(operands_[num_inputs_ + i]));
  }
  template <typename T>
  T* scratch() const {
    return reinterpret_cast<T*>(Resolve(operands_[num_inputs_ + num_outputs_]));
  }
  const StepParams& params() const {
    return *reinterpret_cast<const StepParams*>(bases_[kParamsRegion]);
  }

 private:
  std::byte* Resolve(const Operand& operand) const {
    return bases_[operand.region] + operand.offset;
  }

  std::byte* const* bases_;
  const Operand* operands_;
  int num_inputs_;
  int num_outputs_;
};

class UpdateKernel;
class UpdateByProductKernel;

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Computes, or enqueues work on the lane's stream. Must not allocate, lock or wait.
  virtual absl::Status Run(const KernelArgs& args, Lane& lane) const = 0;

  // This kernel, if it can update a part of a variable (update_kernel.h); else null.
  virtual const UpdateKernel* AsUpdate() const { return nullptr; }
  virtual const UpdateByProductKernel* AsUpdateByProduct() const { return nullptr; }
};

// The result of a kernel factory.
struct KernelPlan {
  std::unique_ptr<const Kernel> kernel;
  int64_t scratch_bytes = 0;
  // (input, output) pairs: the output may overwrite the input if the input has no later use.
  std::vector<std::pair<int, int>> in_place = {};
  // Run can fail because of the values of its inputs (a label out of range). Such kernels are
  // ordered before the first update of a variable.
  bool fails_on_data = false;
  // Operations of a product or convolution, a multiply-add counted as two; 0 for other kernels.
  int64_t flops = 0;
};

// State that the kernels of one plan share, on device types that need it. Factories add code to it,
// and Finish makes all of that code runnable at once. Outlives the kernels of the plan.
class KernelLibrary {
 public:
  virtual ~KernelLibrary() = default;
  // Called once, after the last factory and before any kernel runs.
  virtual absl::Status Finish() = 0;
};

// The input of a kernel factory: a node and its static shapes on one replica.
class KernelContext {
 public:
  virtual ~KernelContext() = default;
  virtual const Node& node() const = 0;
  virtual const Shape& input_shape(int i) const = 0;
  virtual const Shape& output_shape(int i) const = 0;
  // The value of static input i. REQUIRES: the op's schema declares input i as static.
  virtual const Tensor& constant(int i) const = 0;
  // Sharding of output i, and its shape over all replicas; random ops need both.
  virtual const Sharding& output_sharding(int i) const = 0;
  virtual const Shape& global_output_shape(int i) const = 0;
  // The number of threads of a lane of this device.
  virtual int num_threads() const = 0;
  virtual const KernelOptions& options() const {
    static constexpr KernelOptions kDefaults;
    return kDefaults;
  }
  // The library of the plan; null if the device type has none.
  virtual KernelLibrary* library() const { return nullptr; }
  // The tuning table of the session; null without KernelOptions::autotune.
  virtual TuningTable* tuning() const { return nullptr; }

  DataType input_dtype(int i) const { return node().input(i).dtype(); }
  DataType output_dtype(int i) const { return node().output_dtype(i); }
  // Attribute `name` of the node.
  template <typename T>
  const T& attr(absl::string_view name) const {
    return node().attr<T>(name);
  }
};

using KernelFactory = absl::StatusOr<KernelPlan> (*)(const KernelContext&);

// A kernel that wraps a callable, for kernels whose only state is what a lambda captures:
// `absl::Status(const KernelArgs&, Lane&)`, or `void(const KernelArgs&)` if it cannot fail.
template <typename Fn>
class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(Fn fn) : fn_(std::move(fn)) {}
  absl::Status Run(const KernelArgs& args, Lane& lane) const override {
    if constexpr (std::is_invocable_v<const Fn&, const KernelArgs&>) {
      static_assert(std::is_void_v<std::invoke_result_t<const Fn&, const KernelArgs&>>);
      fn_(args);
      return absl::OkStatus();
    } else {
      return fn_(args, lane);
    }
  }

 private:
  Fn fn_;
};

template <typename Fn>
std::unique_ptr<const Kernel> MakeKernel(Fn fn) {
  return std::make_unique<FunctionKernel<Fn>>(std::move(fn));
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_H_
