// SPDX-License-Identifier: Apache-2.0
//
// Plan: a step compiled for one device type and one local row count. It is an immutable, flat array
// of instructions whose operands are (region, offset) pairs. Replicas with equally large shards run
// the same plan, each on its own memory. The rank, the world size and the first row belong to the
// replica, not to the plan.
//
// A plan can leave collectives in flight for its next run to finish. Nothing else may use their
// memory in between.
//
// A single thread can run the instructions in the order of the array. Each instruction belongs to a
// lane; waits and records synchronise the lanes on devices whose lanes run concurrently. On a CPU,
// several threads can run a replica, each computing parts of the nodes. Each thread runs its own
// instructions in array order, and waits for another thread only where `waits` requires it.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_PLAN_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/core/buffer.h"
#include "framework/core/shape.h"
#include "framework/core/tensor.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/device.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

enum class InstructionKind : int8_t {
  kKernel,      // run kernels[index]
  kCopy,        // copy `bytes` from operand 0 to operand 1
  kStart,       // start collectives[index]
  kFinish,      // finish collectives[index]
  kFinishLate,  // finish collectives[index] of the previous run, if there was one
  kBranch,      // run one of the plans of controls[index]
  kLoop,        // run the second plan of controls[index] while the first returns true
  kRecord,      // record `event` on the lane
  kWait,        // make the lane wait for `event`
  kAwait,       // wait until thread `index` has run `event` entries of its dispatch list
};

inline bool Finishes(InstructionKind kind) {
  return kind == InstructionKind::kFinish || kind == InstructionKind::kFinishLate;
}
inline bool RunsPlans(InstructionKind kind) {
  return kind == InstructionKind::kBranch || kind == InstructionKind::kLoop;
}
inline bool OrdersLanes(InstructionKind kind) {
  return kind == InstructionKind::kRecord || kind == InstructionKind::kWait;
}

struct Instruction {
  InstructionKind kind;
  LaneKind lane = LaneKind::kCompute;
  int16_t thread = 0;         // of the replica; threads other than 0 run only kernels
  int32_t index = 0;          // kernel, collective or control
  int32_t first_operand = 0;  // into Plan::operands
  int32_t num_inputs = 0;
  int32_t num_outputs = 0;
  EventId event = 0;
  int32_t node = -1;  // into Plan::node_names
  int64_t bytes = 0;
};

// A split of rows over the ranks: rank r holds rows(axis, r) * elements_per_row elements.
struct SplitRows {
  AxisId axis = 0;
  int64_t elements_per_row = 0;
};

// The kernel of an update whose work the ranks divide: an UpdateKernel or an
// UpdateByProductKernel.
struct UpdateCall {
  int32_t kernel = 0;         // into Plan::kernels
  int32_t first_operand = 0;  // into Plan::operands
  int32_t num_inputs = 0;
  std::vector<int32_t> variables = {};  // the inputs that the kernel writes
};

// The kinds of collectives, each with its specific fields.
struct PlannedAllReduce {  // in place
  Reduction reduction = Reduction::kSum;
};
struct PlannedReduceScatter {
  Reduction reduction = Reduction::kSum;
  SplitRows split;
};
struct PlannedAllGather {
  SplitRows split;
};
struct PlannedUpdate {  // by a gradient, `in`
  std::optional<Reduction> reduction = std::nullopt;
  UpdateCall call;
};
struct PlannedProductUpdate {  // by the product of `in` and `right`
  Operand right;
  SplitRows split;        // of both operands
  int64_t rows = 0;       // of the variable
  int64_t row_bytes = 0;  // of the variable
  UpdateCall call;
};

// A collective with operands in memory. Its index in Plan::collectives is its sequence number,
// which is equal on every rank.
struct PlannedCollective {
  std::variant<Barrier, PlannedAllReduce, PlannedReduceScatter, PlannedAllGather, PlannedUpdate,
               PlannedProductUpdate>
      operation;
  std::string name;
  DataType dtype = DT_FLOAT;
  int64_t count = 0;  // elements of the whole value
  Operand in, out;    // `out` is unused by updates
  int urgency = 0;    // if several can proceed, the smallest number goes first

  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(operation);
  }
  // Returns the update call, or null if the collective is not an update.
  const UpdateCall* update() const {
    if (const auto* update = std::get_if<PlannedUpdate>(&operation)) return &update->call;
    if (const auto* update = std::get_if<PlannedProductUpdate>(&operation)) return &update->call;
    return nullptr;
  }
  int64_t bytes() const { return count * static_cast<int64_t>(DataTypeSize(dtype)); }
  // Returns a name for messages: `all-reduce`, `update by product`, …
  absl::string_view kind() const;
};

