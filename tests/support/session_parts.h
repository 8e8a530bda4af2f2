// SPDX-License-Identifier: Apache-2.0
//
// SessionParts: the components of a CPU session, wired up without a Session, for unit tests.
#ifndef MIRRORFLOW_TESTS_SUPPORT_SESSION_PARTS_H_
#define MIRRORFLOW_TESTS_SUPPORT_SESSION_PARTS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/core/tensor.h"
#include "framework/session/prepared_step.h"
#include "framework/session/runner_pool.h"
#include "framework/session/step_cache.h"
#include "framework/session/step_compiler.h"
#include "framework/session/step_runner.h"
#include "framework/session/variable_store.h"
#include "framework/workers/connection.h"
#include "framework/workers/local_replicas.h"
#include "framework/workers/rank_exchange.h"

namespace mirrorflow {

struct SessionPartsOptions {
  int replicas = 1;
  int max_steps = 128;  // in the cache
  int64_t max_bytes = int64_t{1} << 60;
};

struct SessionParts {
  // Reports any failure as a test failure.
  explicit SessionParts(const Graph& of, const SessionPartsOptions& options = {});

  // Prepares a step of the graph.
  std::unique_ptr<PreparedStep> Prepare(absl::Span<const Output> feeds,
                                        absl::Span<const Output> fetches,
                                        absl::Span<const Operation> targets = {});
  // Returns another runner that uses the same variables. REQUIRES: one replica
  std::unique_ptr<StepRunner> NewRunner();
  // Binds the step for the feeds and runs it.
  static absl::StatusOr<StepOutputs> Run(StepRunner& runner, const PreparedStep& step,
                                         absl::Span<const Tensor> feeds);

  Graph graph;
  RunLog log;
  std::unique_ptr<StepCompiler> compiler;
  std::shared_ptr<LocalReplicas> replicas;
  std::unique_ptr<Connection> connection;
  std::unique_ptr<RankExchange> exchange;
  std::unique_ptr<VariableStore> variables;
  std::unique_ptr<StepCache> cache;
  std::unique_ptr<StepRunner> runner;
  size_t num_steps = 0;
};

// Returns the values of a float tensor.
std::vector<float> ValuesOf(const Tensor& t);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_SESSION_PARTS_H_
