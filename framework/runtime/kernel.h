// SPDX-License-Identifier: Apache-2.0
//
// Kernel: the code that runs one node of a plan on one device type. It is created from static
// shapes when the step is compiled; it then chooses its algorithm and requests its scratch memory.
// When the step runs, it only computes. Kernels are const and shared by all replicas; all state
// that changes between steps is in device memory, which kernels access through KernelArgs.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/core/shape.h"
#include "framework/core/status.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/kernel_options.h"

namespace mirrorflow {

class Lane;
class TuningTable;

// Identifies a memory region of a replica: an index into the replica's table of base addresses.
using RegionId = int32_t;
// The region of a static input, which no kernel takes as an operand.
inline constexpr RegionId kNoRegion = -1;
// Region 0 of every replica holds its StepParams.
inline constexpr RegionId kParamsRegion = 0;

struct Operand {
  RegionId region = kNoRegion;
  int64_t offset = 0;
};

// The state that changes between steps, except for the feeds; one per replica, in device memory.
struct StepParams {
  uint64_t step = 0;
  uint64_t seed = 0;
  uint64_t iteration = 0;  // of the enclosing loops; see IterationOf
  int64_t replica = 0;     // this replica's rank
  // The first global row of this replica's shard of each axis. Kernels must
  // add KernelContext::first_row.
  int64_t first_row[kMaxAxes] = {};

  friend bool operator==(const StepParams&, const StepParams&) = default;
};

// Returns the identifier of iteration `i` of a loop that runs within iteration `outer` of its
// enclosing loops. Identifiers are unique, so each iteration draws different random numbers.
inline uint64_t IterationOf(uint64_t outer, uint64_t i) {
  return (outer + 1) * 0x9E3779B97F4A7C15 + i;
}

// Holds the addresses of a kernel's operands: the node's inputs (a static input has no
// address), the node's outputs, then the scratch memory if the kernel requested any.
class KernelArgs {
 public:
  KernelArgs(std::byte* const* bases, const Operand* operands, int num_inputs, int num_outputs)
      : bases_(bases), operands_(operands), num_inputs_(num_inputs), num_outputs_(num_outputs) {}

  template <typename T>
  const T* input(int i) const {
    return reinterpret_cast<const T*>(Resolve(operands_[i]));
  }
  // Returns the memory of the variable whose handle is input i.
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
  // Computes the node, or enqueues the work on the lane's stream. Must not allocate, lock or wait.
  virtual absl::Status Run(const KernelArgs& args, Lane& lane) const = 0;

  // Returns this kernel if it can update a range of a variable (update_kernel.h), and null
  // otherwise.
  virtual const UpdateKernel* AsUpdate() const { return nullptr; }
  virtual const UpdateByProductKernel* AsUpdateByProduct() const { return nullptr; }
};

// A form in which a kernel reads an operand that changes rarely: a copy in another layout
// (forms.h).
struct OperandForm {
  int input = 0;
  // Identifies the layout. Forms of one operand with equal keys are equal.
  std::string key;
  int64_t bytes = 0;
  int64_t scratch_bytes = 0;  // for `make`
  // Writes the form to output 0 from the operand, which is input 0.
  std::shared_ptr<const Kernel> make;
};

// Where an input belongs in output 0, for kernels that copy it there. An input that is already
// there is not copied.
struct InputSlice {
  int input = 0;
  int64_t offset = 0;  // in output 0, in bytes
  // In bytes. A row is the last dimension of the input. 0 if the rows are contiguous.
  int64_t row_stride = 0;
};

// A range of the indices of one dimension.
struct DimRange {
  int dim = 0;
  int64_t first = 0;
  int64_t count = 0;