// The location, dtype and shapes of a fetched value at the end of the step.
struct PlannedFetch {
  Operand operand;
  DataType dtype = DT_FLOAT;
  Shape local_shape;
  Shape global_shape;
  Sharding sharding;
  int32_t value = -1;  // as in MemoryAccess
};

struct PlannedFeed {
  DataType dtype = DT_FLOAT;
  Shape local_shape;
  Shape global_shape;
  Sharding sharding;

  size_t bytes() const { return local_shape.num_elements() * DataTypeSize(dtype); }  // per shard
};

// One memory access by an instruction, for CheckPlan and the printer.
struct MemoryAccess {
  Operand operand;
  int64_t bytes = 0;  // of all rows
  bool is_write = false;
  int32_t value = -1;  // identifies the value that a write stores or that a read must find
  // Rows of equal sizes, `row_stride` bytes apart; one row if the bytes are contiguous.
  int64_t rows = 1;
  int64_t row_stride = 0;

  int64_t row_bytes() const { return bytes / rows; }
  // Returns the size in bytes, including the gaps between rows.
  int64_t extent() const { return (rows - 1) * row_stride + row_bytes(); }
};

struct Plan;

// A branch or a loop. The arguments serve as the sub-plans' feeds without a copy; the instruction's
// scratch memory is their arena; their fetches are copied to the outputs. A sub-plan runs on the
// instruction's thread, so it has no events.
struct PlannedControl {
  // A branch has {then, else}, a loop {condition, body}.
  std::shared_ptr<const Plan> plans[2];
  // The dtype of the predicate: input 0 of a branch, or the result of a loop's condition.
  // DT_INVALID if it is not a scalar; it is then true if it has at least one element.
  DataType predicate = DT_INVALID;
  bool has_elements = false;
  int first_argument = 0;  // index among the inputs
  // The size of each result, and the scratch offset where the result is staged while other results
  // are copied (-1 if it needs no staging). Staging is needed because a loop's body can permute its
  // arguments.
  std::vector<int64_t> bytes;
  std::vector<int64_t> staging;
};

// An operand of the kernel that makes a form: another form, a variable or a constant.
struct FormOperand {
  int form = -1;      // in Plan::forms, before the form that it belongs to
  int variable = -1;  // in the layout
  Operand source;     // where the variable is
  int64_t source_bytes = 0;
  Tensor constant;  // the value, if both are -1
};

// A form of a value that changes rarely (forms.h).
struct PlannedForm {
  std::string name;  // for error messages and dumps
  std::string key;   // forms with equal keys are equal if the variables are in the same memory
  int64_t bytes = 0;
  int64_t scratch_bytes = 0;
  std::shared_ptr<const Kernel> make;
  std::vector<FormOperand> operands;
  std::vector<int> variables;  // in the layout, sorted; those that the form depends on
  // If true, the step reads the form, and the session keeps it. If false, it is only an operand of
  // other forms, and exists while they are made.
  bool kept = false;
};

// `instruction` runs only after another thread has run `other`.
struct ThreadWait {
  int32_t instruction;  // into Plan::instructions, like `other`
  int32_t other;

  friend bool operator==(const ThreadWait&, const ThreadWait&) = default;
};

// One thread's instructions in dispatch order, with a kAwait for each ThreadWait. Omits records and
// event waits if the device's lanes run inline. Shared by all replicas that run the plan.
struct DispatchList {
  std::vector<Instruction> instructions;
  std::vector<int32_t> original;  // indices in Plan::instructions; a kAwait has its successor's
  std::vector<int> stops;         // where an inline run checks the deadline; the last is the end
  int first_write = 0;            // the first instruction that writes a variable; the end if none
};

