// SPDX-License-Identifier: Apache-2.0
//
// A fake of the CUDA runtime that a test links in its place. A stream is a queue with a thread,
// which runs it with random delays; memory is the host's; kernels are those that fake_nvrtc.cc
// makes. It records all enqueued work with the memory that the work reads and writes, so that a
// test can check the order of a whole step and not only its results. It has only the functions that
// kernels/cuda calls, and cannot run code that nvcc compiled.
//
// It is stricter than the real one where that would only be slow: copies from and to host memory
// that is not pinned are errors, and so is code that is first used while a stream is captured. The
// first launch of a kernel on a GPU waits for all work of that GPU, and keeps other threads from
// launching meanwhile; if the work waits for such a thread, the launch fails after a while.
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
  size_t memory_bytes = size_t{1} << 30;  // of each GPU
  uint64_t seed = 1;                      // of the delays
  // Plants a bug: of the calls of cudaStreamWaitEvent for GPU 0, the one with this number, from 0,
  // does nothing.
  int ignored_wait = -1;
  // The first call of the function with this name fails with this error.
  std::string failing_call = {};
  cudaError_t error = cudaErrorUnknown;
  // How long copies from the host take before they read it.
  absl::Duration copy_in_delay = absl::ZeroDuration();
  // Operations with this name never finish.
  std::string stuck_operation = {};
  // The products for which cuBLASLt writes and reads masks of positive elements: all, those with a
  // transposed operand, those without one, or none.
  enum ReluMasks { kAll, kTransposed, kPlain, kNone } relu_masks = kAll;
  // The convolutions for which cuDNN has engines: with a bias and Relu too, or only without. If
  // they are broken, all its plans fail with an internal error.
  enum Convolutions { kFused, kUnfused, kNoConvolutions, kBroken } convolutions = kFused;
  // Whether cuDNN has engines for attention.
  bool attention = true;
};

// Clears the recording and sets the options. Requires that nothing of an earlier test is in use.
void ResetFakeCuda(const FakeCudaOptions& options = {});

// Whether cuBLASLt has masks for products with a transposed operand, or without one.
bool FakeHasReluMasks(bool transposed);
// Whether cuDNN has engines for convolutions, or for those with a bias.
bool FakeHasConvolutions(bool fused);
// Whether cuDNN's plans fail.
bool FakeConvolutionsAreBroken();
// Whether cuDNN has engines for attention.
bool FakeHasAttention();

struct MemoryRange {
  const void* begin;
  size_t bytes;
  bool is_write;
};

// While an object lives, all launches of this thread are recorded with this name and these
// accesses.
class FakeAccesses {
 public:
  FakeAccesses(std::string name, std::vector<MemoryRange> accesses);
  ~FakeAccesses();
};

// Whether the FakeAccesses that lives contains writes of these bytes. True if there is none.
bool FakeMayWrite(const void* begin, size_t bytes);

// Launches a kernel on the fake: runs `work` when its turn in the stream comes.
void LaunchOnFake(cudaStream_t stream, const std::string& name,
                  const std::vector<MemoryRange>& accesses, std::function<void()> work);

// The same, with the name and the accesses of the FakeAccesses that lives; with `name` and no
// accesses if there is none.
void LaunchWatchedOnFake(cudaStream_t stream, const std::string& name, std::function<void()> work);

// Called by each compilation of the fake NVRTC, on its thread; null for none.
void SetFakeNvrtcHook(std::function<void()> hook);

// The numbers of enqueued operations, of waits on GPU 0, and of launched graphs since the last
// ResetFakeCuda.
int NumRecordedOperations();
int NumRecordedWaits();
int NumGraphLaunches();

// The same of copies from and to the host, also those of graphs, and of the events that the host
// has asked for whether their work is done: each counts once for each record.
struct FakeHostTraffic {
  int copies_in = 0, copies_out = 0, waits = 0;
};
FakeHostTraffic HostTraffic();

// The names of the operations that were enqueued on this GPU since the last ResetFakeCuda.
std::vector<std::string> OperationsOf(int gpu);

// OK if any two operations that touch the same bytes, one of them writing, were ordered by a
// stream, by events or by a wait of the host. Else an error that names the first two that were not.
absl::Status CheckRecordedOrder();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_CUDA_FAKE_CUDA_H_
