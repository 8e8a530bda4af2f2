// SPDX-License-Identifier: Apache-2.0
//
// Compiles CUDA C++ with NVRTC into code that the GPUs of this machine can run. Code is cached by
// its text: in this process as long as it is in use, and in a folder of files for later processes.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_COMPILE_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_COMPILE_H_

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

// Compiles and loads `source`, which may include the files of kernels/cuda/code. Internal, with the
// first lines of the compiler's log, if it does not compile. Files are kept in
// $MIRRORFLOW_KERNEL_CACHE, else in $XDG_CACHE_HOME/mirrorflow/kernels, else in
// ~/.cache/mirrorflow/kernels; with `none`, or a folder that is not writable or that other users
// can write, no files are kept. Safe from any thread.
absl::StatusOr<std::shared_ptr<const CudaLibrary>> CompileCuda(const std::string& source);

// Compiles only, for `arch`: `sm_90`, or `compute_90` for code that the driver compiles further.
// Needs no GPU.
absl::StatusOr<std::string> CompileCudaFor(const std::string& source, const std::string& arch);

// The number of compilations in this process. Code that was found in a cache does not count.
int64_t NumCudaCompilations();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_COMPILE_H_
