// SPDX-License-Identifier: Apache-2.0
//
// The JSON header of a safetensors file: what the tensors are and where their bytes lie.
//   {"__metadata__":{"k":"v"},"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}
// Offsets count from the end of the header.
#ifndef MIRRORFLOW_TRAIN_SAFETENSORS_HEADER_H_
#define MIRRORFLOW_TRAIN_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsEntry {
  std::string name;
  DataType dtype;
  Shape shape;
  uint64_t begin, end;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  // by begin
};

// Checks everything there is to check about the header of a file with `data_bytes` bytes behind it.
// A broken rule of the format is DataLoss that begins with the rule's name, the one that the
// reference implementation gives it where it has it; what is legal but more than a Tensor can hold
// (8-bit floats, many dimensions) is Unimplemented. Fields that the format does not know are
// passed over.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes);

// The header that the reference implementation writes: widest dtype first, then by name, padded
// with spaces to a multiple of 8. `order` receives the tensors in the order of their bytes.
absl::StatusOr<std::string> FormatSafetensorsHeader(
    const std::map<std::string, Tensor>& tensors,
    const std::map<std::string, std::string>& metadata, std::vector<const Tensor*>* order);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SAFETENSORS_HEADER_H_
