// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes safetensors files: named tensors that Python can load without executing code.
//   header length: uint64 | header: JSON | the tensors' bytes
// All values are little-endian.
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
  // Tensors in the file that a Tensor cannot hold (8-bit floats, many dimensions): their names, and
  // the Unimplemented error for callers that need the tensor. They are not written.
  std::map<std::string, absl::Status> unreadable = {};
};

// The bytes of a safetensors file in memory, identical to the reference implementation's.
class SafetensorsFile {
 public:
  // Returns a file that refers to the tensors of `contents`, which must outlive it.
  static absl::StatusOr<SafetensorsFile> Create(const Safetensors& contents);

  // Returns all bytes before the tensors.
  const std::string& header() const { return header_; }
  uint64_t bytes() const;
  // Returns the file's pieces, in order. They are valid as long as this object.
  std::vector<absl::string_view> pieces() const;

 private:
  std::string header_;
  std::vector<const Tensor*> tensors_;  // in file order
};

// Writes the same bytes as the reference implementation. A crash leaves either the old or the new
// file (WriteFileAtomically).
absl::Status WriteSafetensors(absl::string_view path, const Safetensors& contents);

// Returns all tensors, some of which may be unreadable. Checks that the file is large enough before
// allocating memory. Returns DataLoss, `path: RuleName: what; expected …, got …`, if the file
// violates a rule of the format, and InvalidArgument for a file of another format, which the error
// names.
absl::StatusOr<Safetensors> ReadSafetensors(absl::string_view path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_H_
