// SPDX-License-Identifier: Apache-2.0
//
// Converts attributes to and from TensorFlow's messages.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_ATTR_PROTO_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_ATTR_PROTO_H_

#include "absl/status/statusor.h"
#include "framework/graph/attr_value.h"
#include "framework/proto/attr_value.pb.h"

namespace mirrorflow {

// InvalidArgument for values that the message cannot represent: a list of lists or of mixed types.
absl::Status AttrValueToProto(const AttrValue& value, proto::AttrValue* proto);

// `repeated_bytes`: see TensorFromProto. `depth`: the number of functions and lists that enclose
// the value.
absl::StatusOr<AttrValue> AttrValueFromProto(const proto::AttrValue& proto, int64_t* repeated_bytes,
                                             int depth = 0);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_ATTR_PROTO_H_
