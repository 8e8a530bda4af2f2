// SPDX-License-Identifier: Apache-2.0
//
// Reads a file that Dataset::Cache(path) could have written, or rejects it. As in the event file
// fuzzer, the input contains the rows' lengths and contents; the rows that are read must not be
// larger than these.
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/in_memory_file.h"
#include "tests/fuzz/records.h"
#include "train/data/dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  FuzzInput input(data, size);
  std::string contents;
  AppendRecord("mirrorflow rows 1", &contents);
  int64_t records = 0;
  for (; !input.empty(); ++records) {
    AppendRecord(input.TakeBytes(input.Take<uint16_t>()), &contents);
  }
  AppendRecord(absl::StrCat("mirrorflow rows end ", records), &contents);
  const InMemoryFile file(reinterpret_cast<const uint8_t*>(contents.data()), contents.size());
  const auto unused = [](int64_t, Row*) { return absl::OkStatus(); };
  const auto source =
      Dataset::FromRandomAccess(0, unused).Cache(file.path()).Prefetch(0).MakeIterator();
  absl::StatusOr<bool> more = true;
  int64_t rows = 0;
  size_t bytes = 0;
  for (SourceBatch batch; more.ok() && *more; rows += more.ok() && *more) {
    more = source->Next(&batch);
    for (const Tensor& component : batch.components) bytes += component.bytes();
  }
  // Batching adds a dimension, which can exceed the maximum rank.
  const bool is_full =
      absl::IsInvalidArgument(more.status()) && absl::StrContains(more.status().message(), "rank");
  MF_CHECK(more.ok() ? rows == records : absl::IsDataLoss(more.status()) || is_full);
  MF_CHECK(bytes <= contents.size());
  return 0;
}
