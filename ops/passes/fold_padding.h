// SPDX-License-Identifier: Apache-2.0
//
// FoldPadding: makes a convolution pad its images itself. Models that were written for symmetric
// padding pad with zeros in a separate op, which copies all images. A MaxPool of images without
// negative pixels also pads them itself: its own padding never is the largest value, and neither is
// a zero, unless all pixels are zeros.
#ifndef MIRRORFLOW_OPS_PASSES_FOLD_PADDING_H_
#define MIRRORFLOW_OPS_PASSES_FOLD_PADDING_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class FoldPadding final : public Pass {
 public:
  absl::string_view name() const override { return "fold_padding"; }
  Facts needs() const override { return kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_FOLD_PADDING_H_
