// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fold_batch_norm.h"

#include <string>
#include <utility>
#include <vector>

#include "framework/compiler/invariants.h"
#include "framework/core/status.h"
#include "ops/batch_norm.h"
#include "ops/bias_add.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/conv2d.h"
#include "ops/depthwise_conv2d.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

// Folds the nodes after one product or convolution into it.
class Folder {
 public:
  Folder(Compilation& c, const Invariants& invariants, Node* product)
      : c_(c),
        invariants_(invariants),
        product_(product),
        last_(product),
        channels_(LastDim(product->output(0))) {}

  // Returns whether anything can be folded into the product or convolution.
  bool CanFold() const {
    const std::string& op = product_->op().name;
    const bool is_convolution = op == ops::kConv2D || op == ops::kDepthwiseConv2dNative;
    if (!is_convolution && op != ops::kMatMul) return false;
    if (is_convolution && product_->attr<std::string>("data_format") != "NHWC") return false;
    return product_->output_dtype(0) == DT_FLOAT && channels_ > 0 &&
           invariants_.SourceOf(product_->input(1)) != nullptr &&
           IsReplicated(c_.shardings.at(product_->input(1))) &&
           AsPartial(c_.shardings.at(product_->output(0))) == nullptr;
  }

  // Takes the nodes after the product as long as they scale or shift its channels. Returns whether
  // the product should be replaced: a single bias is left to FuseEpilogues.
  bool Take() {
    while (c_.IsUsedOnce(last_->output(0)) && TakeNext(last_->uses()[0])) {
    }
    return scale_.valid() || num_offsets_ > 1 ||
           (num_offsets_ == 1 && last_->op().name != ops::kBiasAdd);
  }

  absl::Status Replace() {
    Scope scope = c_.scope();
    for (const Node* node : taken_) scope = scope.WithControlInputsOf(*node);
    const Output filter = product_->input(1);
    NodeBuilder build = scope.WithControlInputsOf(*product_)
                            .WithName(product_->name())
                            .Build(AllOps(), product_->op().name);
    build.Input(product_->input(0))
        .Input(scale_.valid() ? Replicated(ops::Mul(Named(), filter, ScaleOfFilter())) : filter);
    for (const auto& [name, value] : product_->attrs()) build.Attr(name, value);
    Output value = std::move(build).One();
    MF_RETURN_IF_ERROR(c_.graph.status());
    c_.shardings.Set(value, c_.shardings.at(product_->output(0)));
    if (offset_.valid()) {
      value = ops::BiasAdd(c_.scope().WithName(last_->name()), value, offset_);
      MF_RETURN_IF_ERROR(c_.graph.status());
      c_.shardings.Set(value, c_.shardings.at(last_->output(0)));
    }
    c_.ReplaceValue(last_->output(0), value);
    c_.ReplaceOperation(last_, value.node);
    return absl::OkStatus();
  }

 private:
  int64_t LastDim(const Output& value) const {
    const Shape& shape = c_.values().shape(value);
    return shape.rank() > 0 ? shape.dim(shape.rank() - 1) : 0;
  }

  Scope Named() const { return c_.scope().WithName(product_->name()); }
  Output Replicated(Output value) const {
    if (value.valid()) c_.shardings.Set(value, mirrorflow::Replicated());
    return value;
  }

  // Returns `value` as a vector of channels if it is invariant and broadcasts to them alone; an
  // invalid output otherwise.
  Output AsChannels(const Output& value) {
    const Shape& shape = c_.values().shape(value);
    if (value.dtype() != DT_FLOAT || LastDim(value) != channels_ ||
        shape.num_elements() != channels_ ||
        shape.rank() > c_.values().shape(product_->output(0)).rank() ||
        invariants_.SourceOf(value) == nullptr) {
      return Output();
    }
    return shape.rank() == 1 ? value : Reshaped(value, Shape({channels_}));
  }
  Output Reshaped(const Output& value, const Shape& shape) {
    const Output reshaped = ops::Reshape(Named(), value, shape);
    if (reshaped.valid()) Replicated(reshaped.node->input(1));
    return Replicated(reshaped);
  }

