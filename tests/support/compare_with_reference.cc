// SPDX-License-Identifier: Apache-2.0
#include "tests/support/compare_with_reference.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/step_runner.h"
#include "ops/registry.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/reference_lists.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

// Suffices for sums of a few hundred numbers of magnitude 1 in double precision, in different
// orders, through a dozen nodes.
constexpr Tolerance kTolerance{.relative = 1e-8, .absolute = 1e-9};
constexpr int kSteps = 2;

absl::StatusOr<std::string> DifferenceOfVariables(Session& session, Interpreter& reference) {
  for (const VariableInfo& variable : session.layout().variables()) {
    MF_ASSIGN_OR_RETURN(const Tensor got, session.ReadVariable(variable.name));
    const std::string difference =
        Difference(reference.variables()[variable.name], got, kTolerance);
    if (!difference.empty()) return absl::StrCat("variable ", variable.name, ": ", difference);
  }
  return DifferenceOfCopies(session);
}

}  // namespace

std::string ProgramSetting::ToString() const {
  return absl::StrCat(session.replicas, " replicas of ", session.threads_per_replica,
                      " threads, rows [", absl::StrJoin(rows, ","), "], ",
                      session.queued ? "queued" : "inline", ", without [",
                      absl::StrJoin(session.session.compile.disabled_passes, ","), "], buckets of ",
                      session.session.bucket_bytes);
}

absl::StatusOr<std::string> DifferenceOfCopies(const Session& session) {
  for (const VariableInfo& variable : session.layout().variables()) {
    if (variable.on_read) continue;
    MF_ASSIGN_OR_RETURN(const Tensor first, session.ReadVariable(variable.name, 0));
    for (int r = 1; r < session.num_local_replicas(); ++r) {
      MF_ASSIGN_OR_RETURN(const Tensor other, session.ReadVariable(variable.name, r));
      if (!Tensor::Identical(first, other)) {
        return absl::StrCat("variable ", variable.name, " on replica ", r,
                            " differs bitwise from replica 0");
      }
    }
  }
  return std::string();
}

absl::StatusOr<std::string> CompareWithReference(const RandomProgram& program,
                                                 const ProgramSetting& setting) {
  MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(program.graph, setting.session));
  const InterpreterOptions options = {.ops = &AllOps(), .run_list_op = RunListOp};
  MF_ASSIGN_OR_RETURN(Interpreter reference,
                      Interpreter::Create(program.graph, TestKernels(), options));
  for (const VariableInfo& variable : session->layout().variables()) {
    MF_ASSIGN_OR_RETURN(reference.variables()[variable.name], session->ReadVariable(variable.name));
  }
  MF_ASSIGN_OR_RETURN(std::string difference, DifferenceOfCopies(*session));
  if (!difference.empty()) return absl::StrCat("before the first step, ", difference);
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare(program.feeds, program.fetches, program.targets));
  std::vector<std::pair<Output, Tensor>> feeds;
  for (size_t i = 0; i < program.feeds.size(); ++i) {
    feeds.emplace_back(program.feeds[i], program.values[i]);
  }
  for (int s = 0; s < kSteps; ++s) {
    MF_ASSIGN_OR_RETURN(const StepOutputs got,
                        step.Run(program.values, {.replica_rows = setting.rows}));
    StepParams params;
    params.step = StreamOfRun(static_cast<uint64_t>(s), /*writes=*/session->step() > 0);
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> want,
                        reference.Run(feeds, program.fetches, program.targets, params));
    for (size_t i = 0; i < want.size(); ++i) {
      difference = Difference(want[i], got[i], kTolerance);
      if (!difference.empty()) {
        return absl::StrCat("step ", s, ", fetch ", program.fetches[i].ToString(), ": ",
                            difference);
      }
    }
    MF_ASSIGN_OR_RETURN(difference, DifferenceOfVariables(*session, reference));
    if (!difference.empty()) return absl::StrCat("step ", s, ", ", difference);
  }
  return std::string();
}

}  // namespace mirrorflow
