// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/conv2d.h"
#include "ops/matmul.h"
#include "ops/registry.h"

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
  def.gathers_because = "made after values were given their places";
  return def;
}

OpDef DefWithBias(absl::string_view product) {
  OpDef def = *AllOps().Find(product);
  def.name = ops::WithBias(product);
  absl::StrAppend(&def.doc, ", + bias[…,c]");
  def.inputs.push_back({.name = ops::kFusedBias, .type_attr = "T"});
  def.sharding = nullptr;
  def.gathers_because = "made after values were given their places";
  def.gradient = nullptr;
  def.no_gradient_because = "made after gradients";
  return def;
}

absl::Status BroadcastOfInputs(ShapeContext& c) {
  Shape shape = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    MF_ASSIGN_OR_RETURN(shape, BroadcastShapes(shape, c.input(i)));
  }
  c.set_output(0, shape);
  return absl::OkStatus();
}

}  // namespace

const OpRegistry& FusedOps() {
  static const OpRegistry* const registry = [] {
    auto* ops = new OpRegistry();
    for (const OpDef* op : AllOps().All()) {
      if (!op->update_gradient.empty()) ops->Define(DefOfProduct(*op));
    }
    for (const char* product : {ops::kConv2D, ops::kMatMul}) ops->Define(DefWithBias(product));
    ops->Define(ops::kFusedElementwise)
        .Doc("output = the value that `body` computes of the inputs")
        .Input("inputs: Tin")
        .Output("output: T")
        .Attr("Tin: list(type) >= 1")
        .Attr("T: type")
        .Attr("body: string")
        .Shape(BroadcastOfInputs)
        .Gathers("made after values were given their places")
        .NoGradient("made after gradients");
    MF_CHECK(ops->Seal().ok());
    return ops;
  }();
  return *registry;
}

namespace ops {

std::string OfProduct(absl::string_view update) { return absl::StrCat(update, "OfProduct"); }
std::string WithBias(absl::string_view product) { return absl::StrCat("_Fused", product); }

}  // namespace ops
}  // namespace mirrorflow
