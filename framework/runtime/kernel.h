// SPDX-License-Identifier: Apache-2.0
//
// Kernel: the code of one node of a plan, for one device type. It is created when the plan is made,
// from static shapes, so it chooses its algorithm and says how much scratch it needs then; at step
// time it only runs. Kernels are const and shared by all replicas; what changes between steps is in
// device memory, reached through KernelArgs.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/core/shape.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"
#include "framework/graph/sharding.h"

namespace mirrorflow {

class Lane;
class TuningTable;

// A piece of memory of a replica: its number in the replica's table of bases.
using RegionId = int32_t;
// Not an operand of any kernel: the slot of a static input.
inline constexpr RegionId kNoRegion = -1;
// Region 0 of every replica holds its StepParams.
inline constexpr RegionId kParamsRegion = 0;

struct Operand {
  RegionId region = kNoRegion;
  int64_t offset = 0;
};

// All that changes between steps and is not a feed; one per replica, in device memory.
struct StepParams {
  uint64_t step = 0;
  uint64_t seed = 0;
  uint64_t iteration = 0;  // of the loops around the kernel; see IterationOf
  int64_t replica = 0;     // rank among all replicas
  // The first global row of this replica's share of each axis.
  int64_t first_row[kMaxAxes] = {};
};

// What names iteration `i` of a loop that itself runs in iteration `outer` of others: no two are
// alike, so each draws its own random numbers.
inline uint64_t IterationOf(uint64_t outer, uint64_t i) {
  return (outer + 1) * 0x9E3779B97F4A7C15 + i;
}

// Where a kernel finds its operands: one for each input of the node (static inputs have none), one
// for each output, then scratch if it asked for any.
class KernelArgs {
 public:
  KernelArgs(std::byte* const* bases, const Operand* operands, int num_inputs, int num_outputs)
      : bases_(bases), operands_(operands), num_inputs_(num_inputs), num_outputs_(num_outputs) {}

  template <typename T>
  const T* input(int i) const {
    return reinterpret_cast<const T*>(Resolve(operands_[i]));
  }
  // Input i is a variable's handle: the variable's memory.
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

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Computes, or enqueues on the lane's stream. Must not allocate, lock or wait.
  virtual absl::Status Run(const KernelArgs& args, Lane& lane) const = 0;
};

// What a kernel factory returns.
struct KernelPlan {
  std::unique_ptr<const Kernel> kernel;
  int64_t scratch_bytes = 0;
  // Pairs (input, output): the output may be written over the input, if that is not used again.
  std::vector<std::pair<int, int>> in_place = {};
  // Run can fail because of what is in its inputs (a label out of range): such kernels are ordered
  // before the first update of a variable.
  bool fails_on_data = false;
  // Multiply-adds counted as two; only of products and convolutions.
  int64_t flops = 0;
};

// What the kernels of one plan share, for devices that have such a thing: their factories add code
// to it, and it becomes runnable at once for all of them. Outlives the kernels of the plan.
class KernelLibrary {
 public:
  virtual ~KernelLibrary() = default;
  // Called once, behind the last factory and before any kernel runs.
  virtual absl::Status Finish() = 0;
};

// What a user may trade for speed, for all kernels of a session.
struct KernelOptions {
  // Products and convolutions of floats may round their operands to 10 bits of fraction, as tensor
  // cores do (TensorFloat-32).
  bool allow_tf32 = false;
  // On GPUs: the algorithm of each product and convolution is the fastest of those that the library
  // proposes, timed by worker 0 when a plan is made; else it is the library's first proposal. Which
  // it is may differ from run to run, and with it the last bits.
  bool autotune = false;
};

// What a factory sees: the node and its static shapes, as one replica has them.
class KernelContext {
 public:
  virtual ~KernelContext() = default;
  virtual const Node& node() const = 0;
  virtual const Shape& input_shape(int i) const = 0;
  virtual const Shape& output_shape(int i) const = 0;
  // The value of static input i. Requires that the schema calls it static.
  virtual const Tensor& constant(int i) const = 0;
  // How output i lies on the replicas, and its shape over all of them: what random ops need.
  virtual const Sharding& output_sharding(int i) const = 0;
  virtual const Shape& global_output_shape(int i) const = 0;
  // How many threads a lane of this device has.
  virtual int num_threads() const = 0;
  virtual const KernelOptions& options() const {
    static constexpr KernelOptions kDefaults;
    return kDefaults;
  }
  // Of the plan; null where the device type has none.
  virtual KernelLibrary* library() const { return nullptr; }
  // Of the session, with KernelOptions::autotune; else null.
  virtual TuningTable* tuning() const { return nullptr; }

  DataType input_dtype(int i) const { return node().input(i).dtype(); }
  DataType output_dtype(int i) const { return node().output_dtype(i); }
  // The dtype of the variable behind handle input i, from attribute `dtype` or `T` of the node.
  template <typename T>
  const T& attr(absl::string_view name) const {
    return node().attr<T>(name);
  }
};

using KernelFactory = absl::StatusOr<KernelPlan> (*)(const KernelContext&);

// A kernel that is one callable `absl::Status(const KernelArgs&, Lane&)`, for kernels with no more
// state than a lambda captures.
template <typename Fn>
class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(Fn fn) : fn_(std::move(fn)) {}
  absl::Status Run(const KernelArgs& args, Lane& lane) const override { return fn_(args, lane); }

 private:
  Fn fn_;
};

template <typename Fn>
std::unique_ptr<const Kernel> MakeKernel(Fn fn) {
  return std::make_unique<FunctionKernel<Fn>>(std::move(fn));
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_H_
