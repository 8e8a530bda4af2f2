// SPDX-License-Identifier: Apache-2.0
//
// A step out of a graph in text form, for tests of passes, and back to text.
#ifndef MIRRORFLOW_TESTS_SUPPORT_COMPILATION_H_
#define MIRRORFLOW_TESTS_SUPPORT_COMPILATION_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"
#include "framework/compiler/pass.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

// What a step feeds, fetches and runs, by name. Fetches may say an output: `node:1`.
struct StepNames {
  std::vector<std::pair<std::string, Shape>> feeds = {};
  std::vector<std::string> fetches = {};
  std::vector<std::string> targets = {};
  int64_t bucket_bytes = int64_t{1} << 20;
};

// A compilation with the layout that it points to.
struct TestCompilation {
  VariableLayout layout;
  Compilation c;
};

// Ops are those of the library and the collectives.
absl::StatusOr<std::unique_ptr<TestCompilation>> ParseStep(absl::string_view text,
                                                           const StepNames& names);

// One line a node in topological order: `name = Op(in0, in1, ^control)`, ` = value` of a constant,
// and if asked ` : sharding` of output 0.
struct StepToTextOptions {
  bool shardings = false;
};
std::string StepToText(const Compilation& c, const StepToTextOptions& options = {});

// Runs the passes, each once, with the verifier after each, as if the facts that they need held.
template <typename... P>
absl::Status RunPasses(Compilation& c, P... passes) {
  Pipeline pipeline;
  c.options.verify = true;
  c.facts = (passes.needs() | ...);
  (pipeline.Add<P>(std::move(passes)), ...);
  return pipeline.Run(c);
}

// Three layers' gradients, the last layer's first; a collective and an update each.
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
