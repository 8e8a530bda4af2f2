// SPDX-License-Identifier: Apache-2.0
//
// CheckNumerics on the CPU.
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/shard_rows.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateCheckNumerics(const KernelContext& c) {
  const int64_t n = c.output_shape(0).num_elements();
  const FirstRow first_row(c, 0);
  const int64_t row_size =
      c.output_shape(0).rank() > 0 ? c.output_shape(0).num_elements_from(1) : 1;
  const int64_t in_all = c.global_output_shape(0).num_elements();
  const auto& message = c.attr<std::string>("message");
  return ForType(FloatingTypes(), c.input_dtype(0), [&]<typename T>(TypeTag<T>) {
    return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args, Lane&) -> absl::Status {
                        const T* in = args.input<T>(0);
                        // x - x is 0 for a finite x and NaN otherwise, so one sum without branches
                        // checks all elements.
                        T check = 0;
                        for (int64_t i = 0; i < n; ++i) check += in[i] - in[i];
                        for (int64_t i = 0; check != 0 && i < n; ++i) {
                          if (std::isfinite(in[i])) continue;
                          return absl::InvalidArgumentError(absl::StrCat(
                              message, ": all numbers must be finite, got ", in[i], " as element ",
                              first_row.of(args.params()) * row_size + i, " of ", in_all));
                        }
                        if (n > 0) std::memmove(args.output<T>(0), in, n * sizeof(T));
                        return absl::OkStatus();
                      }),
                      .in_place = {{0, 0}},
                      .fails_on_data = true};
  });
}

}  // namespace

void RegisterCheckNumericsCpu(KernelRegistry& kernels) {
  kernels.Register("CheckNumerics", "CPU", CreateCheckNumerics);
  kernels.Register("CheckNumericsV2", "CPU", CreateCheckNumerics);
}

}  // namespace mirrorflow
