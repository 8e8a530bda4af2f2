// SPDX-License-Identifier: Apache-2.0
//
// ArgMax and ArgMin on the CPU, in tiles of adjacent results.
#include <algorithm>
#include <array>

#include "framework/core/status.h"
#include "kernels/cpu/reducer.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

constexpr int64_t kTile = 256;

// Returns the value that every number beats or equals, so the result is index 0 until an element
// beats it.
template <bool kLargest, typename T>
T Start() {
  return kLargest ? MaxOf<T>::Identity() : MinOf<T>::Identity();
}

// The first of several equal elements wins, and NaN never wins.
template <bool kLargest, typename T>
bool Beats(T a, T b) {
  return kLargest ? a > b : a < b;
}

template <bool kLargest, typename T>
int64_t ArgOf(const T* x, int64_t count) {
  T best = Start<kLargest, T>();
  int64_t index = 0;
  for (int64_t k = 0; k < count; ++k) {
    if (Beats<kLargest>(x[k], best)) {
      best = x[k];
      index = k;
    }
  }
  return index;
}

// Computes ArgOf() for `inner` adjacent results at once. Row k of `x` holds element k of each.
template <bool kLargest, typename T, typename Index>
void ArgOfRows(const T* x, Index* index, int64_t count, int64_t inner) {
  for (int64_t j = 0; j < inner; j += kTile) {
    const int64_t width = std::min(kTile, inner - j);
    std::array<T, kTile> best;
    std::fill_n(best.data(), width, Start<kLargest, T>());
    std::fill_n(index + j, width, Index(0));
    for (int64_t k = 0; k < count; ++k) {
      const T* row = x + k * inner + j;
      for (int64_t i = 0; i < width; ++i) {
        const bool beats = Beats<kLargest>(row[i], best[i]);
        best[i] = beats ? row[i] : best[i];
        index[j + i] = beats ? static_cast<Index>(k) : index[j + i];
      }
    }
  }
}

// Makes a kernel that searches an input of shape [outer, count, inner] along `count`.
template <bool kLargest, typename T, typename Index>
KernelPlan ArgPlan(int64_t outer, int64_t count, int64_t inner) {
  return {.kernel = MakeKernel([=](const KernelArgs& args) {
            const T* x = args.input<T>(0);
            Index* index = args.output<Index>(0);
            for (int64_t o = 0; o < outer; ++o, x += count * inner, index += inner) {
              if (inner == 1) {
                *index = static_cast<Index>(ArgOf<kLargest>(x, count));
              } else {
                ArgOfRows<kLargest>(x, index, count, inner);
              }
            }
          })};
}

template <bool kLargest>
absl::StatusOr<KernelPlan> CreateArg(const KernelContext& c) {
  const Shape& in = c.input_shape(0);
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(1, in.rank(), "dimension"));
  const int64_t outer = in.num_elements_before(axis), inner = in.num_elements_from(axis + 1);
  return ForType(AllTypes(), c.input_dtype(0), [&]<typename T>(TypeTag<T>) {
    return c.output_dtype(0) == DT_INT32
               ? ArgPlan<kLargest, T, int32_t>(outer, in.dim(axis), inner)
               : ArgPlan<kLargest, T, int64_t>(outer, in.dim(axis), inner);
  });
}

}  // namespace

void RegisterArgMaxCpu(KernelRegistry& kernels) {
  kernels.Register("ArgMax", "CPU", CreateArg</*kLargest=*/true>);
  kernels.Register("ArgMin", "CPU", CreateArg</*kLargest=*/false>);
}

}  // namespace mirrorflow
