// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes safetensors files: named tensors that Python programs can load without executing
// code from the file.
//   header length: uint64 | header: JSON | the tensors' bytes
// All values are little-endian.
//
//   MF_ASSIGN_OR_RETURN(const Safetensors file, ReadSafetensors("model.safetensors"));
//   const Tensor& kernel = file.tensors.at("dense/kernel");
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
  std::map<std::string, Tensor> tensors;        // by name
  std::map<std::string, std::string> metadata;  // free text, by key
  // The names of tensors in the file that a Tensor cannot hold (8-bit floats, too many dimensions),
  // each with an Unimplemented error for callers that need the tensor. They are not written.
  std::map<std::string, absl::Status> unreadable = {};
};

// The bytes of a safetensors file in memory. They are the same as those that the reference
// implementation writes.
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

// Writes a file, with the same bytes as the reference implementation. A crash leaves either the old
// or the new file (WriteFileAtomically).
absl::Status WriteSafetensors(absl::string_view path, const Safetensors& contents);

// Reads a file. Returns all of its tensors; some may be in Safetensors::unreadable. Checks that the
// file is large enough before allocating memory. Returns NotFound if the file does not exist;
// DataLoss, `path: RuleName: what; expected …, got …`, if it violates a rule of the format; and
// InvalidArgument for a file of another format, which the error names.
absl::StatusOr<Safetensors> ReadSafetensors(absl::string_view path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_SAFETENSORS_SAFETENSORS_H_
