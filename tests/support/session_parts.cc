// SPDX-License-Identifier: Apache-2.0
#include "tests/support/session_parts.h"

#include <numeric>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "distribute/all_kernels.h"
#include "distribute/collective/team_communicator.h"
#include "distribute/pipeline.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kTimeout = absl::Minutes(1);

template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  return *std::move(value);
}

}  // namespace

SessionParts::SessionParts(const Graph& of, const SessionPartsOptions& options)
    : graph(of.Clone()) {
  const Topology topology =
      Topology::OneWorker(std::vector<std::string>(options.replicas), /*one_domain=*/true);
  VariableLayout layout =
      ValueOf(VariableLayout::Create(graph, /*bucket_bytes=*/64, options.replicas));
  CompileOptions compile;
  compile.verify = compile.check_plan = true;
  compiler = std::make_unique<StepCompiler>(
      graph,
      CompileTarget{.ops = &AllOps(),
                    .kernels = &AllKernels(),
                    .world = {.size = options.replicas, .has_teams = true}},
      CompileProgram, CompilePlan, compile, nullptr);
  std::vector<std::unique_ptr<Device>> devices;
  for (int r = 0; r < options.replicas; ++r) devices.push_back(CreateCpuDevice(r));
  std::vector<int> ranks(options.replicas);
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::vector<std::shared_ptr<std::byte>> own(layout.regions().size());
  replicas = ValueOf(
      LocalReplicas::Create(std::move(devices), ranks, layout, own, {.pin_threads = false}));
  connection = std::make_unique<Connection>(
      topology, nullptr,
      [](const Topology& world, absl::Span<const int>, WorkerGroup*, uint64_t, MonotonicTime) {
        return CreateTeamCommunicators(world.world_size(), kTimeout);
      },
      HangPolicy());
  EXPECT_EQ(connection->Join(MonotonicTime::Now() + kTimeout), absl::OkStatus());
  EXPECT_EQ(connection->Connect(replicas->all(), MonotonicTime::Now() + kTimeout),
            absl::OkStatus());
  exchange = std::make_unique<RankExchange>(
      *replicas, *connection, log.counters,
      RankExchange::Options{.timeout = kTimeout, .report_timeout = kTimeout});
  variables =
      std::make_unique<VariableStore>(std::move(layout), *exchange, VariableStore::Sharing());
  cache = std::make_unique<StepCache>(*compiler, variables->layout(), *replicas,
                                      StepCache::Options{.max_steps = options.max_steps,
                                                         .max_bytes = options.max_bytes,
                                                         .world_size = options.replicas});
  runner = std::make_unique<StepRunner>(
      replicas, *connection, *variables, *cache, log,
      StepRunner::Options{.step_timeout = kTimeout, .report_timeout = kTimeout});
}

std::unique_ptr<PreparedStep> SessionParts::Prepare(absl::Span<const Output> feeds,
                                                    absl::Span<const Output> fetches,
                                                    absl::Span<const Operation> targets) {
  auto step = std::make_unique<PreparedStep>();
  step->index = num_steps++;
  step->signature = ValueOf(ResolveSignature(graph, feeds, fetches, targets));
  return step;
}

std::unique_ptr<StepRunner> SessionParts::NewRunner() {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(replicas->first().device().Clone());
  const int ranks[] = {0};
  std::shared_ptr<LocalReplicas> others =
      ValueOf(LocalReplicas::Create(std::move(devices), ranks, variables->layout(),
                                    replicas->first().layout_memory(), {.pin_threads = false}));
  return std::make_unique<StepRunner>(
      std::move(others), *connection, *variables, *cache, log,
      StepRunner::Options{.step_timeout = kTimeout, .report_timeout = kTimeout});
}

absl::StatusOr<StepOutputs> SessionParts::Run(StepRunner& runner, const PreparedStep& step,
                                              absl::Span<const Tensor> feeds) {
  MF_ASSIGN_OR_RETURN(BoundStep * bound, runner.Bind(step, feeds, {}));
  MF_RETURN_IF_ERROR(runner.Run(*bound, feeds, {}));
  StepOutputs outputs;
  outputs.assign(bound->outputs);
  return outputs;
}

std::vector<float> ValuesOf(const Tensor& t) {
  const absl::Span<float> values = t.flat<float>();
  return std::vector<float>(values.begin(), values.end());
}

}  // namespace mirrorflow
