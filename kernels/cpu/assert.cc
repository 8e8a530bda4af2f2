// SPDX-License-Identifier: Apache-2.0
//
// Assert on the CPU.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/graph/attr_value.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateAssert(const KernelContext& c) {
  std::vector<std::pair<DataType, Shape>> data;
  for (int i = 1; i < c.node().num_inputs(); ++i) {
    data.emplace_back(c.input_dtype(i), c.input_shape(i));
  }
  const int64_t summarize = c.attr<int64_t>("summarize");
  return KernelPlan{
      .kernel =
          MakeKernel([=, data = std::move(data)](const KernelArgs& args, Lane&) -> absl::Status {
            if (*args.input<bool>(0)) return absl::OkStatus();
            std::string message = "assertion failed:";
            for (size_t i = 0; i < data.size(); ++i) {
              // The const_cast is safe: the view is only read.
              auto* bytes = const_cast<std::byte*>(args.input<std::byte>(static_cast<int>(i) + 1));
              const Tensor value = Tensor::View(data[i].first, data[i].second, bytes, nullptr);
              absl::StrAppend(&message, " ", TensorToString(value, summarize < 0 ? -1 : summarize));
            }
            return absl::InvalidArgumentError(message);
          }),
      .fails_on_data = true};
}

}  // namespace

void RegisterAssertCpu(KernelRegistry& kernels) { kernels.Register("Assert", "CPU", CreateAssert); }

}  // namespace mirrorflow
