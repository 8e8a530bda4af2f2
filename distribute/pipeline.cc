// SPDX-License-Identifier: Apache-2.0
#include "distribute/pipeline.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/passes/bucket_collectives.h"
#include "distribute/passes/count_replicas.h"
#include "distribute/passes/find_batch_rows.h"
#include "distribute/passes/insert_collectives.h"
#include "distribute/passes/mark_rows.h"
#include "distribute/passes/order_collectives.h"
#include "distribute/passes/propagate_sharding.h"
#include "distribute/passes/reduce_in_updates.h"
#include "framework/compiler/passes/common_subexpressions.h"
#include "framework/compiler/passes/drop_reader_edges.h"
#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/compiler/passes/order_variables.h"
#include "framework/compiler/passes/prune.h"
#include "framework/compiler/plan/assign_storage.h"
#include "framework/compiler/plan/check_plan.h"
#include "framework/compiler/plan/choose_kernels.h"
#include "framework/compiler/plan/concat_in_place.h"
#include "framework/compiler/plan/divide_among_threads.h"
#include "framework/compiler/plan/emit_instructions.h"
#include "framework/compiler/plan/finish_updates_late.h"
#include "framework/compiler/plan/guard_writes.h"
#include "framework/compiler/plan/infer_local_shapes.h"
#include "framework/compiler/plan/order_threads.h"
#include "framework/compiler/plan/plan_memory.h"
#include "framework/compiler/plan/schedule_nodes.h"
#include "framework/compiler/plan/split_into_microbatches.h"
#include "framework/core/status.h"
#include "ops/control_flow/passes/functionalize_control_flow.h"
#include "ops/control_flow/passes/loop_bound.h"
#include "ops/control_flow/passes/lower_tensor_lists.h"
#include "ops/passes/elide_attention_transposes.h"
#include "ops/passes/fold_batch_norm.h"
#include "ops/passes/fold_padding.h"
#include "ops/passes/fuse_attention.h"
#include "ops/passes/fuse_elementwise.h"
#include "ops/passes/fuse_epilogues.h"
#include "ops/passes/fuse_gelu.h"
#include "ops/passes/fuse_keras_adam.h"
#include "ops/passes/fuse_layer_norm.h"
#include "ops/passes/fuse_updates.h"
#include "ops/passes/lower_to_matmul.h"
#include "ops/passes/mixed_precision.h"
#include "ops/passes/simplify_algebra.h"
#include "ops/passes/sink_relu_below_max_pool.h"

