// SPDX-License-Identifier: Apache-2.0
//
// Parses the JSON of a safetensors header. Does not check the rules of the format;
// safetensors_header.h does that.
#ifndef MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_JSON_H_
#define MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_JSON_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"

namespace mirrorflow {

inline constexpr absl::string_view kSafetensorsMetadataKey = "__metadata__";

struct SafetensorsDtype {
  absl::string_view name;
  uint64_t bits;
  DataType dtype;  // DT_INVALID if a Tensor cannot hold it
};

// Returns all dtypes of the format. The writer sorts tensors in the reverse of this order.
absl::Span<const SafetensorsDtype> SafetensorsDtypes();

struct RawSafetensorsEntry {
  std::string name;
  const SafetensorsDtype* dtype = nullptr;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;  // begin and end
};

struct RawSafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<RawSafetensorsEntry> entries;  // in the order of the JSON
};

// Parses a header. Returns DataLoss for text that is not UTF-8, not JSON or not a header, and for a
// duplicate key.
absl::StatusOr<RawSafetensorsHeader> ParseSafetensorsJson(absl::string_view json);

// Returns DataLoss, `rule: text`, where the text consists of these parts.
template <typename... Parts>
absl::Status BrokenSafetensors(absl::string_view rule, const Parts&... text) {
  return absl::DataLossError(absl::StrCat(rule, ": ", text...));
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_JSON_H_
