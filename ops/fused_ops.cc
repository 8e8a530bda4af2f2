// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops.h"

#include <functional>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/status.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/conv2d.h"
#include "ops/depthwise_conv2d.h"
#include "ops/gelu.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"
#include "ops/update.h"

namespace mirrorflow {
namespace {

OpDef DefOfProduct(const OpDef& update) {
  OpDef def = update;
  def.name = ops::OfProduct(update.name);
  def.doc = absl::StrCat(update.doc, ", where ", update.update_gradient, " = aᵀ · b");
  for (ArgDef& input : def.inputs) {
    if (input.name == update.update_gradient) input.name = kLeftOfProduct;
  }
  def.inputs.push_back({.name = kRightOfProduct, .type_attr = "T"});
  def.update_gradient.clear();
  def.shape = [](ShapeContext&) { return absl::OkStatus(); };
  def.sharding = nullptr;
  def.no_sharding_reason = "it is created after sharding propagation";
  return def;
}

OpDef DefMultiTensor(const OpDef& update) {
  OpDef def = update;
  def.name = ops::MultiTensor(update.name);
  absl::StrAppend(&def.doc, ", for N variables");
  for (ArgDef& input : def.inputs) {
    if (input.dtype == DT_RESOURCE || input.name == update.update_gradient) {
      input.number_attr = ops::kNumTensors;
    }
  }
  def.attrs.push_back({.name = ops::kNumTensors, .type = "int", .minimum = 1});
  def.shape = [](ShapeContext&) { return absl::OkStatus(); };
  def.sharding = nullptr;
  def.no_sharding_reason = "it is created after sharding propagation";
  return def;
}

// The mask has one bit per element, in the layout that cuBLASLt requires: rows are padded to a
// multiple of 128 bits. Passes create such nodes only if all shapes are known.
absl::Status ReluMaskShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(AllOps().Find(ops::kMatMul)->shape(c));
  if (c.num_outputs() == 1) return absl::OkStatus();
  const int64_t m = c.input(0).dim(c.attr<bool>("transpose_a") ? 1 : 0);
  const int64_t n = c.input(1).dim(c.attr<bool>("transpose_b") ? 0 : 1);
  c.set_output(1, Shape({m, (n + 127) / 128 * 16}));
  return absl::OkStatus();
}

// All products with a bias and an epilogue, by the name of the op.
const std::map<std::string, ops::FusedProduct, std::less<>>& FusedProducts() {
  static const auto* const products = [] {
    auto* const all = new std::map<std::string, ops::FusedProduct, std::less<>>();
    for (const char* product : {ops::kConv2D, ops::kDepthwiseConv2dNative, ops::kMatMul}) {
      for (const bool add : {false, true}) {
        for (const char* activation : {"", ops::kRelu, ops::kRelu6, ops::kSigmoid, ops::kTanh,
                                       ops::kSwish, ops::kHardSwish, ops::kGelu, ops::kGeluTanh}) {
          const ops::Epilogue epilogue = {.add = add, .activation = activation};
          all->emplace(ops::Fused(product, epilogue), ops::FusedProduct{product, epilogue});
        }
      }
    }
    return all;
  }();
  return *products;
}

// Returns the sharding rule of the product or convolution, extended to the bias, which is divided
// like the output's channels, and the addend, which is divided like the output. Only
// DivideAmongThreads uses it, because these ops are created after sharding propagation.
absl::StatusOr<ShardingRule> ShardingOfFused(const ShardContext& c) {
  const ops::FusedProduct& fused = FusedProducts().find(c.node().op().name)->second;
  MF_ASSIGN_OR_RETURN(ShardingRule rule, AllOps().Find(fused.product)->sharding(c));
  const std::vector<std::string> sides = absl::StrSplit(rule.dims, "->");
  const std::string& output = sides[1];
  const bool is_nchw =
      fused.product != ops::kMatMul && c.node().attr<std::string>("data_format") == "NCHW";
  const char channel = is_nchw ? output[1] : output.back();
  rule.dims = absl::StrCat(sides[0], ",", std::string(1, channel),
                           fused.epilogue.add ? "," + output : "", "->", output);
  for (int i = 1; i < c.num_outputs(); ++i) {
    absl::StrAppend(&rule.dims, ",", std::string(c.output(i).rank(), '.'));
  }
  rule.linearity = Linearity::kNone;
  return rule;
}

OpDef DefFused(absl::string_view name, const ops::FusedProduct& fused) {
  const auto& [product, epilogue] = fused;
  OpDef def = *AllOps().Find(product);
  def.name = std::string(name);
  absl::StrAppend(&def.doc, "; adds bias[…,c] to the output");
  def.inputs.push_back({.name = ops::kFusedBias, .type_attr = "T"});
  if (epilogue.add) {
    absl::StrAppend(&def.doc, ", then addend");
    def.inputs.push_back({.name = ops::kFusedAddend, .type_attr = "T"});
  }
  if (!epilogue.activation.empty()) absl::StrAppend(&def.doc, ", then ", epilogue.activation);
  def.sharding = ShardingOfFused;
  def.gradient = nullptr;
  def.no_gradient_reason = "it is created after gradients are built";
  if (epilogue == ops::Epilogue{.activation = ops::kRelu} && product == ops::kMatMul) {
    def.attrs.push_back({.name = ops::kNumMasks, .type = "int", .default_value = int64_t{0}});
    def.outputs.push_back({.name = "mask", .dtype = DT_UINT8, .number_attr = ops::kNumMasks});
    def.shape = ReluMaskShape;
  }
  return def;
}

absl::Status MatMulReluGradShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(AllOps().Find(ops::kMatMul)->shape(c));
  c.set_output(1, Shape({c.input(1).dim(c.attr<bool>("transpose_b") ? 0 : 1)}));
  return absl::OkStatus();
}

