// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/described_gpu.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mirrorflow {

absl::StatusOr<CudnnDescriptor> DescribedGpu(int capability) {
  const std::string text = absl::StrCat(R"({"deviceName": "GPU", "deviceVer": )", capability * 10,
                                        R"(, "cudaDeviceId": 0,
      "driverVer": 13000, "totalGlobalMem": 85000000000, "multiProcessorCount": 132,
      "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
      "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxThreadsPerBlock": 1024,
      "maxThreadsPerSM": 1536, "maxCtasPerSM": 32, "maxSharedMemoryPerBlock": 49152,
      "maxSharedMemoryPerBlockOptin": 101376, "reservedSharedMemoryPerBlock": 1024,
      "l2CacheSize": 52428800, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
      "pciDeviceId": 1, "isTccDriver": 0, "supportCoopLaunch": 1})");
  return CudnnBuilder(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
      .Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::vector<char>(text.begin(), text.end()))
      .Build();
}

std::set<cudnnBackendNumericalNote_t> NotesOf(const CudnnEngine& engine) {
  const auto engines =
      engine.config.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  EXPECT_TRUE(engines.ok()) << engines.status();
  const auto notes = (*engines)[0].Get<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  EXPECT_TRUE(notes.ok()) << notes.status();
  return {notes->begin(), notes->end()};
}

void ExpectUsable(const CudnnProposals& engines, bool allow_tensor_cores) {
  for (const auto& engine : engines) {
    EXPECT_LE(engine->workspace_bytes, kMaxCudnnWorkspaceBytes);
    const auto notes = NotesOf(*engine);
    EXPECT_FALSE(notes.contains(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
    EXPECT_FALSE(notes.contains(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
    EXPECT_FALSE(notes.contains(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
    EXPECT_TRUE(allow_tensor_cores || !notes.contains(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  }
}

}  // namespace mirrorflow
