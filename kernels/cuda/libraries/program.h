// SPDX-License-Identifier: Apache-2.0
//
// CudaProgram holds the hand-written kernels of one plan as one translation unit. NVRTC compiles it
// when the plan is made, with the plan's shapes as constants. Kernel factories add functions to it;
// shared code is in kernels/cuda/code.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_PROGRAM_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_PROGRAM_H_

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/graph/graph.h"
#include "framework/runtime/device.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

class CudaLibrary;

// A `__global__` function without its name.
struct CudaCode {
  std::string parameters;  // `const float* x, float* y`
  std::string body;        // `ForEach<100>([&](auto i) { … });`
  // The files of kernels/cuda/code that the body needs, besides base.cuh, such as `"math.cuh"`.
  std::vector<std::string> includes = {};
  int threads = 256;  // maximum per block
};

// The number of blocks and of threads per block.
struct CudaGrid {
  unsigned int x = 1, y = 1, z = 1;
  unsigned int threads = 256;
  unsigned int threads_y = 1;
};

// A function of the program. It can be launched once the program is finished.
class CudaFunction {
 public:
  // The arguments must have the types of the function's parameters, in the same order.
  template <typename... Args>
  absl::Status Launch(Lane& lane, const CudaGrid& grid, Args... args) const {
    void* addresses[] = {&args...};
    return LaunchWith(lane, grid, addresses);
  }
  // Like Launch(), with the addresses of the arguments.
  absl::Status LaunchWith(Lane& lane, const CudaGrid& grid, void** args) const;

 private:
  friend class CudaProgram;

  std::string name_;
  cudaKernel_t kernel_ = nullptr;
};

class CudaProgram final : public KernelLibrary {
 public:
  // Adds a function, which remains valid until the program is destroyed. If the same code has
  // already been added, returns the existing function.
  const CudaFunction* Add(const CudaCode& code);
  // Compiles the functions, or reuses the code that an earlier plan, in this process or another
  // one, compiled from the same text for the same GPUs. Returns Internal, with the compiler's log,
  // if the code does not compile.
  absl::Status Finish() override;

  // Records that the kernel of this _FusedMatMulRelu node writes its mask, in cuBLASLt's bit order.
  // The masks of all other nodes, including those that have no kernel yet, must not be read.
  void AddMaskWriter(const Node& node) { mask_writers_.insert(&node); }
  bool WritesMask(const Node& node) const { return mask_writers_.contains(&node); }

  // Returns the source code of the functions that have been added so far.
  std::string Source() const;

 private:
  std::map<std::string, std::unique_ptr<CudaFunction>> functions_;  // by text
  std::map<std::string, std::string> text_of_;                      // by name
  std::set<std::string> includes_;
  std::set<const Node*> mask_writers_;
  std::shared_ptr<const CudaLibrary> library_;
};

// Returns the program of the context's plan.
inline CudaProgram& ProgramOf(const KernelContext& c) {
  return static_cast<CudaProgram&>(*c.library());
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_PROGRAM_H_
