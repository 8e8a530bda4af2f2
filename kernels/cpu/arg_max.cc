// SPDX-License-Identifier: Apache-2.0
//
// ArgMax on the CPU, over tiles of neighbouring results.
#include <algorithm>
#include <array>
#include <limits>

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

constexpr int64_t kTile = 256;

// The input is [outer, count, inner]: indices of the largest of `count` elements.
template <typename T, typename Index>
void ArgMaxOf(const T* x, Index* index, int64_t outer, int64_t count, int64_t inner) {
  using Limits = std::numeric_limits<T>;
  constexpr T kLowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  for (int64_t o = 0; o < outer; ++o, x += count * inner, index += inner) {
    for (int64_t j = 0; j < inner; j += kTile) {
      const int64_t width = std::min(kTile, inner - j);
      std::array<T, kTile> best;
      std::fill_n(best.data(), width, kLowest);
      std::fill_n(index + j, width, Index(0));
      for (int64_t k = 0; k < count; ++k) {
        const T* row = x + k * inner + j;
        for (int64_t i = 0; i < width; ++i) {
          const bool larger = row[i] > best[i];  // of equal ones the first; never a NaN
          best[i] = larger ? row[i] : best[i];
          index[j + i] = larger ? static_cast<Index>(k) : index[j + i];
        }
      }
    }
  }
}

template <typename T, typename Index>
KernelPlan ArgMaxPlan(int64_t outer, int64_t count, int64_t inner) {
  return {.kernel = MakeKernel([=](const KernelArgs& args, Lane&) {
            ArgMaxOf(args.input<T>(0), args.output<Index>(0), outer, count, inner);
            return absl::OkStatus();
          })};
}

absl::StatusOr<KernelPlan> CreateArgMax(const KernelContext& c) {
  const Shape& in = c.input_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, IntegersOf(c.constant(1)));
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axes[0], in.rank(), "dimension"));
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= in.dim(i);
  for (int i = axis + 1; i < in.rank(); ++i) inner *= in.dim(i);
  return ForType(AllTypes(), c.input_dtype(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return c.output_dtype(0) == DT_INT32 ? ArgMaxPlan<T, int32_t>(outer, in.dim(axis), inner)
                                         : ArgMaxPlan<T, int64_t>(outer, in.dim(axis), inner);
  });
}

}  // namespace

void RegisterArgMaxCpu(KernelRegistry& kernels) { kernels.Register("ArgMax", "CPU", CreateArgMax); }

}  // namespace mirrorflow
