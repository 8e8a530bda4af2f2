// SPDX-License-Identifier: Apache-2.0
//
// Reads an npz file, a zip archive of arrays, or rejects it.
#include "framework/core/status.h"
#include "tests/fuzz/in_memory_file.h"
#include "train/formats/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const InMemoryFile file(data, size);
  const auto arrays = ReadNpz(file.path());
  MF_CHECK(arrays.ok() || arrays.status().code() != absl::StatusCode::kInternal);
  return 0;
}
