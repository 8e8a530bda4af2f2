// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fold_padding.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "ops/activation.h"
#include "ops/conv2d.h"
#include "ops/depthwise_conv2d.h"
#include "ops/max_pool.h"
#include "ops/registry.h"
#include "ops/slice.h"
#include "ops/unary.h"
#include "ops/window.h"

namespace mirrorflow {
namespace {

bool HasNoNegatives(const Output& value) {
  const std::string& op = value.node->op().name;
  return op == ops::kRelu || op == ops::kRelu6 || op == ops::kSigmoid;
}

// Returns the window of a convolution or pool as a shape whose first two dimensions are its height
// and width. The rank is not 4 if the node cannot apply the padding of `pad` itself.
Shape WindowOver(const Compilation& c, const Node& node, const Node& pad) {
  const std::string& op = node.op().name;
  if (op == ops::kConv2D || op == ops::kDepthwiseConv2dNative) {
    return c.values().shape(node.input(1));
  }
  if (op != ops::kMaxPool || !HasNoNegatives(pad.input(0))) return Shape();
  const std::vector<int64_t> size = node.int_list("ksize");
  const absl::StatusOr<ImageLayout> layout = ReadImageLayout(node);
  if (size.size() != 4 || !layout.ok()) return Shape();
  return Shape({size[layout->space[0]], size[layout->space[1]], 1, 1});
}

// Returns the paddings with which a convolution or pool also does the work of the Pad before it.
// Returns nullopt if there is no such Pad, or if it pads anything but height and width.
std::optional<std::vector<int64_t>> PaddingsOf(const Compilation& c, const Node& node) {
  if (node.num_inputs() == 0) return std::nullopt;
  const Node& pad = *node.input(0).node;
  if (pad.op().name != ops::kPad || !c.IsUsedOnce(node.input(0))) return std::nullopt;
  const Shape window_shape = WindowOver(c, node, pad);
  if (window_shape.rank() != 4) return std::nullopt;
  const absl::StatusOr<WindowAttrs> window = ReadWindowAttrs(node);
  const Tensor& added = c.values().at(pad.input(1)).constant;
  if (!window.ok() || window->same_padding || !added.has_value()) return std::nullopt;
  absl::StatusOr<std::vector<int64_t>> paddings = IntegersOf(added);
  if (!paddings.ok() || paddings->size() != 8) return std::nullopt;
  for (int i = 0; i < 2; ++i) {
    const int d = window->layout.space[i];
    (*paddings)[2 * d] += window->dims[i].before;
    (*paddings)[2 * d + 1] += window->dims[i].after;
    // Some libraries do not support windows that lie entirely in the padding.
    const int64_t size = window_shape.dim(i);
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

absl::Status Fold(Compilation& c, Node* node, const std::vector<int64_t>& paddings) {
  const Node& pad = *node->input(0).node;
  NodeBuilder build = c.scope()
                          .WithControlInputsOf(*node)
                          .WithControlInputsOf(pad)
                          .WithName(node->name())
                          .Build(AllOps(), node->op().name);
  build.Input(pad.input(0));
  for (int i = 1; i < node->num_inputs(); ++i) build.Input(node->input(i));
  for (const auto& [name, value] : node->attrs()) {
    if (name != "padding" && name != "explicit_paddings") build.Attr(name, value);
  }
  build.Attr("padding", "EXPLICIT").Attr("explicit_paddings", AttrValue::List<int64_t>(paddings));
  const Output padded = std::move(build).One();
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceNode(node, padded);
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
