// SPDX-License-Identifier: Apache-2.0
#include "train/layers/padding.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/constant.h"
#include "ops/reshape.h"
#include "ops/slice.h"
#include "ops/strided_slice.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {
namespace {

// Whether x has a dimension for each border between the batch and the channels, and no border is
// negative. If not, fails the scope.
bool CheckBorders(const Scope& s, Output x, absl::Span<const Border> borders, const char* layer) {
  if (!s.ok()) return false;
  const Shape& shape = s.shape(x);
  const auto rank = static_cast<int>(borders.size()) + 2;
  if (shape.unknown_rank() || shape.rank() != rank) {
    Fail(s, absl::StrCat(layer, ": expected an input of rank ", rank, ", got shape ",
                         shape.ToString()));
    return false;
  }
  for (const Border& border : borders) {
    if (border.before >= 0 && border.after >= 0) continue;
    Fail(s, absl::StrCat(layer, ": expected numbers of elements of at least 0, got ", border.before,
                         " and ", border.after));
    return false;
  }
  return true;
}

Output Padded(const Scope& s, Output x, std::vector<Border> borders, const char* layer) {
  if (!CheckBorders(s, x, borders, layer)) return Output();
  std::vector<int64_t> paddings = {0, 0};
  for (const Border& border : borders) {
    paddings.push_back(border.before);
    paddings.push_back(border.after);
  }
  paddings.resize(paddings.size() + 2, 0);
  const auto rank = static_cast<int64_t>(paddings.size()) / 2;
  return ops::Pad(s, x, ops::Reshape(s, ops::VectorConst(s, paddings), Shape({rank, 2})));
}

Output Cropped(const Scope& s, Output x, std::vector<Border> borders, const char* layer) {
  if (!CheckBorders(s, x, borders, layer)) return Output();
  const Shape& shape = s.shape(x);
  std::vector<int64_t> begin = {0}, end = {0};
  int64_t end_mask = 1;
  for (size_t i = 0; i < borders.size(); ++i) {
    const auto d = static_cast<int>(i) + 1;
    const int64_t cropped = borders[i].before + borders[i].after;
    if (shape.dim(d) != kUnknownDim && shape.dim(d) <= cropped) {
      return Fail(
          s, absl::StrCat(layer, ": expected fewer than ", shape.dim(d),
                          " elements to remove, got ", cropped, " for shape ", shape.ToString()));
    }
    begin.push_back(borders[i].before);
    end.push_back(-borders[i].after);
    if (borders[i].after == 0) end_mask |= int64_t{1} << d;
  }
  return ops::StridedSlice(s, x, ops::VectorConst(s, begin), ops::VectorConst(s, end),
                           ops::VectorConst(s, std::vector<int64_t>(begin.size(), 1)),
                           {.begin_mask = 1, .end_mask = end_mask});
}

}  // namespace

Output ZeroPadding1D(const Scope& scope, Output x, Border padding) {
  return Padded(scope, x, {padding}, "zero_padding1d");
}
Output ZeroPadding2D(const Scope& scope, Output x, Border2D padding) {
  return Padded(scope, x, {padding.height, padding.width}, "zero_padding2d");
}

Output Cropping1D(const Scope& scope, Output x, Border cropping) {
  return Cropped(scope, x, {cropping}, "cropping1d");
}
Output Cropping2D(const Scope& scope, Output x, Border2D cropping) {
  return Cropped(scope, x, {cropping.height, cropping.width}, "cropping2d");
}

}  // namespace layers
}  // namespace mirrorflow
