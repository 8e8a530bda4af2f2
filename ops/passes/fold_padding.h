// SPDX-License-Identifier: Apache-2.0
//
// FoldPadding: folds a Pad with zeros into the convolution that reads it. Models written for
// symmetric padding use a separate Pad op, which copies all images. A Pad is also folded into a
// MaxPool if the images have no negative pixels: its zeros then never exceed a pixel, so the result
// is the same as with MaxPool's own padding, which is never the maximum.
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
