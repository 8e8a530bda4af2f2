// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_event.h"
#include "kernels/cuda/device/cuda_graph.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/device/pinned_memory.h"

namespace mirrorflow {
namespace {

// Not tuned by measurement; PyTorch's DistributedDataParallel uses 25 MiB.
constexpr int64_t kBucketBytes = int64_t{16} << 20;

// The report that the host receives after each step: the DataFailure, followed by the fetches
// that fit after it.
constexpr size_t kReportBytes = 4096;
constexpr size_t kFetchAlignment = 16;

std::atomic<int64_t> allocated_bytes{0};

struct AtomicActivity {
  std::atomic<int64_t> copies_in{0}, copies_out{0}, graph_launches{0}, waits{0};
};
AtomicActivity activity;

void Count(std::atomic<int64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

// Returns the allocator that uses cudaMalloc.
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

class StreamLane final : public CudaLane {
 public:
  ~StreamLane() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  void set_failure(DataFailure* failure) { failure_ = failure; }
  void set_reads(StagedReads* reads) { reads_ = reads; }
  // The GPU schedules the blocks of an urgent lane first. Other GPUs wait for collectives, so these
  // should run alongside the kernels of a large step instead of after them.
  absl::Status Make(const std::vector<CudaEvent>* events, bool urgent) {
    events_ = events;
    int least = 0, greatest = 0;
    MF_RETURN_IF_CUDA_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    MF_RETURN_IF_CUDA_ERROR(
        cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least));
    return end_.Make();
  }

  absl::Status Wait(EventId id) override { return (*events_)[id].MakeWait(stream_); }
  absl::Status Record(EventId id) override { return (*events_)[id].Record(stream_); }
  absl::Status Copy(const std::byte* from, std::byte* to, size_t bytes) override {
    return MF_CUDA_STATUS(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
  }
  absl::Status Read(const std::byte* from, std::byte* host, size_t bytes,
                    MonotonicTime deadline) override {
    return reads_->Read(stream_, from, host, bytes, deadline);
  }
  absl::Status Finish(MonotonicTime deadline) override {
    MF_RETURN_IF_ERROR(end_.Record(stream_));
    return end_.WaitUntil(deadline);
  }

  // Makes later work on `other` wait for all work enqueued on this lane so far.
  absl::Status MakeWait(const StreamLane& other) const {
    MF_RETURN_IF_ERROR(end_.Record(stream_));
    return end_.MakeWait(other.stream_);
  }

 private:
  const std::vector<CudaEvent>* events_ = nullptr;  // owned by the device
  StagedReads* reads_ = nullptr;                    // owned by the device
  CudaEvent end_;
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
    Synchronize(MonotonicTime::Now() + kCopyTimeout).IgnoreError();
    if (*lost_) {
      staging_.Leak();
      reads_.Leak();
      host_report_.Release();
    }
  }

  absl::Status Open() {
    MF_RETURN_IF_ERROR(Select());
    for (int kind = 0; kind < kNumLanes; ++kind) {
      const bool urgent = static_cast<LaneKind>(kind) == LaneKind::kCommunicate;
      MF_RETURN_IF_ERROR(lanes_[kind].Make(&events_, urgent));
    }
    MF_RETURN_IF_ERROR(ahead_.Make(&events_, /*urgent=*/false));
    for (CudaEvent* event : {&sent_, &taken_, &ends_[0], &ends_[1]}) {
      MF_RETURN_IF_ERROR(event->Make());
    }
    MF_ASSIGN_OR_RETURN(report_, Allocate(kReportBytes));
    MF_RETURN_IF_ERROR(host_report_.Make(kReportBytes));
    std::memset(host_report_.get(), 0, kReportBytes);
    MF_RETURN_IF_ERROR(reads_.Make());
    for (StreamLane& lane : lanes_) {
      lane.set_failure(reinterpret_cast<DataFailure*>(report_.get()));
      lane.set_reads(&reads_);
    }
    return staging_.Make(compute().stream());
  }

  absl::string_view name() const override { return name_; }
  const DeviceTraits& traits() const override { return traits_; }
  absl::Status MakeCurrent() override { return Select(); }

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    return Allocate(CudaMemory(), bytes);
  }
  absl::StatusOr<std::shared_ptr<std::byte>> AllocateForCollectives(size_t bytes) override {
    const CollectiveMemory* const memory = options_.collective_memory;
    return Allocate(memory != nullptr ? *memory : CudaMemory(), bytes);
  }
  absl::StatusOr<std::shared_ptr<std::byte>> AllocateOnHost(size_t bytes) override {
    MF_RETURN_IF_ERROR(Select());
    PinnedMemory memory;
    MF_RETURN_IF_ERROR(memory.Make(bytes));
    auto free_it = [ordinal = ordinal_, lost = lost_](std::byte* freed) {
      if (*lost) return;
      cudaSetDevice(ordinal);
      cudaFreeHost(freed);
    };
    return std::shared_ptr<std::byte>(memory.Release(), free_it);
  }