OpDef DefMatMulReluGrad() {
  OpDef def = DefFused(ops::kMatMulReluGrad, {.product = ops::kMatMul});
  def.doc =
      "the gradients of a layer's output before Relu and of its bias, given the next layer's "
      "gradient";
  def.inputs.pop_back();
  def.inputs.push_back({.name = "mask", .dtype = DT_UINT8});
  def.inputs.push_back({.name = "features", .type_attr = "T"});
  def.outputs.push_back({.name = "bias_grad", .type_attr = "T"});
  def.shape = MatMulReluGradShape;
  def.sharding = nullptr;
  def.no_sharding_reason = "it is created after sharding propagation";
  return def;
}

absl::Status BroadcastOfInputs(ShapeContext& c) {
  Shape shape = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    MF_ASSIGN_OR_RETURN(shape, BroadcastShapes(shape, c.input(i)));
  }
  return SetOutput(c, shape);
}

}  // namespace

const OpRegistry& FusedOps() {
  static const OpRegistry* const registry = [] {
    auto* ops = new OpRegistry();
    DefineKerasAdam(*ops);
    std::vector<const OpDef*> updates = AllOps().All();
    updates.push_back(ops->Find(ops::kResourceApplyKerasAdam));
    std::erase_if(updates, [](const OpDef* op) { return op->update_gradient.empty(); });
    for (const OpDef* update : updates) {
      ops->Define(DefOfProduct(*update));
      ops->Define(DefMultiTensor(*update));
    }
    for (const auto& [name, fused] : FusedProducts()) ops->Define(DefFused(name, fused));
    ops->Define(DefMatMulReluGrad());
    ops->Define(ops::kFusedElementwise)
        .Doc("output = the value that `body` computes from the inputs")
        .Input("inputs: Tin")
        .Output("output: T")
        .Attr("Tin: list(type) >= 1")
        .Attr("T: type")
        .Attr("body: string")
        .Shape(BroadcastOfInputs)
        .Sharding(ElementwiseSharding)
        .NoGradient("it is created after gradients are built");
    MF_CHECK(ops->Seal().ok());
    return ops;
  }();
  return *registry;
}

namespace ops {

std::string OfProduct(absl::string_view update) { return absl::StrCat(update, "OfProduct"); }
std::string MultiTensor(absl::string_view update) { return absl::StrCat(update, "MultiTensor"); }

std::string Fused(absl::string_view product, const Epilogue& epilogue) {
  return absl::StrCat("_Fused", product, epilogue.add ? kAdd : "", epilogue.activation);
}

std::vector<std::string> FusedVariants(absl::string_view product) {
  std::vector<std::string> variants;
  for (const auto& [name, fused] : FusedProducts()) {
    if (fused.product == product) variants.push_back(name);
  }
  return variants;
}

std::optional<FusedProduct> AsFused(absl::string_view op) {
  const auto it = FusedProducts().find(op);
  return it != FusedProducts().end() ? std::make_optional(it->second) : std::nullopt;
}

}  // namespace ops
}  // namespace mirrorflow
