// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/pass.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/verifier.h"

namespace mirrorflow {

void Pipeline::Phase(absl::string_view name) { phase_ = std::string(name); }

Pipeline::Stage& Pipeline::AddStage(int max_rounds) {
  stages_.push_back({phase_, {}, max_rounds});
  return stages_.back();
}

void Pipeline::Append(std::unique_ptr<Pass> pass, Stage& stage) {
  stage.passes.push_back(std::move(pass));
}

// Runs the pass on the functions of the compilation's nodes, then on the compilation itself.
// Returns whether anything changed.
absl::StatusOr<bool> Pipeline::RunOnAll(Pass& pass, Compilation& c) {
  bool changed = false;
  if (!pass.enters_bodies()) {
    for (const auto& [id, bodies] : c.bodies) {
      for (const auto& body : bodies) {
        absl::StatusOr<bool> inside = RunOnAll(pass, *body);
        if (!inside.ok()) return Annotate(inside.status(), c.graph.node(id)->name());
        changed |= *inside;
      }
    }
  }
  MF_ASSIGN_OR_RETURN(const bool around, pass.Run(c));
  if (c.options.verify) {
    const absl::Status status = VerifyGraph(c.graph);
    if (!status.ok()) return Annotate(status, absl::StrCat("after pass ", pass.name()));
  }
  return changed || around;
}

// Runs the pass unless it is disabled. Returns whether it changed anything.
absl::StatusOr<bool> Pipeline::RunPass(Pass& pass, Compilation& c) {
  const CompileOptions& options = c.options;
  if (options.disabled_passes.contains(pass.name())) {
    if (pass.optional()) return false;
    return absl::InvalidArgumentError(absl::StrCat("pass ", pass.name(), " cannot be left out"));
  }
  if (options.observer != nullptr) options.observer->BeforePass(pass.name(), c);
  MF_ASSIGN_OR_RETURN(const bool changed, RunOnAll(pass, c));
  if (options.observer != nullptr) options.observer->AfterPass(pass.name(), c);
  return changed;
}

bool Pipeline::Has(absl::string_view pass) const {
  return absl::c_any_of(stages_, [&](const Stage& stage) {
    return absl::c_any_of(stage.passes, [&](const auto& own) { return own->name() == pass; });
  });
}

// Checks that the facts the pass needs hold, and updates them to those after it.
absl::Status Pipeline::CheckFacts(const Pass& pass, Facts* facts) {
  if ((pass.needs() & ~*facts) != 0) {
    return absl::InternalError(
        absl::StrCat("pass ", pass.name(), " needs facts that no earlier pass gives"));
  }
  *facts = (*facts & ~pass.ends()) | pass.gives();
  return absl::OkStatus();
}

absl::Status Pipeline::Run(Compilation& c) const {
  for (const Stage& stage : stages_) {
    for (const auto& pass : stage.passes) MF_RETURN_IF_ERROR(CheckFacts(*pass, &c.facts));
    bool changed = true;
    for (int round = 0; changed; ++round) {
      if (round == stage.max_rounds) {
        if (stage.max_rounds == 1) break;
        const std::string names =
            absl::StrJoin(stage.passes, ", ",
                          [](std::string* out, const auto& p) { absl::StrAppend(out, p->name()); });
        return absl::InternalError(
            absl::StrCat("pass ", names, " did not become stable in ", round, " rounds"));
      }
      changed = false;
      for (const auto& pass : stage.passes) {
        MF_ASSIGN_OR_RETURN(const bool pass_changed, RunPass(*pass, c));
        // An edit that the graph has rejected, such as an edge to a node of another graph.
        MF_RETURN_IF_ERROR(Annotate(c.graph.status(), absl::StrCat("pass ", pass->name())));
        changed |= pass_changed;
      }
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> Pipeline::OptionalPasses() const {
  std::vector<std::string> names;
  for (const Stage& stage : stages_) {
    for (const auto& pass : stage.passes) {
      if (pass->optional()) names.emplace_back(pass->name());
    }
  }
  return names;
}

std::string Pipeline::ToString() const {
  std::string text, phase;
  for (const Stage& stage : stages_) {
    for (const auto& pass : stage.passes) {
      if (stage.phase != phase || text.empty()) {
        absl::StrAppend(&text, text.empty() ? "" : "\n", stage.phase, ": ", pass->name());
        phase = stage.phase;
      } else {
        absl::StrAppend(&text, ", ", pass->name());
      }
    }
  }
  return text + "\n";
}

}  // namespace mirrorflow
