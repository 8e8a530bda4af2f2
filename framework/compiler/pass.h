// SPDX-License-Identifier: Apache-2.0
//
// Pass and Pipeline: each half of the compiler is a list of passes over a Compilation, which is a
// PlanState in the second half. distribute/pipeline.cc defines the order. The pipeline checks it:
// each pass declares which facts it needs, which it gives, and which it ends.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/compilation.h"
#include "framework/compiler/facts.h"

namespace mirrorflow {

class Pass {
 public:
  virtual ~Pass() = default;
  virtual absl::string_view name() const = 0;  // the name of its file
  virtual Facts needs() const { return 0; }    // must hold before
  virtual Facts gives() const { return 0; }    // hold afterwards
  virtual Facts ends() const { return 0; }     // no longer hold afterwards
  // Whether the program means the same without it, so that CompileOptions::disabled_passes may name
  // it.
  virtual bool optional() const { return false; }
  // Whether the pass itself visits the functions of branches and loops, because its result outside
  // depends on their contents. For all other passes, the pipeline visits them.
  virtual bool enters_bodies() const { return false; }
  // Returns whether anything changed. After an error, the compilation is inconsistent and must be
  // dropped.
  virtual absl::StatusOr<bool> Run(Compilation& c) = 0;
};

using PassMaker = std::function<std::unique_ptr<Pass>()>;

// Is called with the state before and after every pass of both halves (CompileOptions::observer).
// In the second half, the state is a PlanState.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  virtual void BeforePass(absl::string_view pass, const Compilation& c) = 0;
  virtual void AfterPass(absl::string_view pass, const Compilation& c) = 0;
};

class Pipeline {
 public:
  // Starts a named group of passes, used for printing.
  void Phase(absl::string_view name);
  template <typename P, typename... Args>
  void Add(Args&&... args) {
    Append(std::make_unique<P>(std::forward<Args>(args)...), AddStage(/*max_rounds=*/1));
  }
  void Add(const PassMaker& make) { Append(make(), AddStage(/*max_rounds=*/1)); }
  // Adds passes that run in turn, round after round, until none changes anything. Run returns
  // Internal if that takes more than `max_rounds` rounds.
  template <typename... P>
  void AddUntilStable(int max_rounds) {
    Stage& stage = AddStage(max_rounds);
    (Append(std::make_unique<P>(), stage), ...);
  }

  // Internal if a pass needs a fact that does not hold; all other errors come from the passes.
  absl::Status Run(Compilation& c) const;

  // The names of the passes that may be disabled, in order.
  std::vector<std::string> OptionalPasses() const;
  bool Has(absl::string_view pass) const;
  // `phase: pass, pass\n…`, for the golden test of the pass order.
  std::string ToString() const;

 private:
  // Passes that run once or, as a group, until nothing changes.
  struct Stage {
    std::string phase;
    std::vector<std::unique_ptr<Pass>> passes;
    int max_rounds;
  };
  Stage& AddStage(int max_rounds);
  static void Append(std::unique_ptr<Pass> pass, Stage& stage);
  static absl::Status CheckFacts(const Pass& pass, Facts* facts);
  static absl::StatusOr<bool> RunPass(Pass& pass, Compilation& c);
  static absl::StatusOr<bool> RunOnAll(Pass& pass, Compilation& c);

  std::vector<Stage> stages_;
  std::string phase_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_
