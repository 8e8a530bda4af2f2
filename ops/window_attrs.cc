// SPDX-License-Identifier: Apache-2.0
#include "ops/window_attrs.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"

namespace mirrorflow {

absl::Status CheckNhwc(const Node& node) {
  const std::string& format = node.attr<std::string>("data_format");
  if (format == "NHWC") return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("data_format is not supported; expected NHWC, got ", format));
}

absl::Status CheckSpatialList(absl::string_view name, absl::Span<const int64_t> values) {
  const std::string got = absl::StrCat("[", absl::StrJoin(values, ", "), "]");
  if (values.size() != 4) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " must have a number for each dimension; expected 4 numbers, got ", got));
  }
  for (const int64_t value : values) {
    if (value < 1 || value > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " must be positive 32-bit numbers, got ", got));
    }
  }
  if (values[0] != 1 || values[3] != 1) {
    return absl::UnimplementedError(
        absl::StrCat(name, " over batch or channels; expected [1, …, …, 1], got ", got));
  }
  return absl::OkStatus();
}

absl::StatusOr<WindowAttrs> ReadWindowAttrs(const Node& node) {
  MF_RETURN_IF_ERROR(CheckNhwc(node));
  const std::vector<int64_t> strides = node.int_list("strides");
  MF_RETURN_IF_ERROR(CheckSpatialList("strides", strides));
  if (node.has_attr("dilations")) {
    const std::vector<int64_t> dilations = node.int_list("dilations");
    MF_RETURN_IF_ERROR(CheckSpatialList("dilations", dilations));
    if (dilations[1] != 1 || dilations[2] != 1) {
      return absl::UnimplementedError(absl::StrCat("dilations; expected [1, 1, 1, 1], got [",
                                                   absl::StrJoin(dilations, ", "), "]"));
    }
  }
  const std::string& padding = node.attr<std::string>("padding");
  if (padding == "EXPLICIT") {
    return absl::UnimplementedError("padding; expected SAME or VALID, got EXPLICIT");
  }
  const std::vector<int64_t> explicit_paddings = node.int_list("explicit_paddings");
  if (!explicit_paddings.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("explicit_paddings must be empty when padding is ", padding, ", got [",
                     absl::StrJoin(explicit_paddings, ", "), "]"));
  }
  return WindowAttrs{{strides[1], strides[2]}, padding == "SAME"};
}

absl::StatusOr<int64_t> WindowPositions(int64_t in, int64_t size, int64_t stride,
                                        bool same_padding) {
  if (size == 0) return absl::InvalidArgumentError("the window is empty; expected a size from 1");
  if (in == kUnknownDim || size == kUnknownDim) return kUnknownDim;
  if (same_padding) return in == 0 ? 0 : (in - 1) / stride + 1;
  if (in >= size) return (in - size) / stride + 1;
  // TensorFlow's formula, (in - size + stride) / stride, makes no rows of an image that is a bit
  // too small and refuses one that is much too small.
  if (size - in <= stride) return 0;
  return absl::InvalidArgumentError(
      absl::StrCat("the window is larger than the image; expected at most ", in, ", got ", size));
}

}  // namespace mirrorflow
