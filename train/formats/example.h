// SPDX-License-Identifier: Apache-2.0
//
// ExampleParser: parses serialised tf.train.Example messages, the usual contents of TFRecord files,
// into tensors. It reads the wire format directly and copies the values only once.
//
//   MF_ASSIGN_OR_RETURN(auto parser, ExampleParser::Create({
//       FixedLenFeature{.name = "image", .dtype = DT_FLOAT, .shape = {784}},
//       FixedLenFeature{.name = "label", .dtype = DT_INT64},
//       VarLenFeature{.name = "tags", .dtype = DT_INT64}}));
//   MF_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, parser.Parse(record));
#ifndef MIRRORFLOW_TRAIN_FORMATS_EXAMPLE_H_
#define MIRRORFLOW_TRAIN_FORMATS_EXAMPLE_H_

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// A feature with the same number of values in every example (tf.io.FixedLenFeature).
struct FixedLenFeature {
  std::string name;
  // float or int64; or uint8 for one byte string, such as an image file or raw pixels, as a tensor
  // of its bytes.
  DataType dtype = DT_FLOAT;
  // The shape of the tensor. For a byte string, it can be {-1}, which allows any length.
  Shape shape = {};
  // The tensor for examples without the feature. If it has no value, such an example is an error.
  Tensor default_value = {};
};

// A feature with any number n of values (tf.io.VarLenFeature). Its tensor has shape [n]; n is 0 for
// an example without the feature. The dtype must be float or int64.
struct VarLenFeature {
  std::string name;
  DataType dtype = DT_FLOAT;
};

using ExampleFeature = std::variant<FixedLenFeature, VarLenFeature>;

// A feature of either kind.
struct ExampleSlot {
  std::string name;
  DataType dtype = DT_INVALID;
  Shape shape;
  Tensor default_value;
  bool fixed = true;  // whether it is a FixedLenFeature
};

class ExampleParser {
 public:
  // Returns InvalidArgument for a dtype that an Example cannot hold, a duplicate name, or a default
  // value whose dtype or shape does not match its feature.
  static absl::StatusOr<ExampleParser> Create(std::vector<ExampleFeature> features);

  // Returns one tensor per feature, in the order given to Create(). Ignores the Example's other
  // features. Returns DataLoss for bytes that are not an Example. Also returns DataLoss, `feature
  // 'label': what; expected …, got …`, for an Example that lacks a feature or whose feature has
  // another type or number of values.
  absl::StatusOr<std::vector<Tensor>> Parse(absl::string_view example) const;

  // Parses many examples into tensors whose leading dimension is the number of examples. All
  // features must have a fixed length and shape. Errors begin with the index of the example, such
  // as `example 3: `.
  absl::StatusOr<std::vector<Tensor>> ParseBatch(
      absl::Span<const absl::string_view> examples) const;

 private:
  ExampleParser() = default;
  // Sets found[i] to slot i's last Feature message, if the example has one.
  absl::Status Find(absl::string_view example, absl::Span<absl::string_view> found) const;

  std::vector<ExampleSlot> slots_;
  absl::flat_hash_map<std::string, size_t> slot_of_name_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_EXAMPLE_H_