  // Does not wait for earlier uses of `device`: they are already enqueued, or belong to a step that
  // has ended.
  absl::Status CopyIn(const std::byte* host, std::byte* device, size_t bytes) override {
    MF_RETURN_IF_ERROR(Select());
    return staging_.Copy(host, device, bytes);
  }
  // Copies on a separate stream, after the current step has read its own input.
  absl::Status Send(const StepInput& input) override {
    MF_RETURN_IF_ERROR(Select());
    if (std::exchange(clears_, false)) MF_RETURN_IF_ERROR(compute().MakeWait(ahead_));
    MF_RETURN_IF_ERROR(taken_.MakeWait(ahead_.stream()));
    MF_RETURN_IF_ERROR(CopyInput(input, ahead_));
    MF_RETURN_IF_ERROR(sent_.Record(ahead_.stream()));
    sending_ = true;
    return absl::OkStatus();
  }
  absl::Status Synchronize(MonotonicTime deadline) override {
    MF_RETURN_IF_ERROR(Select());
    if (sending_) MF_RETURN_IF_ERROR(Watch(sent_.WaitUntil(deadline)));
    return WaitForRunningStep(deadline);
  }
  absl::Status CopyOut(const std::byte* device, std::byte* host, size_t bytes) override {
    MF_RETURN_IF_ERROR(Select());
    if (bytes == 0) return absl::OkStatus();
    return compute().Read(device, host, bytes, MonotonicTime::Now() + kCopyTimeout);
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
    if (!execution.may_outlive) MF_RETURN_IF_ERROR(WaitForRunningStep(execution.deadline));
    absl::Status status = EnqueueStep(execution);
    end_ = 1 - end_;
    if (status.ok()) status = ends_[end_].Record(compute().stream());
    // Wait for the previous step, because at most one step may still run when this function
    // returns.
    if (status.ok() && running_) {
      Count(activity.waits);
      status = Watch(ends_[1 - end_].WaitUntil(execution.deadline));
    }
    if (status.ok()) execution.meanwhile();
    running_ = status.ok() && execution.may_outlive;
    if (running_) {
      if (execution.outcome != nullptr) *execution.outcome = {.completed = true, .wrote = true};
      return absl::OkStatus();
    }
    if (status.ok()) {
      Count(activity.waits);
      status = Watch(ends_[end_].WaitUntil(execution.deadline));
    }
    if (!status.ok()) {
      // Wait even after an error: memory that kernels still use must not be reused.
      for (StreamLane& lane : lanes_) Watch(lane.Finish(execution.deadline)).IgnoreError();
      return status;
    }
    if (execution.outcome != nullptr) {
      *execution.outcome = {.completed = true, .wrote = failure().writes != writes_};
    }
    writes_ = failure().writes;
    if (failure().what != nullptr) return TakeFailure();
    ForEachFetch(execution.fetches, [&](const StepFetch& fetch, size_t offset) {
      if (offset != 0) std::memcpy(fetch.host, host_report_.get() + offset, fetch.bytes);
      return absl::OkStatus();
    }).IgnoreError();
    return absl::OkStatus();
  }