  bool operator==(const DimRange&) const = default;
};

// A dimension of output 0 along which a kernel can be divided.
struct DivisibleDim {
  int dim = 0;
  int64_t multiple = 1;  // every part begins at a multiple of it
  // The inputs that the parts divide among themselves. Every part reads all other inputs in full.
  std::vector<int> divided_inputs = {};
};

// The result of a kernel factory.
struct KernelPlan {
  std::unique_ptr<const Kernel> kernel;
  int64_t scratch_bytes = 0;
  // (input, output) pairs of equal size: the output may reuse the input's memory if the input has
  // no later use.
  std::vector<std::pair<int, int>> in_place = {};
  // True if Run can fail because of input values, such as a label out of range. Kernels that can
  // fail run before the first update of a variable.
  bool fails_on_data = false;
  // Arithmetic operations of a matrix product or convolution, counting a multiply-add as two; 0 for
  // other kernels.
  int64_t flops = 0;
  // The operands that Run reads in a form. Requires KernelContext::changes_rarely for each.
  std::vector<OperandForm> forms = {};
  // Inputs that the plan may store directly in output 0.
  std::vector<InputSlice> slices = {};
  // True if Run writes the rows of output 0 at KernelContext::row_stride. If false, it writes them
  // contiguously.
  bool supports_row_stride = false;
  // The dimensions along which threads can divide the node (KernelContext::part), in addition to
  // those that the op's sharding rule names.
  std::vector<DivisibleDim> divisible_dims = {};
  // If the kernel computes a part: the ranges of inputs that Run receives, by input, and the ranges
  // that it writes of outputs other than output 0. Inputs that are not listed are passed in full.
  // An operand whose range is empty has no address.
  std::vector<std::pair<int, DimRange>> part_inputs = {};
  std::vector<std::pair<int, DimRange>> part_outputs = {};
};

// State shared by the kernels of one plan, on device types that need it. Factories add code to it,
// and Finish compiles or loads all of it at once. Outlives the plan's kernels.
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
  // Returns the value of static input i. REQUIRES: the op's schema declares input i as static.
  virtual const Tensor& constant(int i) const = 0;
  // Return the sharding of output i and its global shape; random ops need both.
  virtual const Sharding& output_sharding(int i) const = 0;
  virtual const Shape& global_output_shape(int i) const = 0;
  // Returns the index, in the replica's shard, of the first row that the kernel computes, in rows
  // of the axis along which its output is sharded. It is 0 except in micro-batches.
  virtual int64_t first_row() const { return 0; }
  // If the node is divided by its sharding rule along dimension `dim` of output 0, returns the
  // index at which this part begins. Otherwise returns 0.
  virtual int64_t first_index([[maybe_unused]] int dim) const { return 0; }
  // Returns whether input i is a constant, or a variable that the step does not write. The kernel
  // can then ask for a form of it.
  virtual bool changes_rarely([[maybe_unused]] int i) const { return false; }
  // Returns the stride between the rows of output 0, in elements. A row is the last dimension. The
  // stride is greater than a row if output 0 is a slice of another value. Kernels may ignore it;
  // see KernelPlan::supports_row_stride. REQUIRES: the rank is at least 1.
  virtual int64_t row_stride() const { return output_shape(0).dim(output_shape(0).rank() - 1); }
  // Returns the context of the whole node, of which this kernel may compute only one thread's part.
  // A kernel that chooses between algorithms whose results differ in the last bits must base its
  // choice on the whole node, so that results do not depend on the number of threads.
  virtual const KernelContext& undivided() const { return *this; }
  // If the node is divided along one of KernelPlan::divisible_dims, returns the range of output 0
  // that this kernel computes. output_shape(0) is then the shape of that part, row_stride() is the
  // stride of the whole output, and all other shapes are those of whole operands. Otherwise returns
  // null: the parts of a node that is divided by its sharding rule are like shards, nodes with
  // fewer rows.
  virtual const DimRange* part() const { return nullptr; }
  virtual const KernelOptions& options() const {
    static constexpr KernelOptions kDefaults;
    return kDefaults;
  }
  // Returns the plan's library, or null if the device type has none.
  virtual KernelLibrary* library() const { return nullptr; }
  // Returns the session's tuning table, or null unless KernelOptions::autotune is set.
  virtual TuningTable* tuning() const { return nullptr; }

  // Returns static input i as integers.
  absl::StatusOr<std::vector<int64_t>> integers(int i) const { return IntegersOf(constant(i)); }
  // Returns static input i, an axis of a value of rank `rank`, as NormalizeAxis does.
  absl::StatusOr<int> axis(int i, int rank, absl::string_view name = "axis") const {
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> given, integers(i));
    return NormalizeAxis(given[0], rank, name);
  }
  DataType input_dtype(int i) const { return node().input(i).dtype(); }
  DataType output_dtype(int i) const { return node().output_dtype(i); }
  // Returns attribute `name` of the node.
  template <typename T>
  const T& attr(absl::string_view name) const {
    return node().attr<T>(name);
  }
};

using KernelFactory = absl::StatusOr<KernelPlan> (*)(const KernelContext&);

// A kernel that wraps a callable, for kernels whose only state is a lambda's captures:
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
