// SPDX-License-Identifier: Apache-2.0
//
// Compiles CUDA C++ with NVRTC into code for the GPUs of this machine. Code is cached by its text:
// in this process while it is in use, and in a folder of files for later processes.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_COMPILE_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_COMPILE_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace mirrorflow {

// Compiled functions, loaded on every GPU of the process.
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

// Compiles and loads `source`, which may include the files of kernels/cuda/code. Returns Internal,
// with the first lines of the compiler's log, if `source` does not compile. Compiled files are
// cached in $MIRRORFLOW_KERNEL_CACHE, otherwise in $XDG_CACHE_HOME/mirrorflow/kernels, otherwise in
// ~/.cache/mirrorflow/kernels. No files are cached if $MIRRORFLOW_KERNEL_CACHE is `none`, if the
// folder is not writable, or if other users can write to it. Safe to call from any thread.
absl::StatusOr<std::shared_ptr<const CudaLibrary>> CompileCuda(const std::string& source);

// Compiles `source` for `arch` without loading it. `arch` is for example `sm_90`, or `compute_90`
// for code that the driver compiles further. Needs no GPU.
absl::StatusOr<std::string> CompileCudaFor(const std::string& source, const std::string& arch);

// Returns the number of compilations in this process, not counting code found in a cache.
int64_t NumCudaCompilations();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_COMPILE_H_
