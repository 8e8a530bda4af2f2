// SPDX-License-Identifier: Apache-2.0
//
// Dtypes, shapes and tensors in TensorFlow's messages and out of them.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_TENSOR_PROTO_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_TENSOR_PROTO_H_

#include "absl/status/statusor.h"
#include "framework/core/tensor.h"
#include "framework/proto/tensor.pb.h"

namespace mirrorflow {

// The dtype, DT_INVALID included; InvalidArgument for one that is not supported.
absl::StatusOr<DataType> DataTypeFromProto(proto::DataType dtype);

void ShapeToProto(const Shape& shape, proto::TensorShapeProto* proto);
absl::StatusOr<Shape> ShapeFromProto(const proto::TensorShapeProto& proto);

// A tensor of one value repeated is written as that value, all others as their bytes.
proto::TensorProto TensorToProto(const Tensor& tensor);

// A message of a few bytes may stand for a tensor of any size, by repeating its last value:
// `repeated_bytes` is what the tensors of one graph may still take in this way, and
// ResourceExhausted is the error of one that would take more. Every bound is checked before memory
// is taken.
absl::StatusOr<Tensor> TensorFromProto(const proto::TensorProto& proto, int64_t* repeated_bytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_TENSOR_PROTO_H_
