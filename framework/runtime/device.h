// SPDX-License-Identifier: Apache-2.0
//
// Device: the processor that a replica runs on, with its memory and lanes. Execute runs the
// instructions of a step, each on its lane. A lane is an in-order queue. On a GPU it is a CUDA
// stream; on a CPU, one thread runs all lanes inline, in an order that respects their dependencies.
// Lanes only enqueue; only the host waits, and always with a deadline.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_DEVICE_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

// The lanes of every device, by purpose.
enum class LaneKind : int8_t { kCompute = 0, kCommunicate = 1, kCopy = 2 };
inline constexpr int kNumLanes = 3;
inline constexpr absl::string_view kLaneNames[kNumLanes] = {"compute", "communicate", "copy"};

using EventId = int32_t;

class Lane {
 public:
  virtual ~Lane() = default;
  // Makes later work on this lane wait for event `id` of the same replica and step.
  virtual absl::Status Wait(EventId id) = 0;
  // Fires event `id` when all earlier work on this lane is done.
  virtual absl::Status Record(EventId id) = 0;
  // Copies within the device's memory, in order with the other work on this lane. Takes the
  // addresses that kernels use. The default implementations of Copy and Read are for lanes whose
  // kernels run immediately.
  virtual absl::Status Copy(const std::byte* from, std::byte* to, size_t bytes) {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  // Waits for all earlier work on this lane, at most until the deadline, then copies to the host.
  virtual absl::Status Read(const std::byte* from, std::byte* host, size_t bytes, MonotonicTime) {
    std::memcpy(host, from, bytes);
    return absl::OkStatus();
  }
  // Waits for all earlier work on this lane, at most until the deadline. The default is for lanes
  // whose work is done when the call that enqueues it returns.
  virtual absl::Status Finish(MonotonicTime) { return absl::OkStatus(); }

  // Returns the lane's T: the per-lane state of a kernel library (its stream, its handles). Creates
  // it on the first call.
  template <typename T>
  T& Library() {
    static const char tag = 0;  // its address identifies T
    for (const auto& [of, library] : libraries_) {
      if (of == &tag) return *static_cast<T*>(library.get());
    }
    libraries_.emplace_back(&tag, std::make_shared<T>());
    return *static_cast<T*>(libraries_.back().second.get());
  }

 private:
  std::vector<std::pair<const void*, std::shared_ptr<void>>> libraries_;
};

// Properties of a device type that the compiler and the runtime depend on.
struct DeviceTraits {
  std::string type = "CPU";  // selects the kernels
  // If true, kernels read and write host memory, so feeds and fetches need no copy.
  bool host_memory = true;
  // If true, one thread runs all lanes in the order of the plan, so events are no-ops.
  bool inline_lanes = true;
  // If true, all work of a collective has been enqueued on its lane when Start returns, so an event
  // recorded after Start marks the collective's end.
  bool enqueues_collectives = false;
  int num_threads = 1;  // per replica
  // Default size limit of a gradient bucket: large enough that one collective, or one update, takes
  // much longer than its launch.
  int64_t bucket_bytes = int64_t{1} << 19;
};

// A recorded execution (a captured CUDA graph), which a device can replay without dispatching its
// instructions.
class Recording {
 public:
  virtual ~Recording() = default;
};

// The result of an execution that has ended, successfully or not.
struct Outcome {
  bool completed = false;  // whether every instruction ran, even if a kernel rejected its input
  bool wrote = true;       // whether a variable may have been written
};

// How a recording handles an instruction.
enum class Repetition : int8_t {
  kNone,   // involves the host or other ranks: must run in every step
  kWork,   // enqueues the same work on its lane and the same memory in every step
  kOrder,  // orders lanes by an event, the same way in every step
};

// The parameters and feeds of a step as one block. It is copied to the device in two stages. The
// first stage can overlap the previous step.
struct StepInput {
  const std::byte* host = nullptr;  // from AllocateOnHost; unchanged until the step has ended
  std::byte* ahead = nullptr;       // the first stage's destination, on the device
  std::byte* device = nullptr;      // the second stage's destination, which the step reads
  size_t bytes = 0;                 // if 0, the step reads nothing
  bool sent = false;                // whether Send did the first stage; if not, Execute does both
};

// A value that the host receives at the end of a step.
struct StepFetch {
  const std::byte* device = nullptr;
  std::byte* host = nullptr;  // from AllocateOnHost
  size_t bytes = 0;
};

// The instructions of one step.
struct Execution {
  int count;
  absl::FunctionRef<LaneKind(int)> lane_of;
  absl::FunctionRef<Repetition(int)> repetition_of;
  absl::FunctionRef<absl::Status(int)> run;
  // The copies before the first and after the last instruction. Whenever the device replays a
  // recording, it copies the same memory, except for `input.host`.
  StepInput input;
  absl::Span<const StepFetch> fetches;
  // Host work that overlaps the device's work. Called once everything is enqueued; a device with
  // inline lanes need not call it.
  absl::FunctionRef<void()> meanwhile;
  MonotonicTime deadline;
  // If true, Execute may return while the step still runs. Requires that the host needs no result
  // of the step: no fetch, no kernel that can reject its input data, no other rank that can fail.
  bool may_outlive;
  // The recording of the same instructions on the same memory; `*recording` is null before the
  // first execution. `recording` itself is null if `run` must be called for every instruction.
  std::unique_ptr<Recording>* recording;
  Outcome* outcome;  // may be null; unchanged if the device has nothing to add
};

class Device {
 public:
  virtual ~Device() = default;

