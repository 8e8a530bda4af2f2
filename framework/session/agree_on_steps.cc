// SPDX-License-Identifier: Apache-2.0
#include "framework/session/agree_on_steps.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/workers/agreement.h"
#include "framework/workers/run_counters.h"

namespace mirrorflow {
namespace {

std::string YesOrNo(bool value) { return value ? "yes" : "no"; }

void AddOptions(const CompileOptions& options, Agreement* agreement) {
  std::vector<std::string> disabled(options.disabled_passes.begin(), options.disabled_passes.end());
  absl::c_sort(disabled);
  agreement->Add("option disabled_passes", absl::StrJoin(disabled, ", "));
  agreement->Add("option compute_dtype", DataTypeName(options.compute_dtype));
  agreement->Add("option allow_tf32", YesOrNo(options.kernels.allow_tf32));
  agreement->Add("option allow_winograd", YesOrNo(options.kernels.allow_winograd));
  agreement->Add("option autotune", YesOrNo(options.kernels.autotune));
}

void AddSignature(const StepSignature& signature, absl::Span<const Shape> feed_shapes,
                  Agreement* agreement) {
  for (size_t i = 0; i < signature.feeds.size(); ++i) {
    const Output& feed = signature.feeds[i];
    agreement->Add(
        absl::StrCat("feed ", i),
        absl::StrCat(feed.ToString(), " ", DataTypeName(feed.dtype()), feed_shapes[i].ToString()));
  }
  for (size_t i = 0; i < signature.fetches.size(); ++i) {
    const Output& fetch = signature.fetches[i];
    const bool is_local = absl::c_linear_search(signature.local_fetches, fetch);
    agreement->Add(absl::StrCat("fetch ", i),
                   absl::StrCat(fetch.ToString(), is_local ? " (local)" : ""));
  }
  for (size_t i = 0; i < signature.targets.size(); ++i) {
    agreement->Add(absl::StrCat("target ", i), signature.targets[i]->name());
  }
}

// Adds names and shapes before offsets, so that an error names the variable that differs, not a
// later one that has a different offset as a result.
void AddLayout(const VariableLayout& layout, Agreement* agreement) {
  for (const VariableInfo& v : layout.variables()) {
    agreement->Add(
        absl::StrCat(v.is_optimizer_state ? "optimizer's variable " : "variable ", v.name),
        absl::StrCat(DataTypeName(v.dtype), v.shape.ToString()));
  }
  for (const VariableInfo& v : layout.variables()) {
    agreement->Add(absl::StrCat("offset of ", v.name),
                   absl::StrCat("region ", v.region, " at ", v.offset));
  }
  for (const LayoutRegion& region : layout.regions()) {
    agreement->Add(absl::StrCat("region ", region.name), absl::StrCat(region.bytes, " bytes"));
  }
}

void AddSchedule(const Plan& plan, Agreement* agreement) {
  for (size_t i = 0; i < plan.collectives.size(); ++i) {
    const PlannedCollective& c = plan.collectives[i];
    agreement->Add(
        absl::StrCat("collective ", i),
        absl::StrCat(c.kind(), " '", c.name, "' of ", c.count, " ", DataTypeName(c.dtype)));
  }
  for (const PlannedControl& control : plan.controls) {
    for (const auto& inner : control.plans) AddSchedule(*inner, agreement);
  }
}

}  // namespace

absl::Status AgreeOnVariables(const VariableLayout& layout, const LinkCosts& link,
                              const Connection& connection, MonotonicTime deadline) {
  Agreement agreement;
  agreement.Add("topology", connection.topology().ToString());
  agreement.Add("costs between domains", link.ToString());
  AddLayout(layout, &agreement);
  return Agree(agreement, "variables", connection.topology(), *connection.workers(), deadline);
}

absl::Status AgreeOnStep(const PreparedStep& step, const CompiledStep& compiled,
                         const VariableStore& variables, const RunCounters& counters,
                         const SessionOptions& options, const Connection& connection,
                         absl::string_view name, MonotonicTime deadline) {
  constexpr const char* kStates[] = {"not initialised", "initialised", "indeterminate"};
  Agreement agreement;
  agreement.Add("topology", connection.topology().ToString());
  agreement.Add("step", absl::StrCat(counters.writing.load()));
  agreement.Add("runs that write nothing", absl::StrCat(counters.reading.load()));
  agreement.Add("seed", absl::StrCat(options.seed));
  agreement.Add("option bucket_bytes", absl::StrCat(options.bucket_bytes));
  agreement.Add("option max_cached_steps", absl::StrCat(options.max_cached_steps));
  AddOptions(options.compile, &agreement);
  AddSignature(step.signature, compiled.shapes, &agreement);
  for (size_t axis = 0; axis < compiled.rows.size(); ++axis) {
    agreement.Add(absl::StrCat("rows of axis ", axis, " by rank"),
                  absl::StrJoin(compiled.rows[axis], ", "));
  }
  agreement.Add("evicted from the cache for this step", compiled.replaced);
  const VariableStore::States states = variables.states();
  for (size_t v = 0; v < states.size(); ++v) {
    agreement.Add(absl::StrCat("state of variable ", variables.info(v).name),
                  kStates[static_cast<int>(states[v].load())]);
  }
  for (const int v : variables.initial()) {
    agreement.Add("takes its initial value from rank 0", variables.info(v).name);
  }
  AddLayout(variables.layout(), &agreement);
  agreement.AddText(compiled.program->ToString());
  AddSchedule(*compiled.plans[0], &agreement);
  return Agree(agreement, name, connection.topology(), *connection.workers(), deadline);
}

// Ignores choices for row counts that no local replica has. For row counts that worker 0 has not
// tuned, the kernel library's default applies.
absl::Status TakeTuningOfWorker0(absl::string_view agreement, WorkerGroup& workers,
                                 MonotonicTime deadline, TuningTable& tuning) {
  const std::string key = absl::StrCat("autotune of ", agreement);
  if (workers.worker() == 0) return workers.PutForOthers(key, tuning.ToString(), deadline);
  MF_ASSIGN_OR_RETURN(const std::string choices, workers.Get(key, deadline));
  return tuning.TakeOver(choices);
}

absl::StatusOr<uint64_t> TakeSeedOfWorker0(uint64_t seed, WorkerGroup& workers,
                                           MonotonicTime deadline) {
  if (workers.worker() == 0) {
    MF_RETURN_IF_ERROR(workers.Put("seed", absl::StrCat(seed), deadline));
    return seed;
  }
  MF_ASSIGN_OR_RETURN(const std::string text, workers.Get("seed", deadline));
  if (absl::SimpleAtoi(text, &seed)) return seed;
  return absl::InternalError(
      absl::StrCat("worker 0's seed: expected an integer, got '", text, "'"));
}

}  // namespace mirrorflow
