// SPDX-License-Identifier: Apache-2.0
//
// Replaces onednn.cc in a build without oneDNN.
#include "kernels/cpu/onednn.h"

namespace mirrorflow {
namespace {

absl::Status NotLinked() { return absl::UnimplementedError("built without oneDNN"); }

}  // namespace

absl::StatusOr<KernelPlan> OneDnnProduct(const ProductGeometry&) { return NotLinked(); }
absl::StatusOr<KernelPlan> OneDnnConvolution(const ConvolutionGeometry&) { return NotLinked(); }
absl::StatusOr<KernelPlan> OneDnnConvolutionBackpropInput(const ConvolutionGeometry&) {
  return NotLinked();
}
absl::StatusOr<KernelPlan> OneDnnConvolutionBackpropFilter(const ConvolutionGeometry&) {
  return NotLinked();
}

bool LimitOneDnn(const std::string&) { return true; }

}  // namespace mirrorflow
