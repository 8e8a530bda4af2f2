// SPDX-License-Identifier: Apache-2.0
//
// DatasetFingerprint: a description of a dataset in a few lines. Workers that split its batches
// among themselves compare fingerprints to check that all read the same data.
#ifndef MIRRORFLOW_FRAMEWORK_DATA_DATASET_FINGERPRINT_H_
#define MIRRORFLOW_FRAMEWORK_DATA_DATASET_FINGERPRINT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/core/tensor.h"

namespace mirrorflow {

// The values appear in error messages. Values that do not apply to a dataset are empty.
struct DatasetFingerprint {
  std::string pipeline;     // the source and its stages
  std::string files;        // how many, and a checksum of their names or sizes
  std::string batches;      // how many
  std::string types;        // of a row, or of the first batch
  std::string first_batch;  // TensorChecksum::ToString()
  std::string last_batch;

  // Parses the result of Serialize(). Returns Internal if `text` is malformed.
  static absl::StatusOr<DatasetFingerprint> Parse(absl::string_view text);
  std::string Serialize() const;

  struct Difference {
    int worker = 0;  // the worker whose value differs from the majority's
    int other = 0;   // the first worker with the majority's value
    std::string what;
    std::string expected, got;
    std::string hint;
  };
  // Returns the first difference between the workers' fingerprints, if any.
  static std::optional<Difference> FindDifference(absl::Span<const DatasetFingerprint> workers);
};

// Accumulates a checksum over the dtypes, shapes and values of rows.
class TensorChecksum {
 public:
  void Add(absl::Span<const Tensor> row);
  // Formats the checksum as `CRC-32C 1badcafe`.
  std::string ToString() const;

 private:
  uint32_t crc_ = 0;
};

// Returns the dtypes and shapes, such as `float[28,28], int32[]`.
std::string TypesOf(absl::Span<const Tensor> tensors);
// Like TypesOf, but drops the leading dimension: returns the types of one row.
std::string TypesOfRows(absl::Span<const Tensor> components);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_DATA_DATASET_FINGERPRINT_H_
