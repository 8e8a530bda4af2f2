// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes safetensors files: named tensors that Python can load without executing code.
//   uint64 length of the header | header (JSON) | the tensors' bytes; all little-endian
#ifndef MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_H_
#define MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

struct Safetensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
  // The tensors of a file that a Tensor cannot hold (8-bit floats, many dimensions), by name. Each
  // has an Unimplemented error for callers that need the tensor. They are not written.
  std::map<std::string, absl::Status> unreadable = {};
};

// The bytes of a safetensors file in memory, identical to those of the reference implementation.
class SafetensorsFile {
 public:
  // Refers to the tensors of `contents`, which must outlive the result.
  static absl::StatusOr<SafetensorsFile> Create(const Safetensors& contents);

  // All bytes before the tensors.
  const std::string& header() const { return header_; }
  uint64_t bytes() const;
  // The pieces of the file, in order. Valid as long as this object.
  std::vector<absl::string_view> pieces() const;

 private:
  std::string header_;
  std::vector<const Tensor*> tensors_;  // in the order of the file
};

// Writes the same bytes as the reference implementation. A crash leaves either the old or the new
// file (WriteFileAtomically).
absl::Status WriteSafetensors(absl::string_view path, const Safetensors& contents);

// Returns all tensors, some of which may be unreadable. Checks that the file is large enough before
// allocating memory. DataLoss, `path: RuleName: what; expected …, got …`, if the file violates a
// rule of the format; InvalidArgument for a file of another format, which the error names.
absl::StatusOr<Safetensors> ReadSafetensors(absl::string_view path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_H_