namespace mirrorflow {
namespace {

// With buckets of this size, an update waits only a little longer than for its own gradient, and
// many scalars still share one message.
constexpr int64_t kSmallBucketBytes = 64 << 10;

constexpr int kMaxSimplifyRounds = 16;

}  // namespace

Pipeline ProgramPipeline(absl::Span<const PassMaker> extensions) {
  Pipeline p;
  p.Add<Prune>();
  p.Add<FunctionalizeControlFlow>();
  p.Add<CountReplicas>();
  p.Add<MarkRows>(&LoopBound);
  p.Add<InferAndFold>(&LoopBound);
  p.Add<LowerTensorLists>();
  // User passes run before the rewrites below, so the nodes that they match still exist.
  for (const PassMaker& make : extensions) p.Add(make);

  p.Add<FoldPadding>();
  p.Add<LowerToMatmul>();
  p.Add<SinkReluBelowMaxPool>();
  p.AddUntilStable<SimplifyAlgebra, CommonSubexpressions>(kMaxSimplifyRounds);
  p.Add<FuseGelu>();
  p.Add<FuseLayerNorm>();
  p.Add<FuseAttention>();
  p.Add<FuseKerasAdam>();
  p.Add<ElideAttentionTransposes>();

  p.Add<PropagateSharding>();
  p.Add<FindBatchRows>();
  p.Add<InsertCollectives>();
  p.Add<MixedPrecision>();
  p.Add<ReduceInUpdates>();
  p.Add<BucketCollectives>(kSmallBucketBytes);
  p.Add<OrderVariables>();
  p.Add<OrderCollectives>();
  return p;
}

PipelineOver<PlanState> PlanPipeline() {
  PipelineOver<PlanState> p;
  // These passes know the device, so they fuse only into nodes that it has kernels for.
  p.Add<DropReaderEdges>();
  p.Add<FoldBatchNorm>();
  p.Add<FuseEpilogues>();
  p.Add<FuseElementwise>();
  p.Add<OrderVariables>();
  p.Add<FuseUpdates>();

  p.Add<InferLocalShapes>();
  p.Add<SplitIntoMicrobatches>();
  p.Add<ChooseKernels>();
  p.Add<ConcatInPlace>();
  p.Add<DivideAmongThreads>();
  p.Add<GuardWrites>();
  p.Add<ScheduleNodes>();
  p.Add<AssignStorage>();
  p.Add<EmitInstructions>();
  p.Add<FinishUpdatesLate>();
  p.Add<PlanMemory>();
  p.Add<OrderThreads>();
  p.Add<CheckPlan>();
  return p;
}

namespace {

absl::Status CheckPassNames(const CompileOptions& options, const CompileTarget& target) {
  if (options.disabled_passes.empty()) return absl::OkStatus();
  const Pipeline program = ProgramPipeline(target.passes);
  const PipelineOver<PlanState> plan = PlanPipeline();
  for (const std::string& name : options.disabled_passes) {
    if (program.Has(name) || plan.Has(name)) continue;
    std::vector<std::string> known = program.OptionalPasses();
    for (std::string& optional : plan.OptionalPasses()) known.push_back(std::move(optional));
    return absl::InvalidArgumentError(
        absl::StrCat("disabled_passes: unknown pass; expected any of ", absl::StrJoin(known, ", "),
                     ", got ", name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Program>> CompileProgram(const Graph& graph,
                                                              const GlobalSignature& signature,
                                                              const VariableLayout& layout,
                                                              const CompileTarget& target,
                                                              const CompileOptions& options) {
  if (signature.feed_shapes.size() != signature.step.feeds.size()) {
    return absl::InvalidArgumentError(absl::StrCat("feed_shapes: expected one shape for each of ",
                                                   signature.step.feeds.size(), " feeds, got ",
                                                   signature.feed_shapes.size()));
  }
  MF_RETURN_IF_ERROR(CheckPassNames(options, target));
  auto program = std::make_shared<Program>();
  Compilation& c = program->state;
  c.graph = graph.Clone();
  c.ops = target.ops;
  c.kernels = target.kernels;
  c.layout = &layout;
  c.options = options;
  c.shard = signature.shard && target.world.size > 1;
  const auto own = [&](Node* node) { return c.graph.CopyOf(node, "program", "CompileProgram"); };
  for (const Output& feed : signature.step.feeds) {
    MF_ASSIGN_OR_RETURN(Node * node, own(feed.node));
    c.feeds.push_back(node->output(feed.index));
  }
  for (const Output& fetch : signature.step.fetches) {
    MF_ASSIGN_OR_RETURN(Node * node, own(fetch.node));
    c.fetches.push_back(node->output(fetch.index));
    c.gathered.push_back(signature.step.gathers_fetches &&
                         !absl::c_linear_search(signature.step.local_fetches, fetch));
  }
  for (Node* target : signature.step.targets) {
    MF_ASSIGN_OR_RETURN(Node * node, own(target));
    c.targets.push_back(node);
  }
  c.feed_shapes = signature.feed_shapes;
  c.initialized = signature.initialized;
  c.world = target.world;
  MF_RETURN_IF_ERROR(ProgramPipeline(target.passes).Run(c));

  return std::shared_ptr<const Program>(std::move(program));
}

absl::StatusOr<std::shared_ptr<const Plan>> CompilePlan(const Program& program,
                                                        const std::vector<int64_t>& rows,
                                                        const DeviceTraits& traits,
                                                        TuningTable* tuning) {
  PlanState state(program.state, rows, traits, program.state.kernels->NewLibrary(traits.type),
                  tuning);
  MF_RETURN_IF_ERROR(PlanPipeline().Run(state));
  return std::shared_ptr<const Plan>(state.plan);
}

}  // namespace mirrorflow
