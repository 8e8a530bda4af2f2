// SPDX-License-Identifier: Apache-2.0
//
// Parses and writes a safetensors file's JSON header, which describes the tensors and locates their
// data.
//   {"__metadata__":{"k":"v"},"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}
// Offsets count from the end of the header.
#ifndef MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_HEADER_H_
#define MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_HEADER_H_

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
  std::vector<SafetensorsEntry> entries;           // sorted by begin
  std::map<std::string, absl::Status> unreadable;  // as in Safetensors
};

// Parses and fully checks the header of a file with `data_bytes` bytes after the header. Returns
// DataLoss if a rule of the format is violated. The message begins with the rule's name, which is
// the reference implementation's if that has the rule. Valid tensors that a Tensor cannot hold
// (8-bit floats, many dimensions) are listed in `unreadable`. Unknown fields are ignored.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json,
                                                         uint64_t data_bytes);

// Returns the same header that the reference implementation writes: tensors with the widest dtype
// first, then by name, padded with spaces to a multiple of 8 bytes. Sets `order` to the tensors in
// file order.
absl::StatusOr<std::string> FormatSafetensorsHeader(
    const std::map<std::string, Tensor>& tensors,
    const std::map<std::string, std::string>& metadata, std::vector<const Tensor*>* order);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_HEADER_H_
