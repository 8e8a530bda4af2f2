// SPDX-License-Identifier: Apache-2.0
//
// Ops that the sharding passes insert if a replica needs part of a replicated value. The ops are
// defined in distribute/collective.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/moves.h"

namespace mirrorflow {
namespace {

// Copies this replica's rows.
absl::StatusOr<KernelPlan> CreateShardSlice(const KernelContext& c) {
  const auto dim = static_cast<int>(c.attr<int64_t>("dim"));
  const std::vector<int64_t> strides = c.input_shape(0).Strides();
  std::vector<IndexDim> dims;
  for (int d = 0; d < c.output_shape(0).rank(); ++d) {
    dims.push_back({c.output_shape(0).dim(d), strides[d]});
  }
  return MoveKernel(c, absl::StrCat("a0[params->first_row[", c.attr<int64_t>("axis"), "] * ",
                                    c.attr<int64_t>("factor") * strides[dim], " + ",
                                    OffsetText("i", std::move(dims)), "]"));
}

absl::StatusOr<KernelPlan> CreateFirstReplicaOnly(const KernelContext& c) {
  return MoveKernel(c,
                    absl::StrCat("params->replica == 0 ? a0[i] : ", ZeroText(c.output_dtype(0))));
}

}  // namespace

void RegisterShardCuda(KernelRegistry& kernels) {
  kernels.Register("FirstReplicaOnly", kGpu, CreateFirstReplicaOnly);
  kernels.Register("ShardSlice", kGpu, CreateShardSlice);
}

}  // namespace mirrorflow
