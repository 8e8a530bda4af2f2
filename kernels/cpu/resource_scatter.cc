// SPDX-License-Identifier: Apache-2.0
//
// The ResourceScatter ops on the CPU. All indices are checked before anything is written.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/variable_handle.h"
#include "kernels/cpu/binary_loops.h"

namespace mirrorflow {
namespace {

struct Rows {
  int64_t count;  // indices
  int64_t limit;  // rows of the variable
  int64_t size;   // elements per row
  bool one;       // if true, a single scalar updates all rows
};

absl::StatusOr<Rows> RowsOf(const KernelContext& c) {
  const Shape& whole = VariableOf(c.node().input(0)).attr<Shape>("shape");
  if (!whole.IsFullyDefined() || whole.rank() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the variable must have a known shape with at least 1 dimension, got shape ",
                     whole.ToString()));
  }
  return Rows{.count = c.input_shape(1).num_elements(),
              .limit = whole.dim(0),
              .size = whole.num_elements_from(1),
              .one = c.input_shape(2).rank() == 0};
}

template <typename Index>
absl::Status CheckIndices(const Rows& rows, const Index* indices) {
  for (int64_t i = 0; i < rows.count; ++i) {
    if (indices[i] >= 0 && indices[i] < rows.limit) continue;
    return absl::InvalidArgumentError(absl::StrCat("indices must be in [0, ", rows.limit, "), got ",
                                                   indices[i], " at position ", i, " of ",
                                                   rows.count));
  }
  return absl::OkStatus();
}

template <typename T, typename Index, typename Fn>
KernelPlan ScatterPlan(const Rows& rows) {
  return {.kernel = MakeKernel([rows](const KernelArgs& args, Lane&) -> absl::Status {
            const Index* indices = args.input<Index>(1);
            MF_RETURN_IF_ERROR(CheckIndices(rows, indices));
            const T* updates = args.input<T>(2);
            for (int64_t i = 0; i < rows.count; ++i) {
              T* row = args.variable<T>(0) + indices[i] * rows.size;
              const T* from = rows.one ? updates : updates + i * rows.size;
              for (int64_t k = 0; k < rows.size; ++k) {
                row[k] = static_cast<T>(Fn{}(row[k], from[rows.one ? 0 : k]));
              }
            }
            return absl::OkStatus();
          }),
          .fails_on_data = true};
}

// Returns the factory of kernels that set each element x of a row to Fn(x, its update).
template <typename Types, typename Fn>
KernelFactory Scatter(Types, Fn) {
  return [](const KernelContext& c) -> absl::StatusOr<KernelPlan> {
    MF_ASSIGN_OR_RETURN(const Rows rows, RowsOf(c));
    return ForType(Types(), c.input_dtype(2), [&]<typename T>(TypeTag<T>) {
      return c.input_dtype(1) == DT_INT64 ? ScatterPlan<T, int64_t, Fn>(rows)
                                          : ScatterPlan<T, int32_t, Fn>(rows);
    });
  };
}

}  // namespace

void RegisterResourceScatterCpu(KernelRegistry& kernels) {
  const auto add = AddTo(kernels);
  constexpr NumericTypes kNumeric;
  add("ResourceScatterAdd",
      Scatter(kNumeric, [](auto x, auto y) { return Wrapping(x) + Wrapping(y); }));
  add("ResourceScatterDiv", Scatter(kNumeric, [](auto x, auto y) {
        bool bad = false;  // an integer divided by 0 is 0
        return Div()(x, y, bad);
      }));
  add("ResourceScatterMax", Scatter(kNumeric, [](auto x, auto y) { return std::max(x, y); }));
  add("ResourceScatterMin", Scatter(kNumeric, [](auto x, auto y) { return std::min(x, y); }));
  add("ResourceScatterMul",
      Scatter(kNumeric, [](auto x, auto y) { return Wrapping(x) * Wrapping(y); }));
  add("ResourceScatterSub",
      Scatter(kNumeric, [](auto x, auto y) { return Wrapping(x) - Wrapping(y); }));
  add("ResourceScatterUpdate", Scatter(AllTypes(), [](auto, auto y) { return y; }));
}

}  // namespace mirrorflow
