// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/collective_ops.h"

#include <cstring>

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {
namespace {

// Shapes are global: the sharding of a value does not affect its shape.
absl::Status SameShapes(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.set_output(i, c.input(i));
  return absl::OkStatus();
}

OpBuilder Define(OpRegistry& ops, absl::string_view name, absl::string_view doc) {
  return ops.Define(name)
      .Doc(doc)
      .Attr("T: type")
      .Traits(kStateful)
      .Shape(SameShapes)
      .Gathers("the pass that inserts it sets the shardings of its operands")
      .NoGradient("inserted after differentiation");
}

absl::StatusOr<KernelPlan> CreateShardSlice(const KernelContext& c) {
  const int dim = static_cast<int>(c.attr<int64_t>("dim"));
  const int64_t axis = c.attr<int64_t>("axis"), factor = c.attr<int64_t>("factor");
  const Shape &in = c.input_shape(0), &out = c.output_shape(0);
  int64_t outer = 1, inner = static_cast<int64_t>(DataTypeSize(c.output_dtype(0)));
  for (int d = 0; d < dim; ++d) outer *= in.dim(d);
  for (int d = dim + 1; d < in.rank(); ++d) inner *= in.dim(d);
  const int64_t in_stride = in.dim(dim) * inner, out_stride = out.dim(dim) * inner;
  return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args) {
                      const int64_t first = args.params().first_row[axis] * factor * inner;
                      const std::byte* from = args.input<std::byte>(0) + first;
                      std::byte* to = args.output<std::byte>(0);
                      for (int64_t o = 0; o < outer; ++o) {
                        std::memcpy(to + o * out_stride, from + o * in_stride, out_stride);
                      }
                    })};
}

absl::StatusOr<KernelPlan> CreateFirstReplicaOnly(const KernelContext& c) {
  const size_t bytes = c.output_shape(0).num_elements() * DataTypeSize(c.output_dtype(0));
  return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args) {
                      if (args.params().replica == 0) {
                        std::memcpy(args.output<std::byte>(0), args.input<std::byte>(0), bytes);
                      } else {
                        std::memset(args.output<std::byte>(0), 0, bytes);
                      }
                    })};
}

}  // namespace

void RegisterCollectiveOps(OpRegistry& ops) {
  Define(ops, kShardSlice,
         "Returns this replica's shard of a replicated value, split along dimension `dim`.")
      .Input("whole: T")
      .Output("share: T")
      .Attr("axis: int >= 0")
      .Attr("dim: int >= 0")
      .Attr("factor: int >= 1");
  Define(ops, kFirstReplicaOnly,
         "Returns the value on replica 0 and zeros on all other replicas, which sum to the value.")
      .Input("value: T")
      .Output("part: T");
}

void RegisterCollectiveKernelsCpu(KernelRegistry& kernels) {
  kernels.Register(kShardSlice, "CPU", CreateShardSlice);
  kernels.Register(kFirstReplicaOnly, "CPU", CreateFirstReplicaOnly);
}

const OpRegistry& CollectiveOps() {
  static const OpRegistry* const registry = [] {
    auto* ops = new OpRegistry();
    RegisterCollectives(*ops);
    RegisterCollectiveOps(*ops);
    MF_CHECK(ops->Seal().ok());
    return ops;
  }();
  return *registry;
}

}  // namespace mirrorflow
