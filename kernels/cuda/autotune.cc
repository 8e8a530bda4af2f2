// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/autotune.h"

#include <algorithm>
#include <limits>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/status.h"
#include "framework/graph/attr_value.h"
#include "framework/runtime/tuning_table.h"
#include "kernels/cuda/cuda_status.h"

namespace mirrorflow {
namespace {

constexpr int kRuns = 5;
constexpr absl::Duration kTimeout = absl::Minutes(1);

// Times work on a stream of its own, between two events.
class Timer {
 public:
  ~Timer() {
    for (cudaEvent_t event : {begin_, end_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  absl::Status Make() {
    MF_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    MF_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&begin_, cudaEventDefault));
    MF_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&end_, cudaEventDefault));
    return absl::OkStatus();
  }
  absl::StatusOr<float> Milliseconds(absl::FunctionRef<absl::Status(cudaStream_t)> run) {
    MF_RETURN_IF_CUDA_ERROR(cudaEventRecord(begin_, stream_));
    MF_RETURN_IF_ERROR(run(stream_));
    MF_RETURN_IF_CUDA_ERROR(cudaEventRecord(end_, stream_));
    const absl::Time deadline = absl::Now() + kTimeout;
    for (cudaError_t state; (state = cudaEventQuery(end_)) != cudaSuccess;) {
      if (state != cudaErrorNotReady) return CudaStatus(state, "cudaEventQuery");
      if (absl::Now() > deadline) {
        return absl::DeadlineExceededError("autotune: the GPU did not finish in time");
      }
      std::this_thread::yield();
    }
    float milliseconds = 0;
    MF_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return milliseconds;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
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

}  // namespace

absl::StatusOr<TrialMemory> AllocateForTrial(size_t bytes) {
  void* memory = nullptr;
  MF_RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, std::max<size_t>(bytes, 1)));
  TrialMemory owned(static_cast<std::byte*>(memory), [](std::byte* freed) { cudaFree(freed); });
  return owned;
}

absl::StatusOr<int> FastestWay(int count, absl::FunctionRef<absl::Status(int, cudaStream_t)> run) {
  Timer timer;
  MF_RETURN_IF_ERROR(timer.Make());
  int fastest = -1;
  float best = 0;
  absl::Status first_failure = absl::InvalidArgumentError("autotune: nothing to choose from");
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

}  // namespace mirrorflow
