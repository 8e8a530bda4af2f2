// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"
#include "kernels/cuda/cuda_graph.h"
#include "kernels/cuda/cuda_status.h"

namespace mirrorflow {
namespace {

// The staging memory for each of CopyIn and CopyAhead.
constexpr size_t kStagingBytes = size_t{4} << 20;
// Not tuned by measurements; PyTorch's DistributedDataParallel uses 25 MiB.
constexpr int64_t kBucketBytes = int64_t{16} << 20;
// The timeout of copies that no step's deadline covers.
constexpr absl::Duration kCopyTimeout = absl::Minutes(5);

std::atomic<int64_t> allocated_bytes{0};

// Memory from cudaMalloc.
const CollectiveMemory& CudaMemory() {
  class Memory final : public CollectiveMemory {
    absl::StatusOr<void*> Allocate(size_t bytes) const override {
      void* memory = nullptr;
      MF_RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, bytes));
      return memory;
    }
    void Free(void* memory) const override { cudaFree(memory); }
  };
  static const Memory memory;
  return memory;
}

// Owns a cudaEvent_t, which Make creates.
class Event {
 public:
  Event() = default;
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  absl::Status Make() {
    MF_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    return absl::OkStatus();
  }
  absl::Status Record(cudaStream_t stream) const {
    MF_RETURN_IF_CUDA_ERROR(cudaEventRecord(event_, stream));
    return absl::OkStatus();
  }
  // Makes later work on `stream` wait for the last Record.
  absl::Status HoldUp(cudaStream_t stream) const {
    MF_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream, event_, 0));
    return absl::OkStatus();
  }
  // Waits on the host for the last Record: spins for a while, then yields the core.
  absl::Status WaitUntil(absl::Time deadline) const {
    constexpr int kSpins = 2000;
    for (int64_t turn = 0;; ++turn) {
      const cudaError_t error = cudaEventQuery(event_);
      if (error != cudaErrorNotReady) return CudaStatus(error, "cudaEventQuery(event_)");
      if (turn < kSpins) continue;
      if (absl::Now() > deadline) {
        return absl::DeadlineExceededError(absl::StrCat(
            "the GPU did not finish in time; expected it by ", absl::FormatTime(deadline)));
      }
      std::this_thread::yield();
    }
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class StreamLane final : public CudaLane {
 public:
  ~StreamLane() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  void set_failure(DataFailure* failure) { failure_ = failure; }
  // The GPU prefers blocks of an urgent lane: collectives, which other GPUs wait for, then run
  // beside the kernels of a large step and not after them.
  absl::Status Make(const std::vector<Event>* events, bool urgent) {
    events_ = events;
    int least = 0, greatest = 0;
    MF_RETURN_IF_CUDA_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    MF_RETURN_IF_CUDA_ERROR(
        cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least));
    return end_.Make();
  }

  absl::Status Wait(EventId id) override { return (*events_)[id].HoldUp(stream_); }
  absl::Status Record(EventId id) override { return (*events_)[id].Record(stream_); }
  absl::Status Copy(const std::byte* from, std::byte* to, size_t bytes) override {
    MF_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
    return absl::OkStatus();
  }
  absl::Status Read(const std::byte* from, std::byte* host, size_t bytes,
                    absl::Time deadline) override {
    MF_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream_));
    return Finish(deadline);
  }

  // Makes later work on `other` wait for all work enqueued here so far.
  absl::Status HoldUp(const StreamLane& other) const {
    MF_RETURN_IF_ERROR(end_.Record(stream_));
    return end_.HoldUp(other.stream_);
  }
  absl::Status Finish(absl::Time deadline) const {
    MF_RETURN_IF_ERROR(end_.Record(stream_));
    return end_.WaitUntil(deadline);
  }

 private:
  const std::vector<Event>* events_ = nullptr;  // of the device
  Event end_;
};

// Pinned host memory, from which the GPU copies while the host goes on. One half is filled while
// the copy from the other is in flight.
class Staging {
 public:
  ~Staging() {
    if (memory_ != nullptr) cudaFreeHost(memory_);
  }
  void Leak() { memory_ = nullptr; }
  absl::Status Make(cudaStream_t stream) {
    stream_ = stream;
    MF_RETURN_IF_CUDA_ERROR(cudaMallocHost(reinterpret_cast<void**>(&memory_), kStagingBytes));
    for (Event& travelled : travelled_) {
      MF_RETURN_IF_ERROR(travelled.Make());
      MF_RETURN_IF_ERROR(travelled.Record(stream_));
    }
    return absl::OkStatus();
  }

