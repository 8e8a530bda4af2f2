// SPDX-License-Identifier: Apache-2.0
//
// Shape, ShapeN, Size, Rank, Fill and Range on the CPU. Those that read shapes are for whoever
// evaluates nodes one by one: in a plan they are constants.
#include <cstring>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

absl::StatusOr<Tensor> IntegersAs(DataType dtype, const Shape& shape,
                                  absl::Span<const int64_t> values) {
  if (dtype == DT_INT64) return Tensor::Of<int64_t>(shape, values);
  const std::vector<int32_t> narrow(values.begin(), values.end());
  return Tensor::Of<int32_t>(shape, narrow);
}

absl::StatusOr<KernelPlan> CreateShapeN(const KernelContext& c) {
  std::vector<Tensor> shapes;
  for (int i = 0; i < c.node().num_outputs(); ++i) {
    MF_ASSIGN_OR_RETURN(Tensor shape,
                        IntegersAs(c.output_dtype(i), c.output_shape(i), c.input_shape(i).dims()));
    shapes.push_back(std::move(shape));
  }
  return KernelPlan{.kernel =
                        MakeKernel([shapes = std::move(shapes)](const KernelArgs& args, Lane&) {
                          for (size_t i = 0; i < shapes.size(); ++i) {
                            if (shapes[i].bytes() == 0) continue;
                            std::memcpy(args.output<std::byte>(static_cast<int>(i)),
                                        shapes[i].raw(), shapes[i].bytes());
                          }
                          return absl::OkStatus();
                        })};
}

absl::StatusOr<KernelPlan> CreateSize(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Tensor size,
                      IntegersAs(c.output_dtype(0), Shape(), {c.input_shape(0).num_elements()}));
  return ConstantKernel(size);
}

absl::StatusOr<KernelPlan> CreateRank(const KernelContext& c) {
  return ConstantKernel(Tensor::Scalar<int32_t>(c.input_shape(0).rank()));
}

absl::StatusOr<KernelPlan> CreateFill(const KernelContext& c) {
  const StridedCopy repeat(c.output_dtype(0), {{c.output_shape(0).num_elements(), 0, 1}});
  return CopyKernel(c.output_dtype(0), {{1, 0, repeat}});
}

template <typename T>
KernelPlan RangeKernel(const KernelContext& c) {
  const T start = c.constant(0).scalar<T>(), delta = c.constant(2).scalar<T>();
  const int64_t n = c.output_shape(0).num_elements();
  // A replica that makes a share of the rows starts at its own.
  const Sharded* sharded = AsSharded(c.output_sharding(0));
  const AxisId axis = sharded != nullptr ? sharded->axis : 0;
  const int64_t factor = sharded != nullptr ? sharded->factor : 0;
  return {.kernel = MakeKernel([=](const KernelArgs& args, Lane&) {
            const int64_t first = args.params().first_row[axis] * factor;
            T* out = args.output<T>(0);
            for (int64_t i = 0; i < n; ++i) {
              const T k = static_cast<T>(first + i);
              out[i] = static_cast<T>(Wrapping(start) + Wrapping(k) * Wrapping(delta));
            }
            return absl::OkStatus();
          })};
}

absl::StatusOr<KernelPlan> CreateRange(const KernelContext& c) {
  switch (c.output_dtype(0)) {
    case DT_FLOAT:
      return RangeKernel<float>(c);
    case DT_DOUBLE:
      return RangeKernel<double>(c);
    case DT_INT32:
      return RangeKernel<int32_t>(c);
    case DT_INT64:
      return RangeKernel<int64_t>(c);
    default:
      return UnsupportedDataType(c.output_dtype(0));
  }
}

}  // namespace

void RegisterShapeOpsCpu(KernelRegistry& kernels) {
  kernels.Register("Shape", "CPU", CreateShapeN);
  kernels.Register("ShapeN", "CPU", CreateShapeN);
  kernels.Register("Size", "CPU", CreateSize);
  kernels.Register("Rank", "CPU", CreateRank);
  kernels.Register("Fill", "CPU", CreateFill);
  kernels.Register("Range", "CPU", CreateRange);
}

}  // namespace mirrorflow
