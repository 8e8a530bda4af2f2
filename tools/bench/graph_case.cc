// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/graph_case.h"

#include <utility>

#include "framework/core/status.h"
#include "framework/graph/graph_file.h"
#include "ops/registry.h"
#include "tools/flags/graph_flags.h"
#include "tools/flags/step_inputs.h"

namespace mirrorflow {

absl::StatusOr<GraphCase> ReadGraphCase(const std::string& path, int64_t rows, ExitCode* code) {
  *code = kExitUsage;
  MF_ASSIGN_OR_RETURN(std::vector<NamedFile> given, FeedsFromFlags());
  *code = kExitBadInput;
  GraphCase of;
  MF_ASSIGN_OR_RETURN(of.graph, ReadGraphFile(path, AllOps(), GraphLimitsOfFlags()));
  *code = kExitUsage;
  MF_RETURN_IF_ERROR(FindOutputs(of.graph, given));
  MF_ASSIGN_OR_RETURN(StepSelection selected, SelectStepFromFlags(of.graph));
  *code = kExitBadInput;
  MF_ASSIGN_OR_RETURN(of.feeds, ReadFeeds(given));
  for (size_t i = 0; i < given.size(); ++i) {
    selected.feeds.push_back(given[i].output);
    selected.shapes.push_back(of.feeds[i].shape());
  }
  MF_ASSIGN_OR_RETURN(of.step, Annotate(WithFeeds(of.graph, std::move(selected), rows), path));
  for (size_t i = given.size(); i < of.step.feeds.size(); ++i) {
    MF_ASSIGN_OR_RETURN(Tensor value, NoiseOf(of.step.feeds[i].dtype(), of.step.shapes[i]));
    of.feeds.push_back(std::move(value));
  }
  return of;
}

absl::StatusOr<ReadyStep> PrepareGraph(const GraphCase& of, std::unique_ptr<Strategy> strategy) {
  ReadyStep ready{.strategy = std::move(strategy), .feeds = of.feeds};
  MF_ASSIGN_OR_RETURN(ready.session, ready.strategy->NewSession(of.graph));
  MF_RETURN_IF_ERROR(LoadVariablesFromFlags(of.step, *ready.session));
  MF_ASSIGN_OR_RETURN(ready.step,
                      ready.session->Prepare(of.step.feeds, of.step.fetches, of.step.targets));
  return ready;
}

absl::Status CheckNoGraphStepFlags() {
  return CheckDefaults({"feed", "fetch", "target", "variables"}, "given without a graph file");
}

}  // namespace mirrorflow
