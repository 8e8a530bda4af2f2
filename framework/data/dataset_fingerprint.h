// SPDX-License-Identifier: Apache-2.0
//
// DatasetFingerprint describes a dataset in a few lines. Workers that share its batches compare
// them to find out whether all read the same data.
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

// The values appear in error messages. Those that a dataset lacks are empty.
struct DatasetFingerprint {
  std::string pipeline;     // the source and its stages
  std::string files;        // how many, and a checksum of their names or sizes
  std::string batches;      // how many
  std::string types;        // of a row, or of the first batch
  std::string first_batch;  // TensorChecksum::ToString()
  std::string last_batch;

  // Fails if `text` is not what Serialize() returns.
  static absl::StatusOr<DatasetFingerprint> Parse(absl::string_view text);
  std::string Serialize() const;

  struct Difference {
    int worker = 0;  // its value is not the one that most workers have
    int other = 0;   // the first worker with the value that most have
    std::string what;
    std::string expected, got;
    std::string hint;
  };
  // Returns the first difference between the fingerprints of the workers, if there is one.
  static std::optional<Difference> FindDifference(absl::Span<const DatasetFingerprint> workers);
};

// Accumulates the checksum of rows: of their dtypes, shapes and values.
class TensorChecksum {
 public:
  void Add(absl::Span<const Tensor> row);
  // `CRC-32C 1badcafe`
  std::string ToString() const;

 private:
  uint32_t crc_ = 0;
};

// Returns the dtypes and shapes, such as `float[28,28], int32[]`.
std::string TypesOf(absl::Span<const Tensor> tensors);
// The same without the leading dimension: the types of a row of these components.
std::string TypesOfRows(absl::Span<const Tensor> components);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_DATA_DATASET_FINGERPRINT_H_
