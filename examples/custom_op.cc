// SPDX-License-Identifier: Apache-2.0
//
// Defines an op, a CPU kernel and a compiler pass without changing the library. The op is Swish, y
// = x * sigmoid(x). The pass replaces the two library ops that compute it with Swish.
//
//   bazel run --config=opt //examples:custom_op
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "mirrorflow_extend.h"

namespace mf = mirrorflow;

namespace {

// Builds the gradient from ops: dy * (s + x * s * (1 - s)), with s = sigmoid(x).
absl::StatusOr<std::vector<mf::Output>> SwishGradient(const mf::GradContext& c) {
  const mf::Scope& scope = c.scope;
  const mf::Output x = c.op.input(0);
  const mf::Output s = mf::ops::Sigmoid(scope, x);
  const mf::Output one = mf::ops::ScalarConst(scope, x.dtype(), 1);
  const mf::Output slope =
      mf::ops::Mul(scope, mf::ops::Mul(scope, x, s), mf::ops::Sub(scope, one, s));
  return std::vector<mf::Output>{mf::ops::Mul(scope, c.dy[0], mf::ops::AddV2(scope, s, slope))};
}

void DefineSwish(mf::OpRegistry& ops) {
  ops.Define("Swish")
      .Doc("y = x * sigmoid(x)")
      .Input("x: T")
      .Output("y: T")
      .Attr("T: {float, double}")
      .Traits(mf::kElementwise)
      .Shape([](mf::ShapeContext& c) {
        c.set_output(0, c.input(0));
        return absl::OkStatus();
      })
      .Sharding(mf::ElementwiseSharding)
      .Gradient(SwishGradient);
}

// A factory sees the shapes of one replica. The kernel that it returns must not allocate or block.
template <typename T>
mf::KernelPlan SwishKernel(int64_t n) {
  auto run = [n](const mf::KernelArgs& args) {
    const T* const x = args.input<T>(0);
    T* const y = args.output<T>(0);
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] / (1 + std::exp(-x[i]));
  };
  return {.kernel = mf::MakeKernel(run), .in_place = {{0, 0}}};
}

absl::StatusOr<mf::KernelPlan> MakeSwish(const mf::KernelContext& c) {
  const int64_t n = c.output_shape(0).num_elements();
  if (c.input_dtype(0) == mf::DT_FLOAT) return SwishKernel<float>(n);
  if (c.input_dtype(0) == mf::DT_DOUBLE) return SwishKernel<double>(n);
  return mf::UnsupportedDataType(c.input_dtype(0));
}

// Replaces Mul(x, Sigmoid(x)) with Swish(x).
class FuseSwish final : public mf::Pass {
 public:
  absl::string_view name() const override { return "fuse_swish"; }
  mf::Facts needs() const override { return mf::kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(mf::Compilation& c) override {
    bool changed = false;
    for (mf::Node* node : c.graph.Nodes()) {
      if (node->op().name != "Mul") continue;
      const mf::Output x = node->input(0);
      const mf::Node& sigmoid = *node->input(1).node;
      if (sigmoid.op().name != "Sigmoid" || sigmoid.input(0) != x) continue;
      const mf::Output swish = c.scope().WithName("swish").Build(*c.ops, "Swish").Input(x).One();
      MF_RETURN_IF_ERROR(c.graph.status());
      c.ReplaceValue(node->output(0), swish);
      changed = true;
    }
    if (changed) c.RemoveDeadNodes();
    return changed;
  }
};

absl::Status Run() {
  mf::Extensions extensions;  // must outlive the graphs and strategies that use it
  DefineSwish(extensions.ops());
  extensions.kernels().Register("Swish", "CPU", MakeSwish);
  extensions.AddPass<FuseSwish>();
  MF_ASSIGN_OR_RETURN(auto strategy, mf::MirroredStrategy::Create(
                                         {.num_cpu_replicas = 2, .extensions = &extensions}));
  mf::Graph graph;
  mf::Scope root(&graph);
  auto x = mf::ops::Placeholder(root.WithName("x"), mf::DT_FLOAT, {-1});
  auto swish = root.Build(extensions.ops(), "Swish").Input(x).One();
  auto fused = mf::ops::Mul(root, x, mf::ops::Sigmoid(root, x));  // the pass fuses this
  MF_ASSIGN_OR_RETURN(auto gradients, mf::Gradients(root, {swish}, {x}));
  MF_ASSIGN_OR_RETURN(auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(auto step, session->Prepare({x}, {swish, fused, gradients[0]}));
  MF_ASSIGN_OR_RETURN(auto out, step.Run({mf::Tensor::Vector<float>({-1, 0, 2})}));
  for (int i = 0; i < 3; ++i) {
    std::printf("swish %.4f  fused %.4f  gradient %.4f\n", out[0].flat<float>()[i],
                out[1].flat<float>()[i], out[2].flat<float>()[i]);
  }
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
