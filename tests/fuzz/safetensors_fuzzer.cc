// SPDX-License-Identifier: Apache-2.0
//
// Reads a safetensors file or rejects it.
#include "framework/core/status.h"
#include "tests/fuzz/in_memory_file.h"
#include "train/safetensors/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const InMemoryFile file(data, size);
  const absl::StatusOr<Safetensors> contents = ReadSafetensors(file.path());
  MF_CHECK(contents.ok() || contents.status().code() != absl::StatusCode::kInternal);
  return 0;
}
