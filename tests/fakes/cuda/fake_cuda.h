// SPDX-License-Identifier: Apache-2.0
//
// A fake of the CUDA runtime that a test links in its place. Each stream is a queue, which a thread
// runs with random delays. Device memory is host memory, and fake_nvrtc.cc compiles the kernels.
// The fake records all enqueued work with the memory that the work reads and writes, so a test can
// check the order of a whole step and not only its results. It has only the functions that
// kernels/cuda calls, and cannot run code that nvcc compiled.
//
// Some cases where the real runtime is merely slow are errors here: copies from and to host memory
// that is not pinned, and the first use of code while a stream is captured. The first launch of a
// kernel on a GPU waits for all work on that GPU, and blocks launches by other threads until then.
// If the work waits for one of these other launches, the first launch times out.
#ifndef MIRRORFLOW_TESTS_FAKES_CUDA_FAKE_CUDA_H_
#define MIRRORFLOW_TESTS_FAKES_CUDA_FAKE_CUDA_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace mirrorflow {

struct FakeCudaOptions {
  int num_gpus = 1;
  size_t memory_bytes = size_t{1} << 30;  // per GPU
  uint64_t seed = 1;                      // of the delays
  // Plants a bug: the cudaStreamWaitEvent call for GPU 0 with this number, counted from 0, does
  // nothing.
  int ignored_wait = -1;
  // The first call to the function with this name fails with this error.
  std::string failing_call = {};
  cudaError_t error = cudaErrorUnknown;
  // How long copies from the host wait before they read host memory.
  absl::Duration copy_in_delay = absl::ZeroDuration();
  // Operations with this name never finish.
  std::string stuck_operation = {};
  // Which matrix products cuBLASLt can combine with writing and reading masks of positive elements:
  // all, those with a transposed operand, those without a transposed operand, or none.
  enum ReluMasks { kAll, kTransposed, kPlain, kNone } relu_masks = kAll;
  // Which convolutions cuDNN has engines for: all, only those without a bias and Relu, or none.
  // With kBroken, all convolution plans fail with an internal error.
  enum Convolutions { kFused, kUnfused, kNoConvolutions, kBroken } convolutions = kFused;
  // Whether cuDNN has engines for attention.
  bool attention = true;
};

// Clears the recording and sets the options. Requires that no object of an earlier test is in use.
void ResetFakeCuda(const FakeCudaOptions& options = {});

// Returns whether cuBLASLt has masks for matrix products with, or without, a transposed operand.
bool FakeHasReluMasks(bool transposed);
// Returns whether cuDNN has engines for convolutions, or for those with a bias.
bool FakeHasConvolutions(bool fused);
// Returns whether cuDNN's plans fail.
bool FakeConvolutionsAreBroken();
// Returns whether cuDNN has engines for attention.
bool FakeHasAttention();

struct MemoryRange {
  const void* begin;
  size_t bytes;
  bool is_write;
};

// During an object's lifetime, all launches by this thread are recorded with this name and these
// accesses.
class FakeAccesses {
 public:
  FakeAccesses(std::string name, std::vector<MemoryRange> accesses);
  ~FakeAccesses();
};

// Returns whether the current FakeAccesses contains writes to these bytes. Returns true if there is
// no current FakeAccesses.
bool FakeMayWrite(const void* begin, size_t bytes);

// Launches a kernel on the fake: runs `work` when it reaches the front of the stream.
void LaunchOnFake(cudaStream_t stream, const std::string& name,
                  const std::vector<MemoryRange>& accesses, std::function<void()> work);

// Like LaunchOnFake, with the name and the accesses of the current FakeAccesses. Without one, uses
// `name` and no accesses.
void LaunchWatchedOnFake(cudaStream_t stream, const std::string& name, std::function<void()> work);

// Sets a function that the fake NVRTC calls in each compilation, on the compiling thread. Null
// removes the function.
void SetFakeNvrtcHook(std::function<void()> hook);

// Return the number of enqueued operations, of waits on GPU 0, and of launched graphs since the
// last ResetFakeCuda.
int NumRecordedOperations();
int NumRecordedWaits();
int NumGraphLaunches();

// The number of copies from and to the host, including those in graphs, and of events whose
// completion the host has queried. An event is counted once per record.
struct FakeHostTraffic {
  int copies_in = 0, copies_out = 0, waits = 0;
};
FakeHostTraffic HostTraffic();

// Returns the names of the operations that were enqueued on this GPU since the last ResetFakeCuda.
std::vector<std::string> OperationsOf(int gpu);

// Returns OK if every two operations that access the same bytes, at least one of them writing, were
// ordered by a stream, by events or by a host wait. Otherwise, returns an error that names the
// first two operations that were not ordered.
absl::Status CheckRecordedOrder();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_CUDA_FAKE_CUDA_H_
