// SPDX-License-Identifier: Apache-2.0
//
// Device: one place that computes, with memory and lanes. A lane is an in-order queue (a CUDA
// stream; on a CPU a share of one thread, which runs all lanes inline in a legal order). Lanes only
// enqueue; only the host waits, and always with a deadline.
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
#include "absl/time/time.h"

namespace mirrorflow {

// The queues that every device has, by use.
enum class LaneKind : int8_t { kCompute = 0, kCommunicate = 1, kCopy = 2 };
inline constexpr int kNumLanes = 3;

using EventId = int32_t;

class Lane {
 public:
  virtual ~Lane() = default;
  // Makes what is enqueued later wait for the event `id` of this replica and step.
  virtual absl::Status Wait(EventId id) = 0;
  // Fires event `id` when all that was enqueued before is done.
  virtual absl::Status Record(EventId id) = 0;
  // Copies within the device's memory (addresses as kernels have them), in order with what is
  // enqueued. This one is of lanes whose kernels run at once, as is the next.
  virtual absl::Status Copy(const std::byte* from, std::byte* to, size_t bytes) {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  // Copies to the host what all that was enqueued before has made: waits for it, at most until
  // `deadline`.
  virtual absl::Status Read(const std::byte* from, std::byte* host, size_t bytes, absl::Time) {
    std::memcpy(host, from, bytes);
    return absl::OkStatus();
  }

  // What a library of kernels needs one of for each lane (its stream, its handles): a T, made when
  // a kernel of this lane first asks for it.
  template <typename T>
  T& Library() {
    static const char tag = 0;  // its address names T
    for (const auto& [of, library] : libraries_) {
      if (of == &tag) return *static_cast<T*>(library.get());
    }
    libraries_.emplace_back(&tag, std::make_shared<T>());
    return *static_cast<T*>(libraries_.back().second.get());
  }

 private:
  std::vector<std::pair<const void*, std::shared_ptr<void>>> libraries_;
};

// What the compiler and the runtime need to know about a kind of device.
struct DeviceTraits {
  std::string type = "CPU";  // the key of kernels
  // Kernels read and write host memory: feeds and fetches need no copy.
  bool host_memory = true;
  // One thread runs all lanes in the order of the plan: events have nothing to do.
  bool inline_lanes = true;
  // A collective is all on its lane when its Start returns: an event behind it is its end.
  bool enqueues_collectives = false;
  int num_threads = 1;  // of one replica
  // A bucket of gradients grows to this, if nothing else is asked for: then one collective, or one
  // update, takes much longer than it takes to start it.
  int64_t bucket_bytes = int64_t{1} << 19;
};

// What a device keeps of an execution to repeat it without its instructions (a captured CUDA
// graph).
class Recording {
 public:
  virtual ~Recording() = default;
};

// What is known of an execution when it has ended, well or not.
struct Outcome {
  bool completed = false;  // every instruction was done, also if one was not content with its data
  bool wrote = true;       // a variable was, or may have been
};

// What an instruction is to a recording.
enum class Repetition : int8_t {
  kNone,   // the host takes part in it, or others do: it must be run in every step
  kWork,   // enqueues the same work on the same memory of its lane in every step
  kOrder,  // orders lanes by an event, the same way in every step
};

// The instructions of one step.
struct Execution {
  int count;
  absl::FunctionRef<LaneKind(int)> lane_of;
  absl::FunctionRef<Repetition(int)> repetition_of;
  absl::FunctionRef<absl::Status(int)> run;
  // What the host can do while the device computes: called once everything is enqueued. A device
  // that is no slower than the host need not call it.
  absl::FunctionRef<void()> meanwhile;
  absl::Time deadline;
  // Of the same instructions on the same memory, null before the first time. Itself null if `run`
  // must be called for all of them.
  std::unique_ptr<Recording>* recording;
  Outcome* outcome;  // may be null; a device that knows no more leaves it as it is
};

class Device {
 public:
  virtual ~Device() = default;

  virtual absl::string_view name() const = 0;  // `CPU:0`
  virtual const DeviceTraits& traits() const = 0;

  // Zeroed memory, aligned to 64 bytes, freed with the device's last user of it.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) = 0;
  // The same, for what collectives read and write, where other devices can be given a way to it.
  virtual absl::StatusOr<std::shared_ptr<std::byte>> AllocateForCollectives(size_t bytes) {
    return Allocate(bytes);
  }
  // What kernels must be given to reach memory of this device: the address itself, but for a test
  // device that keeps the host from touching its memory by mistake.
  virtual std::byte* KernelAddress(std::byte* address) const { return address; }
  // Between host memory and this device's. On return the host memory may be used for something
  // else, and what is enqueued later on any lane, or copied out, sees what was copied.
  virtual absl::Status CopyIn(const std::byte* host, std::byte* device, size_t bytes) = 0;
  virtual absl::Status CopyOut(const std::byte* device, std::byte* host, size_t bytes) = 0;
  // In two parts, the first of which may travel while a step runs: from host memory, which may be
  // used for something else on return, to memory of the device that no step knows; and from there
  // to where the next step finds it, in order as with CopyIn. As they stand here for devices whose
  // memory is the host's.
  virtual absl::Status CopyAhead(const std::byte* host, std::byte* ahead, size_t bytes) {
    return CopyIn(host, ahead, bytes);
  }
  virtual absl::Status CopyArrived(const std::byte* ahead, std::byte* device, size_t bytes) {
    return CopyIn(ahead, device, bytes);
  }

  virtual Lane& lane(LaneKind kind) = 0;
  // Prepares events 0 … count-1.
  virtual absl::Status ReserveEvents(int count) = 0;

  // Runs one step's instructions: calls `run(i)` once for each i < count, or does what it did when
  // it was recorded, and returns the first error. An inline device calls them in order on this
  // thread; a queued one hands instruction i to the queue of `lane_of(i)`. Returns when all are
  // done, or at the deadline.
  virtual absl::Status Execute(const Execution& execution) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_DEVICE_H_
