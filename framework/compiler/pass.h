// SPDX-License-Identifier: Apache-2.0
//
// Pass: one step of the compiler. It declares the facts (compilation.h) that it needs, establishes
// and invalidates, so that a Pipeline can check the order.
//
// The compiler has two halves. The first turns a step's graph into a program: a graph with global
// shapes, shardings and collectives, which is the same on all workers. Its passes transform a
// Compilation. The second turns the program into a plan for one type of device and one number of
// local rows: kernels, memory offsets and instructions. Its passes transform a PlanState. A user's
// pass belongs to the first half (Extensions::AddPass).
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

class PassInfo {
 public:
  virtual ~PassInfo() = default;
  // Returns the name of the pass, such as `fuse_swish`, which CompileOptions::disabled_passes and
  // errors use. For the library's passes, it is also the name of the file.
  virtual absl::string_view name() const = 0;
  virtual Facts needs() const { return 0; }  // facts that must hold before Run
  virtual Facts gives() const { return 0; }  // facts that hold after Run
  virtual Facts ends() const { return 0; }   // facts that no longer hold after Run
  // Returns true if the program has the same meaning without the pass, so that
  // CompileOptions::disabled_passes may list it.
  virtual bool optional() const { return false; }
  // Returns true if Run itself transforms the functions of branches and loops, because its result
  // for the enclosing graph depends on them. If false, the pipeline also calls Run on each of these
  // functions.
  virtual bool enters_bodies() const { return false; }
};

// A pass over a Compilation or, in the second half of the compiler, over a PlanState (PlanPass).
template <typename State>
class PassOver : public PassInfo {
 public:
  // Returns whether anything changed. After an error, the state is inconsistent and must be
  // discarded.
  virtual absl::StatusOr<bool> Run(State& state) = 0;
};
using Pass = PassOver<Compilation>;

using PassMaker = std::function<std::unique_ptr<Pass>()>;

// Observes the state before and after every pass in both halves of the compiler
// (CompileOptions::observer).
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  virtual void BeforePass(absl::string_view pass, const Compilation& c) = 0;
  virtual void AfterPass(absl::string_view pass, const Compilation& c) = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_
