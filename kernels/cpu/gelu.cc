// SPDX-License-Identifier: Apache-2.0
//
// Gelu and its gradient on the CPU.
#include "kernels/cpu/gelu.h"

#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"
#include "ops/gelu.h"

namespace mirrorflow {
namespace {

using gelu::Approximate;
using gelu::AtPoint;
using gelu::Normal;

template <typename Form, typename T>
KernelPlan Gelu(int64_t n) {
  return {.kernel = MakeKernel([n](const KernelArgs& args) {
            const T* const x = args.input<T>(0);
            T* const y = args.output<T>(0);
            WithWidestVectors([=]() MF_INLINE {
              MF_INDEPENDENT_ITERATIONS
              for (int64_t i = 0; i < n; ++i) y[i] = x[i] * Form::Cdf(x[i]);
            });
          }),
          .in_place = {{0, 0}}};
}

template <typename Form, typename T>
KernelPlan GeluGrad(int64_t n) {
  return {.kernel = MakeKernel([n](const KernelArgs& args) {
            const T *const dy = args.input<T>(0), *const x = args.input<T>(1);
            T* const dx = args.output<T>(0);
            WithWidestVectors([=]() MF_INLINE {
              MF_INDEPENDENT_ITERATIONS
              for (int64_t i = 0; i < n; ++i) {
                const AtPoint<T> at = Form::At(x[i]);
                dx[i] = dy[i] * (at.cdf + x[i] * at.density);
              }
            });
          }),
          .in_place = {{0, 0}, {1, 0}}};
}

// Returns make(form, type tag, element count) for the form and dtype of the node.
template <typename Make>
absl::StatusOr<KernelPlan> Create(const KernelContext& c, Make make) {
  const int64_t n = c.output_shape(0).num_elements();
  return ForType(FloatingTypes(), c.output_dtype(0), [&](auto tag) {
    return c.attr<bool>("approximate") ? make(Approximate(), tag, n) : make(Normal(), tag, n);
  });
}

}  // namespace

void RegisterGeluCpu(KernelRegistry& kernels) {
  kernels.Register(ops::kGelu, "CPU", [](const KernelContext& c) {
    return Create(c, [](auto form, auto tag, int64_t n) {
      return Gelu<decltype(form), typename decltype(tag)::type>(n);
    });
  });
  kernels.Register("GeluGrad", "CPU", [](const KernelContext& c) {
    return Create(c, [](auto form, auto tag, int64_t n) {
      return GeluGrad<decltype(form), typename decltype(tag)::type>(n);
    });
  });
}

}  // namespace mirrorflow
