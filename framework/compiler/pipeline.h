// SPDX-License-Identifier: Apache-2.0
//
// Pipeline: a list of passes over a state, which is a Compilation in the first half of the compiler
// and a PlanState in the second. distribute/pipeline.cc defines the order; the pipeline checks it
// against the passes' facts.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_PIPELINE_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_PIPELINE_H_

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "framework/compiler/compilation.h"
#include "framework/compiler/pass.h"
#include "framework/core/status.h"
#include "framework/graph/verifier.h"

namespace mirrorflow {

template <typename State>
class PipelineOver {
 public:
  template <typename P, typename... Args>
  void Add(Args&&... args) {
    Append(std::make_unique<P>(std::forward<Args>(args)...), AddStage(/*max_rounds=*/1));
  }
  void Add(const PassMaker& make) { Append(make(), AddStage(/*max_rounds=*/1)); }
  // Adds a group of passes that run one after another, repeatedly, until none of them changes
  // anything. Run returns Internal if that takes more than `max_rounds` rounds.
  template <typename... P>
  void AddUntilStable(int max_rounds) {
    Stage& stage = AddStage(max_rounds);
    (Append(std::make_unique<P>(), stage), ...);
  }

  // Runs the passes. Returns Internal if a pass needs a fact that does not hold; all other errors
  // come from the passes.
  absl::Status Run(State& c) const {
    for (const Stage& stage : stages_) {
      for (const auto& pass : stage.passes) MF_RETURN_IF_ERROR(CheckFacts(*pass, &c.facts));
      bool changed = true;
      for (int round = 0; changed; ++round) {
        if (round == stage.max_rounds) {
          if (stage.max_rounds == 1) break;
          const std::string names = absl::StrJoin(
              stage.passes, ", ",
              [](std::string* out, const auto& p) { absl::StrAppend(out, p->name()); });
          return absl::InternalError(
              absl::StrCat("pass ", names, " did not converge in ", round, " rounds"));
        }
        changed = false;
        for (const auto& pass : stage.passes) {
          MF_ASSIGN_OR_RETURN(const bool pass_changed, RunPass(*pass, c));
          // The graph may have rejected an edit, such as an edge to a node of another graph.
          MF_RETURN_IF_ERROR(Annotate(c.graph.status(), absl::StrCat("pass ", pass->name())));
          changed |= pass_changed;
        }
      }
    }
    return absl::OkStatus();
  }

  // Returns the names of the passes that can be disabled, in pipeline order.
  std::vector<std::string> OptionalPasses() const {
    std::vector<std::string> names;
    for (const Stage& stage : stages_) {
      for (const auto& pass : stage.passes) {
        if (pass->optional()) names.emplace_back(pass->name());
      }
    }
    return names;
  }

  bool Has(absl::string_view pass) const {
    return absl::c_any_of(stages_, [&](const Stage& stage) {
      return absl::c_any_of(stage.passes, [&](const auto& own) { return own->name() == pass; });
    });
  }

 private:
  // Passes that run once or, as a group, until nothing changes.
  struct Stage {
    std::vector<std::unique_ptr<PassOver<State>>> passes;
    int max_rounds;
  };
  // Lets a pass over any Compilation run in a pipeline over a derived state.
  class OfCompilation final : public PassOver<State> {
   public:
    explicit OfCompilation(std::unique_ptr<Pass> pass) : pass_(std::move(pass)) {}
    absl::string_view name() const override { return pass_->name(); }
    Facts needs() const override { return pass_->needs(); }
    Facts gives() const override { return pass_->gives(); }
    Facts ends() const override { return pass_->ends(); }
    bool optional() const override { return pass_->optional(); }
    bool enters_bodies() const override { return pass_->enters_bodies(); }
    absl::StatusOr<bool> Run(State& state) override { return pass_->Run(state); }

   private:
    const std::unique_ptr<Pass> pass_;
  };

  Stage& AddStage(int max_rounds) {
    stages_.push_back({{}, max_rounds});
    return stages_.back();
  }
  template <typename P>
  static void Append(std::unique_ptr<P> pass, Stage& stage) {
    if constexpr (std::is_base_of_v<PassOver<State>, P>) {
      stage.passes.push_back(std::move(pass));
    } else {
      stage.passes.push_back(std::make_unique<OfCompilation>(std::move(pass)));
    }
  }
  // Checks that `facts` includes every fact that the pass needs, and updates it to the facts that
  // hold after the pass.
  static absl::Status CheckFacts(const PassInfo& pass, Facts* facts) {
    if ((pass.needs() & ~*facts) != 0) {
      return absl::InternalError(
          absl::StrCat("pass ", pass.name(), " needs facts that no earlier pass establishes"));
    }
    *facts = (*facts & ~pass.ends()) | pass.gives();
    return absl::OkStatus();
  }
  // Runs the pass unless it is disabled. Returns whether it changed anything.
  static absl::StatusOr<bool> RunPass(PassOver<State>& pass, State& c) {
    const CompileOptions& options = c.options;
    if (options.disabled_passes.contains(pass.name())) {
      if (pass.optional()) return false;
      return absl::InvalidArgumentError(absl::StrCat("pass ", pass.name(), " cannot be disabled"));
    }
    if (options.observer != nullptr) options.observer->BeforePass(pass.name(), c);
    MF_ASSIGN_OR_RETURN(const bool changed, RunOnAll(pass, c));
    if (options.observer != nullptr) options.observer->AfterPass(pass.name(), c);
    return changed;
  }

  // Runs the pass on the functions of the compilation's nodes first, and on the compilation itself
  // last. Returns whether anything changed.
  static absl::StatusOr<bool> RunOnAll(PassOver<State>& pass, State& c) {
    bool changed = false;
    if (!pass.enters_bodies()) {
      for (const auto& [id, bodies] : c.bodies) {
        for (size_t i = 0; i < bodies.size(); ++i) {
          MF_ASSIGN_OR_RETURN(const bool inside,
                              Annotate(RunOnAll(pass, c.body(id, i)), c.graph.node(id)->name()));
          changed |= inside;
        }
      }
    }
    MF_ASSIGN_OR_RETURN(const bool around, pass.Run(c));
    if (c.options.verify) {
      MF_RETURN_IF_ERROR(Annotate(VerifyGraph(c.graph), absl::StrCat("after pass ", pass.name())));
    }
    return changed || around;
  }

  std::vector<Stage> stages_;
};
using Pipeline = PipelineOver<Compilation>;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_PIPELINE_H_
