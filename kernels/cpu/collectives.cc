// SPDX-License-Identifier: Apache-2.0
//
// The meaning of explicit collectives on one replica, for EvaluateNode only: in a plan, collectives
// are instructions, the other ops are views, and NumReplicas is a constant.
#include <cstring>

#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateCopies(const KernelContext& c) {
  std::vector<int64_t> bytes;
  for (int i = 0; i < c.node().num_outputs(); ++i) {
    bytes.push_back(c.output_shape(i).num_elements() *
                    static_cast<int64_t>(DataTypeSize(c.output_dtype(i))));
  }
  return KernelPlan{.kernel = MakeKernel([bytes](const KernelArgs& args) {
                      for (size_t i = 0; i < bytes.size(); ++i) {
                        const int k = static_cast<int>(i);
                        if (bytes[i] == 0) continue;
                        std::memmove(args.output<std::byte>(k), args.input<std::byte>(k), bytes[i]);
                      }
                    })};
}

absl::StatusOr<KernelPlan> CreateOne(const KernelContext&) {
  return KernelPlan{.kernel =
                        MakeKernel([](const KernelArgs& args) { *args.output<int32_t>(0) = 1; })};
}

}  // namespace

void RegisterCollectivesCpu(KernelRegistry& kernels) {
  for (const char* op :
       {"AllReduce", "ReduceScatter", "AllGather", "LocalPart", "EnsureReplicated"}) {
    kernels.Register(op, "CPU", CreateCopies);
  }
  kernels.Register("NumReplicas", "CPU", CreateOne);
}

}  // namespace mirrorflow
