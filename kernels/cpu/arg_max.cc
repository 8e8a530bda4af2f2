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

// Below or equal to every number; index 0 stands until a larger one is met. Of equal ones the first
// is met first, and a NaN is never larger.
template <typename T>
constexpr T Lowest() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}

template <typename T>
int64_t ArgMaxOf(const T* x, int64_t count) {
  T best = Lowest<T>();
  int64_t index = 0;
  for (int64_t k = 0; k < count; ++k) {
    if (x[k] > best) {
      best = x[k];
      index = k;
    }
  }
  return index;
}

// The same for `inner` neighbouring results, whose elements are rows.
template <typename T, typename Index>
void ArgMaxOfRows(const T* x, Index* index, int64_t count, int64_t inner) {
  for (int64_t j = 0; j < inner; j += kTile) {
    const int64_t width = std::min(kTile, inner - j);
    std::array<T, kTile> best;
    std::fill_n(best.data(), width, Lowest<T>());
    std::fill_n(index + j, width, Index(0));
    for (int64_t k = 0; k < count; ++k) {
      const T* row = x + k * inner + j;
      for (int64_t i = 0; i < width; ++i) {
        const bool larger = row[i] > best[i];
        best[i] = larger ? row[i] : best[i];
        index[j + i] = larger ? static_cast<Index>(k) : index[j + i];
      }
    }
  }
}

// The input is [outer, count, inner].
template <typename T, typename Index>
KernelPlan ArgMaxPlan(int64_t outer, int64_t count, int64_t inner) {
  return {.kernel = MakeKernel([=](const KernelArgs& args, Lane&) {
            const T* x = args.input<T>(0);
            Index* index = args.output<Index>(0);
            for (int64_t o = 0; o < outer; ++o, x += count * inner, index += inner) {
              if (inner == 1) {
                *index = static_cast<Index>(ArgMaxOf(x, count));
              } else {
                ArgMaxOfRows(x, index, count, inner);
              }
            }
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
