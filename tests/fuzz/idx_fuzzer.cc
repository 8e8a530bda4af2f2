// SPDX-License-Identifier: Apache-2.0
//
// Reads an IDX file, plain or gzip, or rejects it.
#include "framework/core/status.h"
#include "tests/fuzz/in_memory_file.h"
#include "train/formats/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const InMemoryFile file(data, size);
  const absl::StatusOr<Tensor> array = ReadIdx(file.path());
  MF_CHECK(array.ok() || array.status().code() != absl::StatusCode::kInternal);
  return 0;
}
