// SPDX-License-Identifier: Apache-2.0
//
// ParsedSize estimates how much memory an untrusted message will take before it is parsed. An empty
// message can take 2 bytes in a file but 200 in memory.
//
//   ParsedSize size;
//   size.AddBinary(*proto::GraphDef::descriptor(), bytes);
//   if (size.bytes() > limit) return absl::ResourceExhaustedError(…);
#ifndef MIRRORFLOW_FRAMEWORK_PROTO_PARSED_SIZE_H_
#define MIRRORFLOW_FRAMEWORK_PROTO_PARSED_SIZE_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class Descriptor;
namespace io {
class CodedInputStream;
}  // namespace io
}  // namespace google::protobuf

namespace mirrorflow {

class ParsedSize {
 public:
  // Adds the memory of a message of `type` that is parsed from `bytes`, in the wire format, or from
  // `text`, in the text format. The result is an estimate: containers over-allocate, so parsing can
  // take up to twice as much. Counts malformed input up to the point where the parser would
  // stop. Takes linear time and almost no memory.
  void AddBinary(const google::protobuf::Descriptor& type, absl::string_view bytes);
  void AddText(const google::protobuf::Descriptor& type, absl::string_view text);

  int64_t bytes() const { return bytes_; }

 private:
  // These return false at the point where the parser stops. `type` is null in a group; no message
  // here contains one.
  bool AddFields(const google::protobuf::Descriptor* type,
                 google::protobuf::io::CodedInputStream& input);
  bool AddField(const google::protobuf::Descriptor* type, uint32_t tag,
                google::protobuf::io::CodedInputStream& input);
  void AddEmpty(const google::protobuf::Descriptor& type);

  int64_t bytes_ = 0;
  absl::flat_hash_map<const google::protobuf::Descriptor*, int64_t> empty_;  // by type
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_PROTO_PARSED_SIZE_H_
