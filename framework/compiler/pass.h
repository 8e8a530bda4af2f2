// SPDX-License-Identifier: Apache-2.0
//
// Pass and Pipeline: each half of the compiler is a list of passes over a Compilation, which in the
// second half is a PlanState. The order is written in one place (distribute/pipeline.cc) and
// checked: each pass says which facts it needs, which it gives, and which it ends.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PASS_H_

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
  virtual absl::string_view name() const = 0;  // of its file
  virtual Facts needs() const { return 0; }    // what must hold before
  virtual Facts gives() const { return 0; }    // what holds afterwards
  virtual Facts ends() const { return 0; }     // what no longer holds afterwards
  // The program means the same without it: CompileOptions::disabled_passes may name it.
  virtual bool optional() const { return false; }
  // Runs itself on the functions of branches and loops, because what it does around them depends on
  // what it finds in them. For other passes the pipeline does it.
  virtual bool enters_bodies() const { return false; }
  // Returns whether anything changed. After an error the compilation is half rewritten: drop it.
  virtual absl::StatusOr<bool> Run(Compilation& c) = 0;
};

class Pipeline {
 public:
  // Starts a named group, for printing.
  void Phase(absl::string_view name);
  template <typename P, typename... Args>
  void Add(Args&&... args) {
    Append(std::make_unique<P>(std::forward<Args>(args)...), AddStage(/*max_rounds=*/1));
  }
  // The passes one after the other, again and again until none changes anything; an error if that
  // takes more than `max_rounds` rounds.
  template <typename... P>
  void AddUntilStable(int max_rounds) {
    Stage& stage = AddStage(max_rounds);
    (Append(std::make_unique<P>(), stage), ...);
  }

  // Internal if the facts do not work out; other errors are the passes' own.
  absl::Status Run(Compilation& c) const;

  // The names of the passes that may be left out, in order.
  std::vector<std::string> OptionalPasses() const;
  bool Has(absl::string_view pass) const;
  // `phase: pass, pass\n…`, for the golden test of the order.
  std::string ToString() const;

 private:
  // What runs once, or until stable.
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
