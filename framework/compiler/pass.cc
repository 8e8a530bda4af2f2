// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/pass.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/verifier.h"

namespace mirrorflow {

void Pipeline::Phase(absl::string_view name) { phase_ = std::string(name); }

void Pipeline::AddPass(std::unique_ptr<Pass> pass, int max_rounds) {
  entries_.push_back({phase_, std::move(pass), max_rounds});
}

absl::Status Pipeline::Run(Compilation& c) const {
  Facts facts = 0;
  for (const Entry& entry : entries_) {
    Pass& pass = *entry.pass;
    const std::string where = absl::StrCat("pass ", pass.name());
    if ((pass.needs() & ~facts) != 0) {
      return absl::InternalError(absl::StrCat(where, " needs facts that no earlier pass gives"));
    }
    facts |= pass.gives();
    if (c.options.disabled_passes.contains(pass.name())) {
      if (pass.optional()) continue;
      return absl::InvalidArgumentError(absl::StrCat(where, " cannot be left out"));
    }
    if (c.options.observer) c.options.observer(pass.name(), c, false, c.options.observer_arg);
    bool changed = true;
    for (int round = 0; changed; ++round) {
      if (round == entry.max_rounds) {
        if (entry.max_rounds == 1) break;
        return absl::InternalError(
            absl::StrCat(where, " did not become stable in ", round, " rounds"));
      }
      absl::StatusOr<bool> result = pass.Run(c);
      if (!result.ok()) return result.status();
      changed = *result;
      if (c.options.verify) {
        absl::Status status = VerifyGraph(c.graph);
        if (!status.ok()) return Annotate(status, absl::StrCat("after ", where));
      }
    }
    if (c.options.observer) c.options.observer(pass.name(), c, true, c.options.observer_arg);
  }
  return absl::OkStatus();
}

std::string Pipeline::ToString() const {
  std::string text, phase;
  for (const Entry& entry : entries_) {
    if (entry.phase != phase || text.empty()) {
      absl::StrAppend(&text, text.empty() ? "" : "\n", entry.phase, ": ", entry.pass->name());
      phase = entry.phase;
    } else {
      absl::StrAppend(&text, ", ", entry.pass->name());
    }
  }
  return text + "\n";
}

}  // namespace mirrorflow
