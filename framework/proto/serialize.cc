// SPDX-License-Identifier: Apache-2.0
#include "framework/proto/serialize.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>

#include "absl/strings/str_cat.h"

namespace mirrorflow {

absl::StatusOr<std::string> SerializeDeterministically(
    const google::protobuf::MessageLite& message) {
  constexpr size_t kMaxBytes = std::numeric_limits<int>::max();
  const size_t size = message.ByteSizeLong();
  if (size > kMaxBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the message is too large to serialize; ",
                                                     "expected at most ", kMaxBytes, " bytes, got ",
                                                     size));
  }
  std::string bytes;
  bytes.reserve(size);
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeWithCachedSizes(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace mirrorflow
