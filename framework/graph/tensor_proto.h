// SPDX-License-Identifier: Apache-2.0
//
// Converts dtypes, shapes, tensors and attributes to and from TensorFlow's messages.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_TENSOR_PROTO_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_TENSOR_PROTO_H_

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"
#include "framework/graph/attr_value.h"
#include "framework/proto/attr_value.pb.h"
#include "framework/proto/tensor.pb.h"

namespace mirrorflow {

// Converts a dtype. Returns InvalidArgument for an unsupported dtype; accepts DT_INVALID.
absl::StatusOr<DataType> DataTypeFromProto(proto::DataType dtype);

void ShapeToProto(const Shape& shape, proto::TensorShapeProto* proto);
absl::StatusOr<Shape> ShapeFromProto(const proto::TensorShapeProto& proto);

// Converts a tensor. If all elements are equal, the message holds a single value; otherwise it
// holds all bytes.
proto::TensorProto TensorToProto(const Tensor& tensor);

// Converts a message. A few bytes can stand for a tensor of any size, because the last value
// repeats. `repeated_bytes` is the graph's remaining budget for such tensors, which the call
// reduces. Returns ResourceExhausted for a tensor that exceeds the budget. Every bound is checked
// before memory is allocated.
absl::StatusOr<Tensor> TensorFromProto(const proto::TensorProto& proto, int64_t* repeated_bytes);

// Converts an attribute. Returns InvalidArgument for values that the message cannot represent: a
// list of lists or of mixed types.
absl::Status AttrValueToProto(const AttrValue& value, proto::AttrValue* proto);

// Converts an attribute. `repeated_bytes` is the same budget as in TensorFromProto; `depth` is the
// number of functions and lists that enclose the value.
absl::StatusOr<AttrValue> AttrValueFromProto(const proto::AttrValue& proto, int64_t* repeated_bytes,
                                             int depth = 0);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_TENSOR_PROTO_H_