struct Plan {
  // Regions are numbered in this order: those that every plan has, one for each feed, those of the
  // session's VariableLayout, and one for each form.
  static constexpr RegionId kConstantsRegion = 1;
  static constexpr RegionId kArenaRegion = 2;
  static constexpr RegionId kFirstFeedRegion = 3;
  RegionId feed_region(int feed) const { return kFirstFeedRegion + feed; }
  RegionId layout_region(int region) const {
    return kFirstFeedRegion + static_cast<RegionId>(feeds.size()) + region;
  }
  int num_layout_regions = 0;
  RegionId form_region(int form) const { return layout_region(num_layout_regions) + form; }
  int num_regions = 0;

  std::vector<Instruction> instructions;
  std::vector<Operand> operands;
  std::shared_ptr<KernelLibrary> library;  // used by all kernels and sub-plans; may be null
  std::vector<std::unique_ptr<const Kernel>> kernels;
  std::vector<PlannedCollective> collectives;
  std::vector<int32_t> late;  // the collectives that the next run finishes, in order
  std::vector<PlannedControl> controls;
  std::vector<PlannedForm> forms;
  std::vector<PlannedFeed> feeds;
  std::vector<PlannedFetch> fetches;
  std::vector<std::string> node_names;  // `dense/MatMul`
  std::vector<std::string> node_ops;    // `MatMul`
  std::vector<int64_t> axis_rows;       // local rows of each axis
  std::vector<int64_t> axis_sizes;      // global rows of each axis
  int num_events = 0;

  std::shared_ptr<Buffer> constants;  // on the host; copied to the device once
  int64_t constants_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;  // the peak of live bytes, a lower bound on arena_bytes
  int64_t num_arena_values = 0;
  int64_t flops = 0;                  // of matrix products and convolutions
  std::vector<int64_t> kernel_flops;  // the same, by kernel
  std::vector<char> kernel_fails;     // by kernel: whether it can reject its input data
  int64_t copied_to_buckets = 0;      // bytes copied to form operands of collectives
  // Returns the memory that exists only while forms are made: those that are not kept, and scratch.
  int64_t form_making_bytes() const;
  int64_t form_bytes() const;  // of all forms that the session keeps
  bool fails_on_data = false;  // whether any instruction can reject its input data

  // The memory that each instruction accesses.
  std::vector<std::vector<MemoryAccess>> accesses;

  int num_threads = 1;                           // per replica
  std::vector<ThreadWait> waits;                 // sorted by instruction
  DispatchList dispatch;                         // of thread 0, for the plan's device type
  std::vector<DispatchList> dispatch_of_others;  // of threads 1, 2, …

  const DispatchList& dispatch_of(int thread) const {
    return thread == 0 ? dispatch : dispatch_of_others[thread - 1];
  }

  // Returns `MatMul(dense/MatMul)`, the form in which errors name a node; "" if `node` is -1.
  std::string NodeText(int32_t node) const;
  // Prints the plan, one line per instruction.
  std::string ToString() const;
};

// Lists up to five of the largest values in the arena and the nodes that produce them, for error
// messages: `MatMul(y) with 4096 bytes, Tanh(z) with 1024 bytes`.
std::string LargestValues(const Plan& plan);

// Returns whether instruction `i` updates a variable: it runs a kernel that has no outputs and
// writes to the variable layout. A kernel with an output in the layout computes a gradient.
bool WritesVariable(const Plan& plan, size_t i);

// Returns whether the step may no longer reject its data once instruction `i` runs: it writes a
// variable, or starts a collective, after which other ranks may write their variables.
bool CommitsStep(const Plan& plan, size_t i);

// Returns whether both instructions are parts of one node, which run on different threads.
inline bool ArePartsOfSameNode(const Instruction& a, const Instruction& b) {
  return a.kind == InstructionKind::kKernel && b.kind == a.kind && a.node == b.node &&
         a.node >= 0 && a.thread != b.thread;
}

// Returns whether instruction `i` can reject its input data.
bool CanReject(const Plan& plan, size_t i);

// Builds the dispatch lists of a plan. If `one_lane` is true, each thread runs all of its
// instructions on the compute lane, without events; set it for devices with inline lanes, and for
// branch and loop bodies.
void MakeDispatchLists(Plan& plan, bool one_lane);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_PLAN_H_