  // Each function accounts for one more operation on the channels.
  void MultiplyBy(const Output& factor) {
    scale_ = scale_.valid() ? Replicated(ops::Mul(Named(), scale_, factor)) : factor;
    if (offset_.valid()) offset_ = Replicated(ops::Mul(Named(), offset_, factor));
  }
  void Add(const Output& vector) {
    offset_ = offset_.valid() ? Replicated(ops::Add(Named(), offset_, vector)) : vector;
    ++num_offsets_;
  }
  void Subtract(const Output& vector) {
    offset_ = Replicated(offset_.valid() ? ops::Sub(Named(), offset_, vector)
                                         : ops::Neg(Named(), vector));
    ++num_offsets_;
  }

  bool TakeNext(const Use& use) {
    Node* const node = use.user;
    if (use.slot == Use::kControl || !TakeOperation(*node, use.slot)) return false;
    taken_.push_back(node);
    last_ = node;
    return true;
  }

  bool TakeOperation(const Node& node, int slot) {
    const std::string& op = node.op().name;
    if (op == ops::kFusedBatchNormV3) return slot == 0 && TakeBatchNorm(node);
    const bool adds = op == ops::kAdd || op == ops::kAddV2 ||
                      (op == ops::kBiasAdd && node.attr<std::string>("data_format") == "NHWC");
    const bool subtracts = op == ops::kSub && slot == 0;
    if (!adds && !subtracts && op != ops::kMul) return false;
    const Output vector = AsChannels(node.input(1 - slot));
    if (!vector.valid()) return false;
    if (adds) {
      Add(vector);
    } else if (subtracts) {
      Subtract(vector);
    } else {
      MultiplyBy(vector);
    }
    return true;
  }

  bool TakeBatchNorm(const Node& node) {
    if (node.attr<bool>("is_training") || node.attr<std::string>("data_format") != "NHWC") {
      return false;
    }
    // Nothing may use the outputs that repeat the statistics.
    for (const Use& use : node.uses()) {
      if (use.slot != Use::kControl && use.user->input(use.slot).index != 0) return false;
    }
    for (const Output& fetch : c_.fetches) {
      if (fetch.node == &node && fetch.index != 0) return false;
    }
    Output vectors[4];
    for (int i = 0; i < 4; ++i) {
      vectors[i] = AsChannels(node.input(i + 1));
      if (!vectors[i].valid()) return false;
    }
    const auto& [scale, offset, mean, variance] = vectors;
    const Output epsilon =
        Replicated(ops::ScalarConst(Named(), DT_FLOAT, node.attr<float>("epsilon")));
    const Output sum = Replicated(ops::Add(Named(), variance, epsilon));
    const Output inverse = Replicated(ops::Rsqrt(Named(), sum));
    Subtract(mean);
    MultiplyBy(Replicated(ops::Mul(Named(), inverse, scale)));
    Add(offset);
    return true;
  }

  // Returns the scale in a shape that broadcasts to the filter.
  Output ScaleOfFilter() {
    const Shape& filter = c_.values().shape(product_->input(1));
    if (product_->op().name == ops::kDepthwiseConv2dNative) {
      return Reshaped(scale_, Shape({filter.dim(2), filter.dim(3)}));
    }
    if (product_->op().name == ops::kMatMul && product_->attr<bool>("transpose_b")) {
      return Reshaped(scale_, Shape({channels_, 1}));
    }
    return scale_;
  }

  Compilation& c_;
  const Invariants& invariants_;
  Node* const product_;
  Node* last_;                      // the last node taken, or the product
  std::vector<const Node*> taken_;  // the nodes that the new product replaces
  const int64_t channels_;
  Output scale_, offset_;  // vectors of channels; invalid if there is none
  int num_offsets_ = 0;
};

}  // namespace

absl::StatusOr<bool> FoldBatchNorm::Run(Compilation& c) {
  if (!c.keeps_forms) return false;
  const Invariants invariants(c);
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    if (node->num_inputs() < 2 || node->num_outputs() == 0) continue;
    Folder folder(c, invariants, node);
    if (!folder.CanFold() || !folder.Take()) continue;
    MF_RETURN_IF_ERROR(c.graph.status());
    MF_RETURN_IF_ERROR(folder.Replace());
    changed = true;
  }
  return changed && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
