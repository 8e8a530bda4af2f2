// SPDX-License-Identifier: Apache-2.0
//
// Select and SelectV2 on the CPU, in runs of elements.
#include <algorithm>

#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// Computes a run where each element has its own condition. Always reads both operands, so the
// selection needs no branch. Reads conditions as bytes, which the compiler widens to vectors of
// masks.
template <bool kThenMoves, bool kElseMoves, typename T>
void SelectRun(const uint8_t* c, const T* t, const T* e, T* out, int64_t n) {
  const T t0 = *t, e0 = *e;
  MF_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    const T a = kThenMoves ? t[i] : t0, b = kElseMoves ? e[i] : e0;
    out[i] = c[i] != 0 ? a : b;
  }
}

// Computes a run whose single condition selects `from`.
template <typename T>
void CopyRun(const T* from, bool moves, T* out, int64_t n) {
  if (!moves) {
    std::fill_n(out, n, *from);
  } else if (from != out) {
    std::copy_n(from, n, out);
  }
}

template <typename T>
KernelPlan SelectPlan(const KernelContext& c, const Shape& condition_shape) {
  const Shape& out = c.output_shape(0);
  const BroadcastLoop<3> loop(out, {&condition_shape, &c.input_shape(1), &c.input_shape(2)});
  const bool then_moves = loop.moves(1), else_moves = loop.moves(2);
  const auto run = then_moves
                       ? (else_moves ? SelectRun<true, true, T> : SelectRun<true, false, T>)
                       : (else_moves ? SelectRun<false, true, T> : SelectRun<false, false, T>);
  KernelPlan plan;
  plan.kernel = MakeKernel([=](const KernelArgs& args) {
    const uint8_t* condition = args.input<uint8_t>(0);
    const T *t = args.input<T>(1), *e = args.input<T>(2);
    T* output = args.output<T>(0);
    loop.ForEachRun([&](int64_t at, const auto& from) {
      if (loop.moves(0)) {
        run(condition + from[0], t + from[1], e + from[2], output + at, loop.run_length());
      } else if (condition[from[0]]) {
        CopyRun(t + from[1], then_moves, output + at, loop.run_length());
      } else {
        CopyRun(e + from[2], else_moves, output + at, loop.run_length());
      }
    });
  });
  for (int i : {1, 2}) {
    if (c.input_shape(i) == out) plan.in_place.push_back({i, 0});
  }
  return plan;
}

absl::StatusOr<KernelPlan> CreateSelect(const KernelContext& c, const Shape& condition_shape) {
  return ForType(AllTypes(), c.output_dtype(0),
                 [&]<typename T>(TypeTag<T>) { return SelectPlan<T>(c, condition_shape); });
}

absl::StatusOr<KernelPlan> CreateSelectV2(const KernelContext& c) {
  return CreateSelect(c, c.input_shape(0));
}

// In Select, a vector of conditions selects whole rows.
absl::StatusOr<KernelPlan> CreateSelectV1(const KernelContext& c) {
  Shape condition = c.input_shape(0);
  const int rank = c.output_shape(0).rank();
  while (condition.rank() > 0 && condition.rank() < rank) condition.AddDim(1);
  return CreateSelect(c, condition);
}

}  // namespace

void RegisterSelectCpu(KernelRegistry& kernels) {
  kernels.Register("Select", "CPU", CreateSelectV1);
  kernels.Register("SelectV2", "CPU", CreateSelectV2);
}

}  // namespace mirrorflow
