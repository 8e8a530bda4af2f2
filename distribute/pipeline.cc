// SPDX-License-Identifier: Apache-2.0
#include "distribute/pipeline.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "distribute/passes/bucket_collectives.h"
#include "distribute/passes/insert_collectives.h"
#include "distribute/passes/order_collectives.h"
#include "distribute/passes/propagate_sharding.h"
#include "distribute/passes/reduce_in_updates.h"
#include "framework/compiler/passes/common_subexpressions.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/compiler/passes/order_variables.h"
#include "framework/compiler/passes/prune.h"
#include "framework/core/status.h"
#include "ops/control_flow/passes/functionalize_control_flow.h"
#include "ops/control_flow/passes/loop_bound.h"
#include "ops/control_flow/passes/lower_tensor_lists.h"
#include "ops/passes/fuse_attention.h"
#include "ops/passes/fuse_bias_and_relu.h"
#include "ops/passes/fuse_elementwise.h"
#include "ops/passes/fuse_updates.h"
#include "ops/passes/make_products.h"
#include "ops/passes/mixed_precision.h"
#include "ops/passes/relu_behind_pool.h"
#include "ops/passes/simplify_algebra.h"

namespace mirrorflow {
namespace {

// Scalars and the like: many fit into one message without making anybody wait for more than he
// needs.
constexpr int64_t kSmallBucketBytes = 64 << 10;

constexpr int kMaxSimplifyRounds = 16;

}  // namespace

Pipeline ProgramPipeline() {
  Pipeline p;
  p.Phase("understand");
  p.Add<Prune>();
  p.Add<FunctionalizeControlFlow>();
  p.Add<InferAndFold>(&LoopBound);
  p.Add<LowerTensorLists>();
  p.Phase("simplify");
  p.Add<MakeProducts>();
  p.Add<ReluBehindPool>();
  p.AddUntilStable<SimplifyAlgebra, CommonSubexpressions>(kMaxSimplifyRounds);
  p.Add<FuseAttention>();
  p.Phase("shard");
  p.Add<PropagateSharding>();
  p.Add<InsertCollectives>();
  p.Phase("mix");
  p.Add<MixedPrecision>();
  p.Phase("communicate");
  p.Add<ReduceInUpdates>();
  p.Add<BucketCollectives>(kSmallBucketBytes);
  p.Add<FuseBiasAndRelu>();
  p.Add<FuseUpdates>();
  p.Add<FuseElementwise>();
  p.Add<OrderVariables>();
  p.Add<OrderCollectives>();
  return p;
  // The second half runs once per device type and share of rows: CompilePlan, framework/compiler.
  //   localise  Localise: one replica's shapes
  //   layout    CreateKernels: each kernel has its own, behind plain operands
  //   fuse      nothing yet
  //   schedule  ScheduleNodes
  //   memory    StorageTable: what shares memory; PlanMemory: where it lies
  //   check     CheckPlan
}

absl::StatusOr<std::shared_ptr<const Program>> CompileProgram(const Graph& graph,
                                                              const GlobalSignature& signature,
                                                              const VariableLayout& layout,
                                                              const SessionBackend& backend,
                                                              const CompileOptions& options) {
  if (signature.feed_shapes.size() != signature.step.feeds.size()) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", signature.step.feeds.size(),
                                                   " feed shapes, got ",
                                                   signature.feed_shapes.size()));
  }
  auto program = std::make_shared<Program>();
  Compilation& c = program->state;
  c.graph = graph.Clone();
  c.ops = backend.ops;
  c.kernels = backend.kernels;
  c.layout = &layout;
  c.options = options;
  // Ids survive the copy.
  auto own = [&](const Output& o) { return Output{c.graph.node(o.node->id()), o.index}; };
  for (const Output& feed : signature.step.feeds) c.feeds.push_back(own(feed));
  for (const Output& fetch : signature.step.fetches) c.fetches.push_back(own(fetch));
  for (const Node* target : signature.step.targets) {
    c.targets.push_back(c.graph.node(target->id()));
  }
  c.feed_shapes = signature.feed_shapes;
  c.initialized = signature.initialized;
  c.ranks_share_memory = backend.ranks_share_memory;
  if (!backend.devices.empty()) c.device_types.clear();  // else nothing runs what is made
  for (const std::unique_ptr<Device>& device : backend.devices) {
    const std::string& type = device->traits().type;
    if (!absl::c_linear_search(c.device_types, type)) c.device_types.push_back(type);
  }
  MF_RETURN_IF_ERROR(ProgramPipeline().Run(c));

  return std::shared_ptr<const Program>(std::move(program));
}

}  // namespace mirrorflow
