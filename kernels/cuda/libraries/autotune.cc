// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/autotune.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/graph/attr_value.h"
#include "framework/runtime/tuning_table.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_event.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/libraries/program.h"

namespace mirrorflow {
namespace {

constexpr int kRuns = 5;
constexpr absl::Duration kTimeout = absl::Minutes(1);

// Times work on a separate stream, between two events.
class Timer {
 public:
  ~Timer() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  absl::Status Make() {
    MF_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    MF_RETURN_IF_ERROR(begin_.Make(cudaEventDefault));
    return end_.Make(cudaEventDefault);
  }
  absl::StatusOr<float> Milliseconds(absl::FunctionRef<absl::Status(cudaStream_t)> run) {
    MF_RETURN_IF_ERROR(begin_.Record(stream_));
    MF_RETURN_IF_ERROR(run(stream_));
    MF_RETURN_IF_ERROR(end_.Record(stream_));
    MF_RETURN_IF_ERROR(Annotate(end_.WaitUntil(MonotonicTime::Now() + kTimeout), "autotune"));
    float milliseconds = 0;
    MF_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
    return milliseconds;
  }

 private:
  cudaStream_t stream_ = nullptr;
  CudaEvent begin_, end_;
};

absl::StatusOr<float> BestTime(Timer& timer, absl::FunctionRef<absl::Status(cudaStream_t)> run) {
  MF_RETURN_IF_ERROR(timer.Milliseconds(run).status());
  float best = std::numeric_limits<float>::max();
  for (int i = 0; i < kRuns; ++i) {
    MF_ASSIGN_OR_RETURN(const float time, timer.Milliseconds(run));
    best = std::min(best, time);
  }
  return best;
}

// The context of a kernel that runs only in trials. Its code is added to a separate program,
// because the plan's program can run only after all kernels of the plan have been created.
class TrialContext final : public KernelContext {
 public:
  TrialContext(const KernelContext& c, CudaProgram* program) : c_(c), program_(program) {}

  const Node& node() const override { return c_.node(); }
  const Shape& input_shape(int i) const override { return c_.input_shape(i); }
  const Shape& output_shape(int i) const override { return c_.output_shape(i); }
  const Tensor& constant(int i) const override { return c_.constant(i); }
  const Sharding& output_sharding(int i) const override { return c_.output_sharding(i); }
  const Shape& global_output_shape(int i) const override { return c_.global_output_shape(i); }
  int64_t first_row() const override { return c_.first_row(); }
  const KernelOptions& options() const override { return c_.options(); }
  KernelLibrary* library() const override { return program_; }

 private:
  const KernelContext& c_;
  CudaProgram* const program_;
};

// A lane for trials. No other lane uses its stream.
class TrialLane final : public CudaLane {
 public:
  void set_stream(cudaStream_t stream) { stream_ = stream; }
  absl::Status Wait(EventId) override { return absl::OkStatus(); }
  absl::Status Record(EventId) override { return absl::OkStatus(); }
};

// The operands of a node, in separately allocated memory.
class TrialOperands {
 public:
  absl::Status Allocate(const KernelContext& c, int64_t scratch_bytes) {
    num_inputs_ = c.node().num_inputs();
    num_outputs_ = c.node().num_outputs();
    MF_RETURN_IF_ERROR(Add(sizeof(StepParams)));
    const auto add = [&](DataType dtype, const Shape& shape) {
      return Add(DataTypeSize(dtype) * shape.num_elements());
    };
    for (int i = 0; i < num_inputs_; ++i) {
      MF_RETURN_IF_ERROR(add(c.input_dtype(i), c.input_shape(i)));
    }
    for (int i = 0; i < num_outputs_; ++i) {
      MF_RETURN_IF_ERROR(add(c.output_dtype(i), c.output_shape(i)));
    }
    return Add(scratch_bytes);
  }
  KernelArgs args() const {
    return KernelArgs(bases_.data(), &operands_[1], num_inputs_, num_outputs_);
  }

 private:
  absl::Status Add(size_t bytes) {
    MF_ASSIGN_OR_RETURN(TrialMemory memory, AllocateForTrial(bytes));
    operands_.push_back({.region = static_cast<RegionId>(bases_.size())});
    bases_.push_back(memory.get());
    memory_.push_back(std::move(memory));
    return absl::OkStatus();
  }

