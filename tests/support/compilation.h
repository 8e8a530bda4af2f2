// SPDX-License-Identifier: Apache-2.0
//
// Parses a step from a graph in text form, and prints it as text, for tests of passes.
#ifndef MIRRORFLOW_TESTS_SUPPORT_COMPILATION_H_
#define MIRRORFLOW_TESTS_SUPPORT_COMPILATION_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"
#include "framework/compiler/pipeline.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

// The names of a step's feeds, fetches and targets. A fetch can name an output: `node:1`.
struct StepNames {
  std::vector<std::pair<std::string, Shape>> feeds = {};
  std::vector<std::string> fetches = {};
  std::vector<std::string> targets = {};
  int64_t bucket_bytes = int64_t{1} << 20;
};

// A compilation and the layout that it points to.
struct TestCompilation {
  VariableLayout layout;
  Compilation c;
};

// Parses a graph of library ops and collectives into a compilation of the named step.
absl::StatusOr<std::unique_ptr<TestCompilation>> ParseStep(absl::string_view text,
                                                           const StepNames& names);

// StepToText prints one line per node in topological order: `name = Op(in0, in1, ^control)`,
// followed by ` = value` for a constant and, on request, the sharding of output 0 as ` : sharding`.
struct StepToTextOptions {
  bool shardings = false;
};
std::string StepToText(const Compilation& c, const StepToTextOptions& options = {});

// Runs each pass once, and the verifier after each pass. Assumes that the facts that the passes
// require are true.
template <typename State, typename... P>
absl::Status RunPasses(State& c, P... passes) {
  PipelineOver<State> pipeline;
  c.options.verify = true;
  c.facts = (passes.needs() | ...);
  (pipeline.template Add<P>(std::move(passes)), ...);
  return pipeline.Run(c);
}

// The gradients of three layers, from the last layer to the first, each with a collective and an
// update.
inline constexpr char kBackward[] = R"(
v1 = VarHandleOp() {dtype=float, shape=<2>}
v2 = VarHandleOp() {dtype=float, shape=<2>}
v3 = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
g3 = Neg(x) {T=float}
g2 = Neg(g3) {T=float}
g1 = Neg(g2) {T=float}
r3 = AllReduce(g3) {N=1, T=float}
r2 = AllReduce(g2) {N=1, T=float}
r1 = AllReduce(g1) {N=1, T=float}
u1 = AssignSubVariableOp(v1, r1) {dtype=float}
u2 = AssignSubVariableOp(v2, r2) {dtype=float}
u3 = AssignSubVariableOp(v3, r3) {dtype=float}
)";

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_COMPILATION_H_
