// SPDX-License-Identifier: Apache-2.0
//
// Parses a checkpoint manifest or rejects it. The fuzzer cannot guess checksums, so the target also
// parses the input with its correct checksum.
#include <string>

#include "absl/strings/str_format.h"
#include "framework/core/crc32c.h"
#include "framework/core/status.h"
#include "train/checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string framed =
      absl::StrFormat("{\"crc32c\":\"%08x\",\"manifest\":%s}\n", Crc32c(text), text);
  for (const std::string& input : {text, framed}) {
    const absl::StatusOr<CheckpointManifest> manifest = ParseManifest(input);
    if (!manifest.ok()) {
      MF_CHECK(manifest.status().code() == absl::StatusCode::kDataLoss);
      continue;
    }
    for (const CheckpointFile* file : {&manifest->variables, &manifest->state_tensors}) {
      MF_CHECK(file->name.find('/') == std::string::npos && file->name[0] != '.');
    }
    const absl::StatusOr<CheckpointManifest> again = ParseManifest(FormatManifest(*manifest));
    MF_CHECK(again.ok() && *again == *manifest);
  }
  return 0;
}
