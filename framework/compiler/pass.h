// SPDX-License-Identifier: Apache-2.0
//
// Pass: one transformation of the compiler, which has two halves. The first half turns a step's
// graph into a program, with global shapes and collectives; the second turns a program into a plan
// for one type of device. A pass declares the facts that it needs, establishes and invalidates, so
// that a Pipeline can check the order. User-defined passes run in the first half.
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
  // Returns a unique name in snake case, such as `fold_constants`. In Mirrorflow's own passes, it
  // is also the name of the file.
  virtual absl::string_view name() const = 0;
  virtual Facts needs() const { return 0; }  // facts that must hold before Run
  virtual Facts gives() const { return 0; }  // facts that hold after Run
  virtual Facts ends() const { return 0; }   // facts that no longer hold after Run
  // Whether the program has the same meaning without the pass, so that
  // CompileOptions::disabled_passes may list it.
  virtual bool optional() const { return false; }
  // Whether the pass itself runs on the functions of branches and loops, because its result for the
  // enclosing graph depends on them. If false, the pipeline runs the pass on them.
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
