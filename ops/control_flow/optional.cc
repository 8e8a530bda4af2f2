// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/optional.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/list_info.h"
#include "framework/graph/shape_inference.h"
#include "ops/gradients.h"
#include "ops/shape_values.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kIsAList =
    "an optional is a list, which LowerTensorLists turns into a tensor";
constexpr absl::string_view kOfGradients =
    "only TensorFlow's gradients create it, in graphs that have already been differentiated";

absl::Status CheckOne(int values) {
  if (values == 1) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("an optional must hold one tensor, got ", values));
}

absl::Status FromValueShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckOne(c.num_inputs()));
  const DataType dtype = c.node().input(0).dtype();
  if (dtype == DT_RESOURCE) {
    return absl::UnimplementedError("an optional must hold a tensor, got a resource");
  }
  ListInfo list;
  if (dtype == DT_VARIANT) {
    MF_ASSIGN_OR_RETURN(list, ListInput(c, 0).InList());
    SetList(c, 0, list);
    return absl::OkStatus();
  }
  list.dtype = dtype;
  list.element = c.input(0);
  list.length = list.max_length = 1;
  if (c.constant(0) != nullptr) list.common = *c.constant(0);
  SetList(c, 0, list);
  return absl::OkStatus();
}

// Sets output 0 to a list of unknown kind, because only the other branch determines the kind of the
// missing value.
absl::Status NoneShape(ShapeContext& c) {
  ListInfo list;
  list.length = list.max_length = 0;
  SetList(c, 0, list);
  return absl::OkStatus();
}

// If the optional can hold several kinds, the attributes select one of them.
absl::Status GetValueShape(ShapeContext& c) {
  MF_RETURN_IF_ERROR(CheckOne(c.num_outputs()));
  const auto& shapes = c.attr<AttrList>("output_shapes");
  if (shapes.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("output_shapes must have one shape, got ", shapes.size()));
  }
  const ListInfo list = ListInput(c, 0);
  if (c.node().output_dtype(0) == DT_VARIANT) {
    SetList(c, 0, list.ElementList());
    return absl::OkStatus();
  }
  const ListKind said{.dtype = c.node().output_dtype(0), .element = shapes[0].get<Shape>()};
  const std::vector<ListKind> kinds = list.kinds();
  const int found = FindKind(kinds, said, 0);
  if (found < 0 && list.known()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the optional holds ", DataTypeName(list.dtype), " ", list.element.ToString(),
                     list.others.empty() ? "" : " or others", ", but the attributes specify ",
                     DataTypeName(said.dtype), " ", said.element.ToString()));
  }
  if (found >= 0 && FindKind(absl::MakeSpan(kinds).subspan(found + 1), said, 0) >= 0) {
    return absl::UnimplementedError(absl::StrCat(
        "the optional can hold several tensors of ", DataTypeName(said.dtype),
        "; expected output_shapes that only one of them matches, got ", said.element.ToString()));
  }
  if (found < 0) return SetOutput(c, said.element);
  const Tensor& common = kinds[found].common;
  if (!common.has_value()) return SetOutput(c, said.element.MergeWith(kinds[found].element));
  c.set_constant(0, common);
  return absl::OkStatus();
}

}  // namespace

void RegisterOptional(OpRegistry& ops) {
  ops.Define(ops::kOptionalFromValue)
      .Doc("an optional with this value")
      .Input("components: Toutput_types")
      .Output("optional: variant")
      .Attr("Toutput_types: list(type) >= 1")
      .Shape(FromValueShape)
      .Gathers(kIsAList)
      .NoGradient(kOfGradients);
  ops.Define(ops::kOptionalGetValue)
      .Doc("the value of an optional; the step fails if it has none")
      .Input("optional: variant")
      .Output("components: output_types")
      .Attr("output_types: list(type) >= 1")
      .Attr("output_shapes: list(shape) >= 1")
      .Shape(GetValueShape)
      .Gathers(kIsAList)
      .NoGradient(kOfGradients);
  ops.Define(ops::kOptionalHasValue)
      .Doc("whether the optional has a value")
      .Input("optional: variant")
      .Output("has_value: bool")
      .Shape(ScalarShape)
      .Gathers(kIsAList)
      .Gradient(ZeroGradients);
  ops.Define(ops::kOptionalNone)
      .Doc("an optional without a value")
      .Output("optional: variant")
      .Shape(NoneShape)
      .Gathers(kIsAList)
      .Gradient(ZeroGradients);
}

}  // namespace mirrorflow
