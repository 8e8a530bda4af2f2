// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/program.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/libraries/compile.h"

namespace mirrorflow {

absl::Status CudaFunction::LaunchWith(Lane& lane, const CudaGrid& grid, void** args) const {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return absl::OkStatus();  // nothing to compute
  const dim3 blocks{grid.x, grid.y, grid.z}, threads{grid.threads, grid.threads_y, 1};
  return MF_CUDA_STATUS(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), blocks, threads,
                                         args, /*sharedMem=*/0, StreamOf(lane)));
}

const CudaFunction* CudaProgram::Add(const CudaCode& code) {
  includes_.insert(code.includes.begin(), code.includes.end());
  std::string text = absl::StrCat("(", code.parameters, ") {\n", code.body, "\n}\n");
  std::unique_ptr<CudaFunction>& function = functions_[text];
  if (function == nullptr) {
    function = std::make_unique<CudaFunction>();
    function->name_ = absl::StrCat("k", text_of_.size());
    text_of_[function->name_] = absl::StrCat("extern \"C\" __global__ void __launch_bounds__(",
                                             code.threads, ") ", function->name_, text);
  }
  return function.get();
}

std::string CudaProgram::Source() const {
  std::string source = "#include \"base.cuh\"\n";
  for (const std::string& include : includes_) {
    absl::StrAppend(&source, "#include \"", include, "\"\n");
  }
  for (const auto& [name, text] : text_of_) absl::StrAppend(&source, "\n", text);
  return source;
}

absl::Status CudaProgram::Finish() {
  if (functions_.empty()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(library_, CompileCuda(Source()));
  for (auto& [text, function] : functions_) {
    MF_ASSIGN_OR_RETURN(function->kernel_, library_->Find(function->name_));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
