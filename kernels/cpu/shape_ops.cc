// SPDX-License-Identifier: Apache-2.0
//
// Shape, ShapeN, VariableShape, Size, Rank, Fill, Range and LinSpace on the CPU. The ops that read
// shapes are for EvaluateNode only; in a plan they are constants.
#include <utility>
#include <vector>

#include "kernels/cpu/shard_rows.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/type_list.h"
#include "ops/shape_values.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateShapeN(const KernelContext& c) {
  std::vector<Tensor> shapes;
  for (int i = 0; i < c.node().num_outputs(); ++i) {
    shapes.push_back(IntegerTensor(c.output_dtype(i), c.output_shape(i), c.input_shape(i).dims()));
  }
  return ConstantKernel(std::move(shapes));
}

absl::StatusOr<KernelPlan> CreateSize(const KernelContext& c) {
  return ConstantKernel(
      {IntegerTensor(c.output_dtype(0), Shape(), {c.input_shape(0).num_elements()})});
}

absl::StatusOr<KernelPlan> CreateRank(const KernelContext& c) {
  return ConstantKernel({Tensor::Scalar<int32_t>(c.input_shape(0).rank())});
}

absl::StatusOr<KernelPlan> CreateFill(const KernelContext& c) {
  const StridedCopy repeat(c.output_dtype(0), {{c.output_shape(0).num_elements(), 0, 1}});
  return CopyKernel(c.output_dtype(0), {{1, 0, repeat}});
}

absl::StatusOr<KernelPlan> CreateRange(const KernelContext& c) {
  const int64_t n = c.output_shape(0).num_elements();
  const FirstRow first_element(c, 0);
  return ForType(SignedTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    const T start = c.constant(0).scalar<T>(), delta = c.constant(2).scalar<T>();
    return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args) {
                        const int64_t first = first_element.of(args.params());
                        T* out = args.output<T>(0);
                        for (int64_t i = 0; i < n; ++i) {
                          const T k = static_cast<T>(first + i);
                          out[i] = static_cast<T>(Wrapping(start) + Wrapping(k) * Wrapping(delta));
                        }
                      })};
  });
}

absl::StatusOr<KernelPlan> CreateLinSpace(const KernelContext& c) {
  const int64_t n = c.output_shape(0).num_elements();
  const int64_t last = c.global_output_shape(0).num_elements() - 1;
  const FirstRow first_element(c, 0);
  return ForType(FloatingTypes(), c.output_dtype(0), [=]<typename T>(TypeTag<T>) {
    return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args) {
                        const T start = *args.input<T>(0), stop = *args.input<T>(1);
                        const T step = last > 0 ? (stop - start) / static_cast<T>(last) : T{0};
                        const int64_t first = first_element.of(args.params());
                        T* out = args.output<T>(0);
                        for (int64_t i = 0; i < n; ++i) {
                          out[i] = start + step * static_cast<T>(first + i);
                        }
                        // Both ends are exact, even if stop - start is not finite.
                        if (n > 0 && first == 0) out[0] = start;
                        if (n > 0 && last > 0 && first + n - 1 == last) out[n - 1] = stop;
                      })};
  });
}

}  // namespace

void RegisterShapeOpsCpu(KernelRegistry& kernels) {
  kernels.Register("Shape", "CPU", CreateShapeN);
  kernels.Register("ShapeN", "CPU", CreateShapeN);
  kernels.Register("VariableShape", "CPU", CreateShapeN);
  kernels.Register("Size", "CPU", CreateSize);
  kernels.Register("Rank", "CPU", CreateRank);
  kernels.Register("Fill", "CPU", CreateFill);
  kernels.Register("Range", "CPU", CreateRange);
  kernels.Register("LinSpace", "CPU", CreateLinSpace);
}

}  // namespace mirrorflow
