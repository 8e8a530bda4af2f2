// SPDX-License-Identifier: Apache-2.0
//
// Reads a TFRecord file, plain or compressed, or rejects it. The file's index must agree with its
// records, and skipping records must not change those that follow.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/core/file_kind.h"
#include "framework/core/status.h"
#include "tests/fuzz/in_memory_file.h"
#include "train/formats/tf_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const InMemoryFile file(data, size);
  const TfRecordOptions options{.max_record_bytes = 1 << 20};
  const auto reader = TfRecordReader::Open(file.path(), options);
  MF_CHECK(reader.ok());
  std::vector<std::string> records;
  absl::StatusOr<bool> more = true;
  for (std::string record; records.size() < 1000;) {
    more = (*reader)->Next(&record);
    if (!more.ok() || !*more) break;
    records.push_back(record);
  }
  // A file that does not begin like a TFRecord file may be rejected as a file of another kind.
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const bool is_other = KindOfBytes(bytes, size) != FileKind::kTfRecord;
  MF_CHECK(more.ok() || absl::IsDataLoss(more.status()) ||
           (is_other && records.empty() && absl::IsInvalidArgument(more.status())));
  if (!records.empty()) {
    const auto skipping = *TfRecordReader::Open(file.path(), options);
    const auto count = static_cast<int64_t>(records.size()) - 1;
    std::string last;
    MF_CHECK(*skipping->Skip(count) == count && *skipping->Next(&last) && last == records.back());
  }
  const auto index = TfRecordIndex::Build(file.path(), options);
  if (!index.ok()) return 0;
  std::string record;
  for (int64_t i = 0; i < std::min<int64_t>(index->size(), 1000); ++i) {
    const bool read = i < static_cast<int64_t>(records.size());
    MF_CHECK(index->ReadAt(i, &record).ok() == read || !more.ok());
    MF_CHECK(!read || record == records[i]);
  }
  return 0;
}
