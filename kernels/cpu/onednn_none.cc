// SPDX-License-Identifier: Apache-2.0
//
// Replaces the other onednn_*.cc in builds without oneDNN.
#include "kernels/cpu/onednn.h"

namespace mirrorflow {
namespace {

absl::Status NotLinked() { return absl::UnimplementedError("built without oneDNN"); }

}  // namespace

absl::StatusOr<KernelPlan> OneDnnProduct(const ProductGeometry&, bool) { return NotLinked(); }
absl::StatusOr<KernelPlan> OneDnnConvolution(ConvolutionPart, const ConvolutionGeometry&,
                                             const ConvolutionGeometry&, bool, const Epilogue&) {
  return NotLinked();
}

bool LimitOneDnn(const std::string&) { return true; }

}  // namespace mirrorflow
