// SPDX-License-Identifier: Apache-2.0
//
// Plan: a step compiled for one device type and one shard of the rows. It is a flat array of
// instructions whose operands are (region, offset), and it is immutable. Replicas with equal shards
// run the same plan, each with its own memory. The rank, the world size and the first row belong to
// the replica, not to the plan.
//
// Collectives may be finished in the next run of the same plan, before which nothing else may use
// their memory.
//
// The order of the instructions is valid for a single thread. Each instruction belongs to a lane;
// waits and records order the lanes on devices whose lanes run concurrently.
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
  kFinishLate,  // finish collectives[index] of the last run, unless this is the first one
  kBranch,      // run one of the plans of controls[index]
  kLoop,        // run the second plan of controls[index] while the first returns true
  kRecord,      // record `event` on the lane
  kWait,        // make the lane wait for `event`
};

inline bool Finishes(InstructionKind kind) {
  return kind == InstructionKind::kFinish || kind == InstructionKind::kFinishLate;
}

struct Instruction {
  InstructionKind kind;
  LaneKind lane = LaneKind::kCompute;
  int32_t index = 0;          // kernel, collective or control
  int32_t first_operand = 0;  // into Plan::operands
  int32_t num_inputs = 0;
  int32_t num_outputs = 0;
  EventId event = 0;
  int32_t node = -1;  // into Plan::node_names
  int64_t bytes = 0;
};

// A split of rows over the ranks: rank r has rows(axis, r) * elements_per_row elements.
struct SplitRows {
  AxisId axis = 0;
  int64_t elements_per_row = 0;
};

// The kernel of an update that is divided among ranks: an UpdateKernel or an
// UpdateByProductKernel.
struct UpdateCall {
  int32_t kernel = 0;         // into Plan::kernels
  int32_t first_operand = 0;  // into Plan::operands
  int32_t num_inputs = 0;
  std::vector<int32_t> variables = {};  // the inputs that it writes
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
struct PlannedUpdate {  // by `in`, a gradient
  std::optional<Reduction> reduction = std::nullopt;
  UpdateCall call;
};
struct PlannedProductUpdate {  // by the product of `in` and `right`
  Operand right;
  SplitRows split;        // of both
  int64_t rows = 0;       // of the variable
  int64_t row_bytes = 0;  // of the variable
  UpdateCall call;
};

// A collective with operands in memory. Its index in Plan::collectives is its position in the order
// of all collectives, which is equal on every rank.
struct PlannedCollective {
  std::variant<Barrier, PlannedAllReduce, PlannedReduceScatter, PlannedAllGather, PlannedUpdate,
               PlannedProductUpdate>
      operation;
  std::string name;
  DataType dtype = DT_FLOAT;
  int64_t count = 0;  // elements of the whole value
  Operand in, out;    // `out` is unused by updates
  int urgency = 0;    // where two can go on, that of the smaller number goes first

  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(operation);
  }
  // Null unless the collective is an update.
  const UpdateCall* update() const {
    if (const auto* update = std::get_if<PlannedUpdate>(&operation)) return &update->call;
    if (const auto* update = std::get_if<PlannedProductUpdate>(&operation)) return &update->call;
    return nullptr;
  }
  int64_t bytes() const { return count * static_cast<int64_t>(DataTypeSize(dtype)); }
  // `all-reduce`, `update by product`, …
  absl::string_view kind() const;
};

// The location, dtype and shapes of a fetched value when the step is done.
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

  size_t bytes() const { return local_shape.num_elements() * DataTypeSize(dtype); }  // the shard's
};

// One use of memory by an instruction, as CheckPlan and the printer see it.
struct MemoryAccess {
  Operand operand;
  int64_t bytes = 0;
  bool is_write = false;
  int32_t value = -1;  // identifies the value: a read must find the value written for it
};

struct Plan;

// A branch or a loop. The feeds of its sub-plans are the arguments, in place; their arena is the
// instruction's scratch memory; their fetches are copied to the outputs. A sub-plan runs on the
// thread of the instruction, so it has no events.
struct PlannedControl {
  // A branch has {then, else}, a loop {condition, body}.
  std::shared_ptr<const Plan> plans[2];
  // The dtype of the predicate: input 0 of a branch, or the result of a loop's condition.
  // DT_INVALID if it is not a scalar; it is then true if it has elements.
  DataType predicate = DT_INVALID;
  bool has_elements = false;
  int first_argument = 0;  // among the inputs
  // By result: its size, and its offset in the scratch memory while other results are copied; -1 if
  // it needs no staging. A loop's body may return one argument in place of another.
  std::vector<int64_t> bytes;
  std::vector<int64_t> staging;
};

// The instructions of a plan in the order in which a device dispatches them, without records and
// waits if its lanes run inline. Made once for all replicas that run the plan.
struct DispatchList {
  std::vector<Instruction> instructions;
  std::vector<int32_t> original;  // their indices in Plan::instructions
  std::vector<int> stops;         // where an inline run checks the deadline; the last is the end
  int first_write = 0;            // the first that writes a variable; the end if none does
};

struct Plan {
  // Regions of every plan, then one for each feed, then those of the session's VariableLayout.
  static constexpr RegionId kConstantsRegion = 1;
  static constexpr RegionId kArenaRegion = 2;
  static constexpr RegionId kFirstFeedRegion = 3;
  RegionId feed_region(int feed) const { return kFirstFeedRegion + feed; }
  RegionId layout_region(int region) const {
    return kFirstFeedRegion + static_cast<RegionId>(feeds.size()) + region;
  }
  int num_regions = 0;

  std::vector<Instruction> instructions;
  std::vector<Operand> operands;
  std::shared_ptr<KernelLibrary> library;  // of the kernels and of those of sub-plans; may be null
  std::vector<std::unique_ptr<const Kernel>> kernels;
  std::vector<PlannedCollective> collectives;
  std::vector<int32_t> late;  // those of collectives that are finished in the next run, in order
  std::vector<PlannedControl> controls;
  std::vector<PlannedFeed> feeds;
  std::vector<PlannedFetch> fetches;
  std::vector<std::string> node_names;  // `dense/MatMul`
  std::vector<std::string> node_ops;    // `MatMul`
  std::vector<int64_t> axis_rows;       // this shard's rows of each axis
  std::vector<int64_t> axis_sizes;      // all replicas' rows of each axis
  int num_events = 0;

  std::shared_ptr<Buffer> constants;  // on the host; copied to the device once
  int64_t constants_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;  // the most bytes that are live at once, a lower bound of arena_bytes
  int64_t num_arena_values = 0;
  int64_t flops = 0;                  // of products and convolutions
  std::vector<int64_t> kernel_flops;  // the same, by kernel
  int64_t copied_to_buckets = 0;      // bytes that are copied to form operands of collectives
  bool fails_on_data = false;         // whether any kernel may reject its input data

  // By instruction: the memory that it accesses.
  std::vector<std::vector<MemoryAccess>> accesses;

  DispatchList dispatch;  // for the plan's device type

  // One line for each instruction.
  std::string ToString() const;
};

// The largest values of the arena, up to five, and the nodes that produce them, for error messages:
// `MatMul(y) with 4096 bytes, Tanh(z) with 1024 bytes`.
std::string LargestValues(const Plan& plan);

// `one_lane` puts all instructions on the compute lane, which needs no events. It is set for
// devices that run lanes inline, and for bodies of branches and loops.
DispatchList MakeDispatchList(const Plan& plan, bool one_lane);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_PLAN_H_