  virtual absl::string_view name() const = 0;  // `CPU:0`
  virtual const DeviceTraits& traits() const = 0;
  // Returns a device with the same name and memory but its own lanes, for concurrent steps, or null
  // if the device can run only one step at a time.
  virtual std::unique_ptr<Device> Clone() const { return nullptr; }

  // Makes this the calling thread's current device, which libraries such as CUDA's use implicitly.
  // Call it before making plans for this device.
  virtual absl::Status MakeCurrent() { return absl::OkStatus(); }

  // Returns zeroed memory, aligned to 64 bytes. The last owner frees it.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) = 0;
  // Like Allocate, for memory that collectives read and write: other devices can be given access to
  // it.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> AllocateForCollectives(size_t bytes) {
    return Allocate(bytes);
  }
  // Returns host memory that this device can exchange data with asynchronously (page-locked memory
  // on GPUs).
  virtual absl::StatusOr<std::shared_ptr<std::byte>> AllocateOnHost(size_t bytes) {
    return Allocate(bytes);
  }
  // Returns the address that kernels use for this device's memory: `address` itself, except on a
  // test device that keeps the host from touching device memory by mistake.
  virtual std::byte* KernelAddress(std::byte* address) const { return address; }
  // Copy between host memory and this device's memory. On return, the host memory may be reused,
  // and later work on any lane and later copies out see the copied data.
  virtual absl::Status CopyIn(const std::byte* host, std::byte* device, size_t bytes) = 0;
  virtual absl::Status CopyOut(const std::byte* device, std::byte* host, size_t bytes) = 0;
  // Performs the first stage of copying the next step's input, from `host` to `ahead`, while the
  // current step runs. Only for devices with their own memory.
  virtual absl::Status Send(const StepInput& input) {
    return CopyIn(input.host, input.ahead, input.bytes);
  }
  // Waits for a step that outlived Execute, and returns its error.
  virtual absl::Status Synchronize(MonotonicTime) { return absl::OkStatus(); }

  virtual Lane& lane(LaneKind kind) = 0;
  // Returns the compute lane of one of the replica's threads. Thread 0 also runs all other lanes.
  virtual Lane& lane_of_thread(int) { return lane(LaneKind::kCompute); }
  // Creates events 0 … count-1.
  virtual absl::Status ReserveEvents(int count) = 0;

  // Runs the instructions of one step: calls `run(i)` once for each i < count, or replays the
  // recorded work, and returns the first error. A device with inline lanes calls them in order on
  // this thread; other devices pass instruction i to the queue of `lane_of(i)`. Returns when all
  // are done, or at the deadline. If the step may outlive the call, Execute can return the previous
  // step's error as soon as that step has ended.
  virtual absl::Status Execute(const Execution& execution) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_DEVICE_H_