  // Copies in order with the work on the stream. On return, the caller may reuse `host`.
  absl::Status Copy(const std::byte* host, std::byte* device, size_t bytes) {
    while (bytes > 0) {
      const size_t some = std::min(bytes, kStagingBytes / 2 - staged_);
      if (some == 0) {
        MF_RETURN_IF_ERROR(travelled_[half_].Record(stream_));
        half_ = 1 - half_;
        staged_ = 0;
        MF_RETURN_IF_ERROR(travelled_[half_].WaitUntil(absl::Now() + kCopyTimeout));
        continue;
      }
      std::byte* const staged = memory_ + half_ * (kStagingBytes / 2) + staged_;
      std::memcpy(staged, host, some);
      MF_RETURN_IF_CUDA_ERROR(
          cudaMemcpyAsync(device, staged, some, cudaMemcpyHostToDevice, stream_));
      staged_ += some;
      host += some;
      device += some;
      bytes -= some;
    }
    return absl::OkStatus();
  }

 private:
  cudaStream_t stream_ = nullptr;  // of the device
  std::byte* memory_ = nullptr;
  size_t staged_ = 0;  // bytes of the half that is being filled
  int half_ = 0;
  Event travelled_[2];  // by half: when the GPU has read it
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, int ordinal, const GpuOptions& options)
      : name_(absl::StrCat(kGpu, ":", index)), ordinal_(ordinal), options_(options) {
    traits_.type = kGpu;
    traits_.host_memory = false;
    traits_.inline_lanes = false;
    traits_.enqueues_collectives = true;
    traits_.bucket_bytes = kBucketBytes;
  }
  ~CudaDevice() override {
    cudaSetDevice(ordinal_);
    if (*lost_) {
      staging_.Leak();
      ahead_staging_.Leak();
      return;
    }
    if (host_failure_ != nullptr) cudaFreeHost(host_failure_);
  }

  absl::Status Open() {
    MF_RETURN_IF_ERROR(Select());
    for (int kind = 0; kind < kNumLanes; ++kind) {
      const bool urgent = static_cast<LaneKind>(kind) == LaneKind::kCommunicate;
      MF_RETURN_IF_ERROR(lanes_[kind].Make(&events_, urgent));
    }
    MF_RETURN_IF_ERROR(ahead_.Make(&events_, /*urgent=*/false));
    MF_ASSIGN_OR_RETURN(failure_, Allocate(sizeof(DataFailure)));
    for (StreamLane& lane : lanes_)
      lane.set_failure(reinterpret_cast<DataFailure*>(failure_.get()));
    MF_RETURN_IF_CUDA_ERROR(
        cudaMallocHost(reinterpret_cast<void**>(&host_failure_), sizeof(DataFailure)));
    MF_RETURN_IF_ERROR(staging_.Make(compute().stream()));
    return ahead_staging_.Make(ahead_.stream());
  }

  absl::string_view name() const override { return name_; }
  const DeviceTraits& traits() const override { return traits_; }

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    return Allocate(CudaMemory(), bytes);
  }
  absl::StatusOr<std::shared_ptr<std::byte>> AllocateForCollectives(size_t bytes) override {
    const CollectiveMemory* const memory = options_.collective_memory;
    return Allocate(memory != nullptr ? *memory : CudaMemory(), bytes);
  }

  // Earlier uses of `device` need no wait: they were enqueued before, or belong to a step that has
  // ended.
  absl::Status CopyIn(const std::byte* host, std::byte* device, size_t bytes) override {
    MF_RETURN_IF_ERROR(Select());
    return staging_.Copy(host, device, bytes);
  }
  // Uses a stream of its own, which no step waits for.
  absl::Status CopyAhead(const std::byte* host, std::byte* ahead, size_t bytes) override {
    MF_RETURN_IF_ERROR(Select());
    if (std::exchange(clears_, false)) MF_RETURN_IF_ERROR(compute().HoldUp(ahead_));
    MF_RETURN_IF_ERROR(ahead_staging_.Copy(host, ahead, bytes));
    return absl::OkStatus();
  }
  absl::Status CopyArrived(const std::byte* ahead, std::byte* device, size_t bytes) override {
    MF_RETURN_IF_ERROR(Select());
    MF_RETURN_IF_ERROR(ahead_.HoldUp(compute()));
    MF_RETURN_IF_ERROR(compute().Copy(ahead, device, bytes));
    // The next CopyAhead may overwrite `ahead`.
    return compute().HoldUp(ahead_);
  }
  absl::Status CopyOut(const std::byte* device, std::byte* host, size_t bytes) override {
    MF_RETURN_IF_ERROR(Select());
    if (bytes == 0) return absl::OkStatus();
    return compute().Read(device, host, bytes, absl::Now() + kCopyTimeout);
  }

  Lane& lane(LaneKind kind) override { return lanes_[static_cast<int>(kind)]; }
  absl::Status ReserveEvents(int count) override {
    MF_RETURN_IF_ERROR(Select());
    while (static_cast<int>(events_.size()) < count) {
      MF_RETURN_IF_ERROR(events_.emplace_back().Make());
    }
    return absl::OkStatus();
  }

  absl::Status Execute(const Execution& execution) override {
    MF_RETURN_IF_ERROR(Select());
    absl::Status status = EnqueueStep(execution);
    if (status.ok()) execution.meanwhile();
    // Waits even after an error: memory that kernels still use must not be reused.
    for (StreamLane& lane : lanes_) {
      const absl::Status finished = lane.Finish(execution.deadline);
      if (absl::IsDeadlineExceeded(finished)) *lost_ = true;
      if (status.ok()) status = Annotate(finished, name_);
    }
    if (!status.ok()) return status;
    if (execution.outcome != nullptr) {
      *execution.outcome = {.completed = true, .wrote = host_failure_->writes != writes_};
    }
    writes_ = host_failure_->writes;
    return host_failure_->what == nullptr ? absl::OkStatus() : TakeFailure();
  }

 private:
  // A step as graphs, and the instructions between them.
  class StepRecording final : public Recording {
   public:
    struct Part {
      int begin, end;   // instructions
      bool may_repeat;  // it becomes a graph when it is captured
      std::unique_ptr<CudaGraph> graph = nullptr;
    };
    std::vector<Part> parts;
    bool whole = false;  // the only part is the whole step, on all lanes
  };

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(const CollectiveMemory& of, size_t bytes) {
    MF_RETURN_IF_ERROR(Select());
    const absl::StatusOr<void*> memory = of.Allocate(std::max<size_t>(bytes, 1));
    if (!memory.ok()) {
      size_t free = 0, all = 0;
      if (cudaMemGetInfo(&free, &all) != cudaSuccess) return memory.status();
      return Annotate(memory.status(),
                      absl::StrCat("expected ", bytes, " bytes, got ", free, " free of ", all));
    }
    allocated_bytes += static_cast<int64_t>(bytes);
    auto free_it = [ordinal = ordinal_, lost = lost_, bytes, &of](std::byte* freed) {
      allocated_bytes -= static_cast<int64_t>(bytes);
      if (*lost) return;
      cudaSetDevice(ordinal);
      of.Free(freed);
    };
    std::shared_ptr<std::byte> owned(static_cast<std::byte*>(*memory), free_it);
    MF_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(*memory, 0, bytes, compute().stream()));
    clears_ = true;
    return owned;
  }

  absl::Status Run(const Execution& execution, int begin, int end) {
    for (int i = begin; i < end; ++i) MF_RETURN_IF_ERROR(execution.run(i));
    return absl::OkStatus();
  }

  // Runs a whole step. First, all lanes wait for the compute lane.
  absl::Status RunAll(const Execution& execution) {
    // For the data that was copied in.
    for (StreamLane& lane : lanes_) {
      if (&lane != &compute()) MF_RETURN_IF_ERROR(compute().HoldUp(lane));
    }
    return Run(execution, 0, execution.count);
  }

  // The first time, runs instruction by instruction: that is when kernels are loaded, libraries
  // create their handles and communicators connect. The second time, captures the parts that
  // repeat.
  absl::Status EnqueueStep(const Execution& execution) {
    const bool records = options_.capture_steps && execution.recording != nullptr;
    if (!records || *execution.recording == nullptr) {
      if (records) *execution.recording = Divide(execution);
      MF_RETURN_IF_ERROR(RunAll(execution));
      return AskForFailure();
    }
    auto& recording = static_cast<StepRecording&>(**execution.recording);
    if (!recording.whole) {
      for (StreamLane& lane : lanes_) {
        if (&lane != &compute()) MF_RETURN_IF_ERROR(compute().HoldUp(lane));
      }
    }
    for (StepRecording::Part& part : recording.parts) {
      MF_RETURN_IF_ERROR(EnqueuePart(execution, recording.whole, part));
    }
    return recording.whole ? absl::OkStatus() : AskForFailure();
  }

  absl::Status EnqueuePart(const Execution& execution, bool whole, StepRecording::Part& part) {
    const auto run = [&]() -> absl::Status {
      if (!whole) return Run(execution, part.begin, part.end);
      MF_RETURN_IF_ERROR(RunAll(execution));
      for (StreamLane& lane : lanes_) {
        if (&lane != &compute()) MF_RETURN_IF_ERROR(lane.HoldUp(compute()));
      }
      return AskForFailure();
    };
    if (!part.may_repeat) return run();
    if (part.graph == nullptr) {
      absl::StatusOr<std::unique_ptr<CudaGraph>> graph =
          CudaGraph::Capture(compute().stream(), run);
      if (!graph.ok()) {
        // Other replicas replay their collectives, which do not meet those of a step that is run.
        if (whole && Communicates(execution)) {
          return Annotate(graph.status(), "capturing a step with its collectives");
        }
        // Some call cannot be captured. If it cannot be run either, running it reports the error.
        part.may_repeat = false;
        WarnOnce(graph.status());
        return run();
      }
      part.graph = *std::move(graph);
    }
    return part.graph->Launch(compute().stream());
  }

  // Makes the whole step one graph if possible. Else each stretch of repeating work on the compute
  // lane is one, and the instructions between them, in which the host, other devices or other lanes
  // take part, stay outside: a graph cannot wait for events from outside.
  static std::unique_ptr<Recording> Divide(const Execution& execution) {
    constexpr int kMinInstructions = 2;  // in a graph
    auto recording = std::make_unique<StepRecording>();
    bool whole = true;
    int begin = 0;
    const auto end_part = [&](int end, bool may_repeat) {
      if (begin < end) {
        recording->parts.push_back({begin, end, may_repeat && end - begin >= kMinInstructions});
      }
      begin = end;
    };
    for (int i = 0; i < execution.count; ++i) {
      const Repetition repetition = execution.repetition_of(i);
      whole = whole && repetition != Repetition::kNone;
      if (repetition == Repetition::kWork && execution.lane_of(i) == LaneKind::kCompute) continue;
      end_part(i, /*may_repeat=*/true);
      end_part(i + 1, /*may_repeat=*/false);
    }
    end_part(execution.count, /*may_repeat=*/true);
    if (whole) {
      recording->parts.clear();
      recording->parts.push_back({0, execution.count, /*may_repeat=*/true});
      recording->whole = true;
    }
    return recording;
  }

  static bool Communicates(const Execution& execution) {
    for (int i = 0; i < execution.count; ++i) {
      if (execution.lane_of(i) == LaneKind::kCommunicate) return true;
    }
    return false;
  }

  // Says once that steps are slower than they could be.
  void WarnOnce(const absl::Status& status) {
    if (std::exchange(warned_, true)) return;
    std::fprintf(stderr, "mirrorflow: %s: work runs without a CUDA graph, because of %s\n",
                 name_.c_str(), status.ToString().c_str());
  }

  // Copies the DataFailure to the host after all kernels, which run on the compute lane.
  absl::Status AskForFailure() {
    MF_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(host_failure_, failure_.get(), sizeof(DataFailure),
                                            cudaMemcpyDeviceToHost, compute().stream()));
    return absl::OkStatus();
  }
  absl::Status TakeFailure() {
    MF_RETURN_IF_CUDA_ERROR(
        cudaMemsetAsync(failure_.get(), 0, sizeof host_failure_->what, compute().stream()));
    return absl::InvalidArgumentError(
        absl::StrCat(*host_failure_->what, " ", host_failure_->value, ", on ", name_));
  }
  absl::Status Select() const {
    if (*lost_) {
      return absl::UnavailableError(
          absl::StrCat(name_, ": an earlier step did not finish in time"));
    }
    MF_RETURN_IF_CUDA_ERROR(cudaSetDevice(ordinal_));
    return absl::OkStatus();
  }
  StreamLane& compute() { return lanes_[static_cast<int>(LaneKind::kCompute)]; }

  const std::string name_;
  const int ordinal_;
  const GpuOptions options_;
  DeviceTraits traits_;
  // Whether a step was abandoned that may still run. Freeing its memory would wait for it.
  const std::shared_ptr<std::atomic<bool>> lost_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<Event> events_;
  std::array<StreamLane, kNumLanes> lanes_;
  std::shared_ptr<std::byte> failure_;   // the DataFailure of the lanes
  DataFailure* host_failure_ = nullptr;  // its value after the last step
  uint64_t writes_ = 0;                  // host_failure_->writes after the last step
  Staging staging_, ahead_staging_;
  StreamLane ahead_;  // for CopyAhead
  bool warned_ = false;
  bool clears_ = false;  // whether ahead_ must wait for the compute lane to clear new memory
};

}  // namespace

int64_t AllocatedCudaBytes() { return allocated_bytes.load(); }

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int index, int ordinal,
                                                         const GpuOptions& options) {
  int num_gpus = 0;
  MF_RETURN_IF_CUDA_ERROR(cudaGetDeviceCount(&num_gpus));
  if (ordinal < 0 || ordinal >= num_gpus) {
    return absl::NotFoundError(absl::StrCat(kGpu, ":", index, ": expected a GPU from 0 to ",
                                            num_gpus - 1, ", got ", ordinal));
  }
  auto device = std::make_unique<CudaDevice>(index, ordinal, options);
  MF_RETURN_IF_ERROR(Annotate(device->Open(), device->name()));
  return device;
}

}  // namespace mirrorflow
