// SPDX-License-Identifier: Apache-2.0
//
// From CUDA C++ to code that the GPUs of this machine can run, with NVRTC. Code is kept, by its
// text: in this process as long as somebody uses it, and in a folder of files for the next one.
#ifndef MIRRORFLOW_KERNELS_CUDA_COMPILE_H_
#define MIRRORFLOW_KERNELS_CUDA_COMPILE_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace mirrorflow {

// Compiled functions, loaded for every GPU of the process.
class CudaLibrary {
 public:
  explicit CudaLibrary(cudaLibrary_t library) : library_(library) {}
  CudaLibrary(const CudaLibrary&) = delete;
  CudaLibrary& operator=(const CudaLibrary&) = delete;
  ~CudaLibrary();

  absl::StatusOr<cudaKernel_t> Find(const std::string& name) const;

 private:
  const cudaLibrary_t library_;
};

// `source` may include the files of kernels/cuda/code. Internal, with the first lines of what the
// compiler says, if it refuses. Files are kept in $MIRRORFLOW_KERNEL_CACHE, else in
// $XDG_CACHE_HOME/mirrorflow/kernels, else in ~/.cache/mirrorflow/kernels; `none`, or a folder that
// cannot be written to, keeps none. Safe from any thread.
absl::StatusOr<std::shared_ptr<const CudaLibrary>> CompileCuda(const std::string& source);

// The compiler alone: what `arch` (`sm_90`, or `compute_90` for code that the driver finishes)
// runs. Needs no GPU.
absl::StatusOr<std::string> CompileCudaFor(const std::string& source, const std::string& arch);

// How often the compiler has run in this process: what was found in a cache does not count.
int64_t NumCudaCompilations();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_COMPILE_H_
