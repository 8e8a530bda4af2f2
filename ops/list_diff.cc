// SPDX-License-Identifier: Apache-2.0
#include "ops/list_diff.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"

namespace mirrorflow {
namespace {

absl::Status ListDiffShape(ShapeContext& c) {
  for (int i = 0; i < 2; ++i) MF_RETURN_IF_ERROR(c.WithRank(i, 1).status());
  for (int i = 0; i < 2; ++i) c.set_output(i, Shape::UnknownDims(1));
  const Tensor *x = c.constant(0), *y = c.constant(1);
  if (x == nullptr || y == nullptr) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(ListDifference difference,
                      DifferenceOfLists(*x, *y, c.node().output_dtype(1)));
  c.set_constant(0, std::move(difference.out));
  c.set_constant(1, std::move(difference.idx));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ListDifference> DifferenceOfLists(const Tensor& x, const Tensor& y,
                                                 DataType idx_dtype) {
  const auto make = [&]<typename T>(TypeTag<T>) -> absl::StatusOr<ListDifference> {
    std::vector<T> known(y.flat<T>().begin(), y.flat<T>().end());
    // NaN is not equal to any value and cannot be sorted.
    std::erase_if(known, [](T v) { return v != v; });
    std::sort(known.begin(), known.end());
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const T v = x.flat<T>()[i];
      if (v != v || !std::binary_search(known.begin(), known.end(), v)) positions.push_back(i);
    }
    const Shape shape({static_cast<int64_t>(positions.size())});
    ListDifference difference;
    MF_ASSIGN_OR_RETURN(difference.out, Tensor::Allocate(x.dtype(), shape));
    difference.idx = IntegerTensor(idx_dtype, shape, positions);
    for (size_t k = 0; k < positions.size(); ++k) {
      difference.out.flat<T>()[k] = x.flat<T>()[positions[k]];
    }
    return difference;
  };
  return DispatchDataType(x.dtype(), make,
                          absl::StatusOr<ListDifference>(absl::UnimplementedError(
                              absl::StrCat("unsupported dtype ", DataTypeName(x.dtype())))));
}

void RegisterListDiff(OpRegistry& ops) {
  ops.Define("ListDiff")
      .Doc("the elements of x that are not in y, and their positions in x")
      .StaticInput("x: T")
      .StaticInput("y: T")
      .Output("out: T")
      .Output("idx: out_idx")
      .Attr("T: type")
      .Attr("out_idx: {int32, int64} = int32")
      .Shape(ListDiffShape)
      .Sharding(ReplicatedSharding)
      .NoGradient("its operands are constants");
}

namespace ops {

ListDiffOutputs ListDiff(const Scope& scope, Output x, Output y, const ListDiffOptions& options) {
  Node* node = Build(scope, "ListDiff", {x, y}).Attr("out_idx", options.out_idx).Finish();
  const std::vector<Output> outputs = OutputsOf(node, 2);
  return {outputs[0], outputs[1]};
}

}  // namespace ops
}  // namespace mirrorflow
