// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {

absl::StatusOr<int64_t> CountCorrect(const Tensor& logits, const Tensor& labels) {
  if (logits.dtype() != DT_FLOAT || logits.shape().rank() != 2 || labels.dtype() != DT_INT32 ||
      labels.shape().rank() != 1 || labels.shape().dim(0) != logits.shape().dim(0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "accuracy: wrong dtypes or shapes; expected float[B,C] logits and int32[B] labels, got ",
        DataTypeName(logits.dtype()), logits.shape().ToString(), " and ",
        DataTypeName(labels.dtype()), labels.shape().ToString()));
  }
  const int64_t rows = logits.shape().dim(0), classes = logits.shape().dim(1);
  int64_t correct = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const int32_t label = labels.data<int32_t>()[i];
    if (label < 0 || label >= classes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "accuracy: label ", i, " is out of range; expected 0 to ", classes - 1, ", got ", label));
    }
    const float* row = logits.data<float>() + i * classes;
    const bool has_nan = std::any_of(row, row + classes, [](float x) { return std::isnan(x); });
    if (!has_nan && std::max_element(row, row + classes) == row + label) ++correct;
  }
  return correct;
}

absl::Status Accuracy::Add(const Tensor& logits, const Tensor& labels) {
  MF_ASSIGN_OR_RETURN(const int64_t correct, CountCorrect(logits, labels));
  correct_ += correct;
  rows_ += labels.shape().dim(0);
  return absl::OkStatus();
}

}  // namespace mirrorflow