 private:
  // A recorded step: graphs, and the instructions between the graphs.
  class StepRecording final : public Recording {
   public:
    struct Part {
      int begin, end;   // range of instructions
      bool may_repeat;  // whether it becomes a graph when captured
      std::unique_ptr<CudaGraph> graph = nullptr;
    };
    std::vector<Part> parts;
    bool whole = false;  // whether the only part is the whole step, on all lanes
  };

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(const CollectiveMemory& of, size_t bytes) {
    MF_RETURN_IF_ERROR(Select());
    const absl::StatusOr<void*> memory = of.Allocate(std::max<size_t>(bytes, 1));
    if (!memory.ok()) {
      size_t free = 0, all = 0;
      if (cudaMemGetInfo(&free, &all) != cudaSuccess) return memory.status();
      return Annotate(
          memory.status(),
          absl::StrCat("expected ", bytes, " bytes of GPU memory, got ", free, " free of ", all));
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

  absl::Status RunAll(const Execution& execution, bool captured) {
    MF_RETURN_IF_ERROR(BeginStep(execution, captured));
    MF_RETURN_IF_ERROR(Run(execution, 0, execution.count));
    return EndStep(execution);
  }

  absl::Status CopyInput(const StepInput& input, const StreamLane& lane) {
    Count(activity.copies_in);
    return MF_CUDA_STATUS(cudaMemcpyAsync(input.ahead, input.host, input.bytes,
                                          cudaMemcpyHostToDevice, lane.stream()));
  }
  // Waits for the step that is still running, if any, and reads its report.
  absl::Status WaitForRunningStep(MonotonicTime deadline) {
    if (!std::exchange(running_, false)) return absl::OkStatus();
    Count(activity.waits);
    MF_RETURN_IF_ERROR(Watch(ends_[end_].WaitUntil(deadline)));
    writes_ = failure().writes;
    return absl::OkStatus();
  }
  // Copies the input to where BeginStep reads it, unless it has already been sent.
  absl::Status BringInput(const StepInput& input) {
    // The stream waits even if a different input was sent: that input must not overwrite this one.
    if (std::exchange(sending_, false)) MF_RETURN_IF_ERROR(sent_.MakeWait(compute().stream()));
    return input.bytes == 0 || input.sent ? absl::OkStatus() : CopyInput(input, compute());
  }
  absl::Status BeginStep(const Execution& execution, bool captured) {
    if (const StepInput& input = execution.input; input.bytes > 0) {
      MF_RETURN_IF_ERROR(compute().Copy(input.ahead, input.device, input.bytes));
      MF_RETURN_IF_ERROR(captured ? taken_.RecordFromGraph(compute().stream())
                                  : taken_.Record(compute().stream()));
    }
    for (StreamLane& lane : lanes_) {
      if (&lane != &compute()) MF_RETURN_IF_ERROR(compute().MakeWait(lane));
    }
    return absl::OkStatus();
  }
  // Copies the report, including the fetches that fit in it, and each remaining fetch to the host.
  absl::Status EndStep(const Execution& execution) {
    for (StreamLane& lane : lanes_) {
      if (&lane != &compute()) MF_RETURN_IF_ERROR(lane.MakeWait(compute()));
    }
    size_t used = sizeof(DataFailure);
    MF_RETURN_IF_ERROR(
        ForEachFetch(execution.fetches, [&](const StepFetch& fetch, size_t offset) -> absl::Status {
          if (offset == 0) return CopyToHost(fetch.device, fetch.host, fetch.bytes);
          used = offset + fetch.bytes;
          return compute().Copy(fetch.device, report_.get() + offset, fetch.bytes);
        }));
    return CopyToHost(report_.get(), host_report_.get(), used);
  }
  absl::Status CopyToHost(const std::byte* device, std::byte* host, size_t bytes) {
    return MF_CUDA_STATUS(
        cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, compute().stream()));
  }
  // Calls visit(fetch, offset) for each non-empty fetch, with its offset in the report, or 0 if it
  // does not fit.
  template <typename Visit>
  static absl::Status ForEachFetch(absl::Span<const StepFetch> fetches, Visit visit) {
    size_t used = sizeof(DataFailure);
    for (const StepFetch& fetch : fetches) {
      if (fetch.bytes == 0) continue;
      const size_t offset = (used + kFetchAlignment - 1) / kFetchAlignment * kFetchAlignment;
      const bool fits = fetch.bytes <= kReportBytes - std::min(offset, kReportBytes);
      if (fits) used = offset + fetch.bytes;
      MF_RETURN_IF_ERROR(visit(fetch, fits ? offset : 0));
    }
    return absl::OkStatus();
  }

  // The first run executes instruction by instruction, because it loads kernels, creates library
  // handles and connects communicators. The second run captures the parts that repeat.
  absl::Status EnqueueStep(const Execution& execution) {
    MF_RETURN_IF_ERROR(BringInput(execution.input));
    CountFetches(execution.fetches);
    const bool records = options_.capture_steps && execution.recording != nullptr;
    if (!records || *execution.recording == nullptr) {
      if (records) *execution.recording = Divide(execution);
      return RunAll(execution, /*captured=*/false);
    }
    auto& recording = static_cast<StepRecording&>(**execution.recording);
    if (!recording.whole) MF_RETURN_IF_ERROR(BeginStep(execution, /*captured=*/false));
    for (StepRecording::Part& part : recording.parts) {
      MF_RETURN_IF_ERROR(EnqueuePart(execution, recording.whole, part));
    }
    return recording.whole ? absl::OkStatus() : EndStep(execution);
  }
  static void CountFetches(absl::Span<const StepFetch> fetches) {
    Count(activity.copies_out);  // the report
    ForEachFetch(fetches, [](const StepFetch&, size_t offset) {
      if (offset == 0) Count(activity.copies_out);
      return absl::OkStatus();
    }).IgnoreError();
  }

  absl::Status EnqueuePart(const Execution& execution, bool whole, StepRecording::Part& part) {
    const auto run = [&](bool captured) {
      return whole ? RunAll(execution, captured) : Run(execution, part.begin, part.end);
    };
    if (!part.may_repeat) return run(/*captured=*/false);
    if (part.graph == nullptr) {
      absl::StatusOr<std::unique_ptr<CudaGraph>> graph =
          CudaGraph::Capture(compute().stream(), [&] { return run(/*captured=*/true); });
      if (!graph.ok()) {
        // Other replicas replay their collectives, and these would not match the collectives of a
        // step that runs without a graph.
        if (whole && Communicates(execution)) {
          return Annotate(graph.status(), "capturing a step with its collectives");
        }
        // Some call cannot be captured. If it cannot run either, running it reports the error.
        part.may_repeat = false;
        WarnOnce(graph.status());
        return run(/*captured=*/false);
      }
      part.graph = *std::move(graph);
    }
    Count(activity.graph_launches);
    return part.graph->Launch(compute().stream());
  }

  // Makes the whole step one graph if possible. Otherwise each stretch of repeating work on the
  // compute lane becomes a graph. Instructions that involve the host, other devices or other lanes
  // stay outside, because a graph cannot wait for events from outside it.
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

  // Logs one warning that steps run slower than they could.
  void WarnOnce(const absl::Status& status) {
    if (std::exchange(warned_, true)) return;
    LogWarning(absl::StrCat(
        name_, ": part of a step runs without a CUDA graph, because it cannot be captured: ",
        status.ToString()));
  }

  const DataFailure& failure() const {
    return *reinterpret_cast<const DataFailure*>(host_report_.get());
  }
  absl::Status TakeFailure() {
    MF_RETURN_IF_CUDA_ERROR(
        cudaMemsetAsync(report_.get(), 0, sizeof(void*), compute().stream()));  // its `what`
    return absl::InvalidArgumentError(
        absl::StrCat(*failure().what, " ", failure().value, ", on ", name_));
  }
  // Returns the result of a wait, with the name of the device. After a missed deadline, the device
  // can no longer be used.
  absl::Status Watch(const absl::Status& waited) {
    if (absl::IsDeadlineExceeded(waited)) *lost_ = true;
    return Annotate(waited, name_);
  }
  absl::Status Select() const {
    if (*lost_) {
      return absl::UnavailableError(absl::StrCat(
          name_,
          ": the device can no longer be used, because an earlier step did not finish in time"));
    }
    return MF_CUDA_STATUS(cudaSetDevice(ordinal_));
  }
  StreamLane& compute() { return lanes_[static_cast<int>(LaneKind::kCompute)]; }

  const std::string name_;
  const int ordinal_;
  const GpuOptions options_;
  DeviceTraits traits_;
  // Whether an abandoned step may still be running. Freeing its memory would wait for it.
  const std::shared_ptr<std::atomic<bool>> lost_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<CudaEvent> events_;
  std::array<StreamLane, kNumLanes> lanes_;
  std::shared_ptr<std::byte> report_;  // begins with the DataFailure of the lanes
  PinnedMemory host_report_;           // copy of the last step's report
  uint64_t writes_ = 0;                // failure().writes after the last step
  StagedCopies staging_;
  StagedReads reads_;
  StreamLane ahead_;      // for Send
  CudaEvent sent_;        // recorded when the last sent input has arrived
  bool sending_ = false;  // whether no step has waited for sent_ yet
  CudaEvent taken_;    // recorded when the last step has read its input; then another may be sent
  CudaEvent ends_[2];  // ends of the last two steps
  int end_ = 0;        // index of the last step's end
  bool running_ = false;  // whether the last step may still be running
  bool warned_ = false;
  bool clears_ = false;  // whether ahead_ must wait for the compute lane to clear new memory
};

}  // namespace

int64_t AllocatedCudaBytes() { return allocated_bytes.load(); }

CudaActivity ActivityOfSteps() {
  return {.copies_in = activity.copies_in.load(),
          .copies_out = activity.copies_out.load(),
          .graph_launches = activity.graph_launches.load(),
          .waits = activity.waits.load()};
}

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int index, int ordinal,
                                                         const GpuOptions& options) {
  int num_gpus = 0;
  MF_RETURN_IF_CUDA_ERROR(cudaGetDeviceCount(&num_gpus));
  if (ordinal < 0 || ordinal >= num_gpus) {
    return absl::NotFoundError(absl::StrCat(kGpu, ":", index,
                                            ": no such GPU; expected an ordinal from 0 to ",
                                            num_gpus - 1, ", got ", ordinal));
  }
  auto device = std::make_unique<CudaDevice>(index, ordinal, options);
  MF_RETURN_IF_ERROR(Annotate(device->Open(), device->name()));
  return device;
}

}  // namespace mirrorflow
