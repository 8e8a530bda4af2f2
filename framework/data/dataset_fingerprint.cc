// SPDX-License-Identifier: Apache-2.0
#include "framework/data/dataset_fingerprint.h"

#include <iterator>
#include <map>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/core/crc32c.h"

namespace mirrorflow {
namespace {

// Longer values, such as the pipeline of a Zip() of many datasets, are truncated, so the values of
// all workers fit into a message.
constexpr size_t kMaxValueBytes = 1000;

constexpr absl::string_view kSameOrder =
    "all workers must distribute the same datasets in the same order, each from the same copy of "
    "the data";
constexpr absl::string_view kSameFiles = "all workers must have the same copy of the data";
constexpr absl::string_view kSameRows =
    "all workers must have the same copy of the data, and functions passed to Map() must depend "
    "only on the row and its RowId; or set compare_data = false";

struct Field {
  absl::string_view what;
  std::string DatasetFingerprint::*value;
  absl::string_view hint;
};
// Listed in reporting order: a difference in one field explains differences in the fields after it.
constexpr Field kFields[] = {
    {"pipeline", &DatasetFingerprint::pipeline, kSameOrder},
    {"files", &DatasetFingerprint::files, kSameFiles},
    {"number of batches", &DatasetFingerprint::batches, kSameFiles},
    {"types", &DatasetFingerprint::types, kSameRows},
    {"first batch", &DatasetFingerprint::first_batch, kSameRows},
    {"last batch", &DatasetFingerprint::last_batch, kSameRows},
};

std::string Clipped(const std::string& value) {
  if (value.size() <= kMaxValueBytes) return value;
  return absl::StrCat(value.substr(0, kMaxValueBytes), "... with CRC-32C ",
                      absl::Hex(Crc32c(value), absl::kZeroPad8));
}

}  // namespace

std::string DatasetFingerprint::Serialize() const {
  return absl::StrJoin(kFields, "\n", [this](std::string* out, const Field& field) {
    *out += absl::CEscape(Clipped(this->*field.value));
  });
}

absl::StatusOr<DatasetFingerprint> DatasetFingerprint::Parse(absl::string_view text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  DatasetFingerprint fingerprint;
  bool valid = lines.size() == std::size(kFields);
  for (size_t i = 0; valid && i < lines.size(); ++i) {
    valid = absl::CUnescape(lines[i], &(fingerprint.*kFields[i].value));
  }
  if (!valid) return absl::InternalError("dataset: malformed fingerprint from a worker");
  return fingerprint;
}

std::optional<DatasetFingerprint::Difference> DatasetFingerprint::FindDifference(
    absl::Span<const DatasetFingerprint> workers) {
  for (const Field& field : kFields) {
    const auto value = [&](int worker) -> const std::string& {
      return workers[worker].*field.value;
    };
    std::map<absl::string_view, int> count;
    int usual = 0;  // the first worker with the majority's value
    const int num_workers = static_cast<int>(workers.size());
    for (int w = 0; w < num_workers; ++w) ++count[value(w)];
    for (int w = 1; w < num_workers; ++w) {
      if (count[value(w)] > count[value(usual)]) usual = w;
    }
    for (int w = 0; w < num_workers; ++w) {
      if (value(w) == value(usual)) continue;
      const auto or_none = [](const std::string& text) { return text.empty() ? "none" : text; };
      return Difference{.worker = w,
                        .other = usual,
                        .what = std::string(field.what),
                        .expected = or_none(value(usual)),
                        .got = or_none(value(w)),
                        .hint = std::string(field.hint)};
    }
  }
  return std::nullopt;
}

void TensorChecksum::Add(absl::Span<const Tensor> row) {
  crc_ = Crc32c(TypesOf(row), crc_);
  for (const Tensor& t : row) {
    if (t.bytes() == 0) continue;
    crc_ = Crc32c(absl::string_view(reinterpret_cast<const char*>(t.raw()), t.bytes()), crc_);
  }
}

std::string TensorChecksum::ToString() const {
  return absl::StrCat("CRC-32C ", absl::Hex(crc_, absl::kZeroPad8));
}

std::string TypesOf(absl::Span<const Tensor> tensors) {
  return absl::StrJoin(tensors, ", ",
                       [](std::string* out, const Tensor& t) { *out += t.TypeString(); });
}

std::string TypesOfRows(absl::Span<const Tensor> components) {
  return absl::StrJoin(components, ", ", [](std::string* out, const Tensor& t) {
    const absl::Span<const int64_t> dims = t.shape().dims();
    const Shape row(dims.empty() ? dims : dims.subspan(1));
    absl::StrAppend(out, DataTypeName(t.dtype()), row.ToString());
  });
}

}  // namespace mirrorflow