  int num_inputs_ = 0, num_outputs_ = 0;
  std::vector<TrialMemory> memory_;
  std::vector<std::byte*> bases_;  // the first is kParamsRegion
  std::vector<Operand> operands_;
};

// Returns the index of the fastest kernel: 0 for the one that `ours` makes, and 1 + i for
// theirs[i].
absl::StatusOr<int> FastestKernel(const KernelContext& c, KernelFactory ours,
                                  const std::vector<KernelPlan>& theirs) {
  CudaProgram program;
  MF_ASSIGN_OR_RETURN(const KernelPlan own, ours(TrialContext(c, &program)));
  MF_RETURN_IF_ERROR(program.Finish());
  std::vector<const KernelPlan*> all = {&own};
  int64_t scratch_bytes = own.scratch_bytes;
  for (const KernelPlan& each : theirs) {
    all.push_back(&each);
    scratch_bytes = std::max(scratch_bytes, each.scratch_bytes);
  }
  TrialOperands operands;
  MF_RETURN_IF_ERROR(operands.Allocate(c, scratch_bytes));
  TrialLane lane;
  return FastestWay(static_cast<int>(all.size()), [&](int i, cudaStream_t stream) {
    lane.set_stream(stream);
    return all[i]->kernel->Run(operands.args(), lane);
  });
}

}  // namespace

absl::StatusOr<TrialMemory> AllocateForTrial(size_t bytes) {
  void* memory = nullptr;
  MF_RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, std::max<size_t>(bytes, 1)));
  TrialMemory owned(static_cast<std::byte*>(memory), [](std::byte* freed) { cudaFree(freed); });
  return owned;
}

absl::StatusOr<int> FastestWay(int count, absl::FunctionRef<absl::Status(int, cudaStream_t)> run) {
  // Take a lock, because sessions make plans on several threads, and concurrent trials would
  // distort each other's measurements.
  static Mutex* const mu = new Mutex();
  MutexLock lock(mu);
  Timer timer;
  MF_RETURN_IF_ERROR(timer.Make());
  int fastest = -1;
  float best = 0;
  absl::Status first_failure = absl::InvalidArgumentError("autotune: no candidates");
  for (int way = 0; way < count; ++way) {
    const absl::StatusOr<float> time =
        BestTime(timer, [&](cudaStream_t stream) { return run(way, stream); });
    if (absl::IsDeadlineExceeded(time.status())) return time.status();
    if (!time.ok()) {
      if (way == 0) first_failure = time.status();
      continue;
    }
    if (fastest < 0 || *time < best) {
      fastest = way;
      best = *time;
    }
  }
  if (fastest < 0) return first_failure;
  return fastest;
}

absl::StatusOr<int> ChooseProposal(const KernelContext& c, absl::string_view library,
                                   int num_proposals,
                                   absl::FunctionRef<absl::StatusOr<int>()> fastest) {
  int ordinal = 0;
  cudaDeviceProp gpu;
  MF_RETURN_IF_CUDA_ERROR(cudaGetDevice(&ordinal));
  MF_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&gpu, ordinal));
  std::string what = absl::StrCat(library, " on ", gpu.name, ": ", c.node().op().name,
                                  AttrMapToString(c.node().attrs()));
  for (int i = 0; i < c.node().num_inputs(); ++i) {
    absl::StrAppend(&what, " ", DataTypeName(c.input_dtype(i)), c.input_shape(i).ToString());
  }
  return c.tuning()->Choose(what, num_proposals, [&]() -> absl::StatusOr<int> {
    absl::StatusOr<int> found = fastest();
    if (absl::IsResourceExhausted(found.status())) return 0;
    return found;
  });
}

absl::StatusOr<KernelPlan> MakeFastestKernel(const KernelContext& c, KernelFactory ours,
                                             absl::string_view library, int max_theirs,
                                             absl::FunctionRef<std::vector<KernelPlan>()> theirs) {
  std::vector<KernelPlan> made;
  MF_ASSIGN_OR_RETURN(const int choice, ChooseProposal(c, library, 1 + max_theirs, [&] {
                        made = theirs();
                        return made.empty() ? absl::StatusOr<int>(0) : FastestKernel(c, ours, made);
                      }));
  if (choice == 0) return ours(c);
  if (made.empty()) made = theirs();
  if (choice > static_cast<int>(made.size())) {
    return absl::UnimplementedError(
        absl::StrCat("autotune: ", library, " has no kernel ", choice, " on this GPU"));
  }
  return std::move(made[choice - 1]);
}

}  // namespace mirrorflow
