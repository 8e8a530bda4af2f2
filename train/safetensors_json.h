// SPDX-License-Identifier: Apache-2.0
//
// The JSON of a safetensors header as it stands, before its rules are checked
// (safetensors_header.h checks them).
#ifndef MIRRORFLOW_TRAIN_SAFETENSORS_JSON_H_
#define MIRRORFLOW_TRAIN_SAFETENSORS_JSON_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"

namespace mirrorflow {

inline constexpr absl::string_view kSafetensorsMetadataKey = "__metadata__";

struct SafetensorsDtype {
  absl::string_view name;
  uint64_t bits;
  DataType dtype;  // DT_INVALID: in the format, but not here
};

// All dtypes of the format, in the order by which the writer sorts.
absl::Span<const SafetensorsDtype> SafetensorsDtypes();

struct RawSafetensorsEntry {
  std::string name;
  const SafetensorsDtype* dtype = nullptr;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;  // two
};

struct RawSafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<RawSafetensorsEntry> entries;  // in the order of the text
};

// DataLoss for what is not UTF-8, not JSON or not a header, and for a key that is there twice.
absl::StatusOr<RawSafetensorsHeader> ParseSafetensorsJson(absl::string_view json);

// DataLoss: `rule: text`.
absl::Status BrokenSafetensors(absl::string_view rule, absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SAFETENSORS_JSON_H_
