// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fold_padding.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "ops/conv2d.h"
#include "ops/depthwise_conv2d.h"
#include "ops/registry.h"
#include "ops/slice.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

// Returns the paddings of a convolution that also pads its images as the Pad before it does;
// nullopt if there is no such Pad, or if it does not pad height and width alone.
std::optional<std::vector<int64_t>> PaddingsOf(const Compilation& c, const Node& convolution) {
  if (convolution.op().name != ops::kConv2D &&
      convolution.op().name != ops::kDepthwiseConv2dNative) {
    return std::nullopt;
  }
  const Node& pad = *convolution.input(0).node;
  if (pad.op().name != ops::kPad || !c.IsUsedOnce(convolution.input(0))) return std::nullopt;
  const absl::StatusOr<WindowAttrs> window = ReadWindowAttrs(convolution);
  const Tensor& added = c.values().at(pad.input(1)).constant;
  if (!window.ok() || window->same_padding || !added.has_value() ||
      c.values().shape(convolution.input(1)).rank() != 4) {
    return std::nullopt;
  }
  absl::StatusOr<std::vector<int64_t>> paddings = IntegersOf(added);
  if (!paddings.ok() || paddings->size() != 8) return std::nullopt;
  for (int i = 0; i < 2; ++i) {
    const int d = window->layout.space[i];
    (*paddings)[2 * d] += window->dims[i].before;
    (*paddings)[2 * d + 1] += window->dims[i].after;
    // Some libraries do not support windows that lie entirely in the padding.
    const int64_t size = c.values().shape(convolution.input(1)).dim(i);
    if (std::max((*paddings)[2 * d], (*paddings)[2 * d + 1]) >= size ||
        c.values().shape(pad.input(0)).dim(d) == 0) {
      return std::nullopt;
    }
  }
  for (const int d : {0, window->layout.channels}) {
    if ((*paddings)[2 * d] != 0 || (*paddings)[2 * d + 1] != 0) return std::nullopt;
  }
  return *std::move(paddings);
}

absl::Status Fold(Compilation& c, Node* convolution, const std::vector<int64_t>& paddings) {
  const Node& pad = *convolution->input(0).node;
  NodeBuilder build = c.scope()
                          .WithControlInputsOf(*convolution)
                          .WithControlInputsOf(pad)
                          .WithName(convolution->name())
                          .Build(AllOps(), convolution->op().name);
  build.Input(pad.input(0)).Input(convolution->input(1));
  for (const auto& [name, value] : convolution->attrs()) {
    if (name != "padding" && name != "explicit_paddings") build.Attr(name, value);
  }
  build.Attr("padding", "EXPLICIT").Attr("explicit_paddings", AttrValue::List<int64_t>(paddings));
  const Output padded = std::move(build).One();
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceNode(convolution, padded);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> FoldPadding::Run(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    const std::optional<std::vector<int64_t>> paddings = PaddingsOf(c, *node);
    if (!paddings.has_value()) continue;
    MF_RETURN_IF_ERROR(Fold(c, node, *paddings));
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
