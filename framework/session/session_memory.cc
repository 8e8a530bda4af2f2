// SPDX-License-Identifier: Apache-2.0
#include "framework/session/session_memory.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

// Sums saturate at this value, which exceeds the memory of any machine.
constexpr int64_t kMany = int64_t{1} << 61;

void Add(int64_t bytes, int64_t* total) {
  *total = std::min(*total + std::min(bytes, kMany), kMany);
}

std::string LargestVariable(const VariableLayout& layout) {
  const auto& variables = layout.variables();
  const auto largest = std::max_element(
      variables.begin(), variables.end(),
      [](const VariableInfo& a, const VariableInfo& b) { return a.bytes() < b.bytes(); });
  if (largest == variables.end()) return "";
  return absl::StrCat("variable '", largest->name, "' with ", largest->bytes(), " bytes");
}

absl::Status CheckTotal(int64_t bytes, int64_t max_bytes, absl::string_view what,
                        const std::string& largest) {
  if (bytes <= max_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(what, largest.empty() ? "" : absl::StrCat("; largest: ", largest),
                   "; expected at most ", max_bytes, " bytes, got ", bytes));
}

}  // namespace

int64_t VariableBytes(const VariableLayout& layout, size_t replicas) {
  int64_t total = 0;
  for (size_t r = 0; r < replicas; ++r) {
    for (const LayoutRegion& region : layout.regions()) {
      if (r == 0 || !region.shared) Add(region.bytes, &total);
    }
  }
  return total;
}

int64_t FetchBytes(const Plan& plan) {
  int64_t total = 0;
  for (const PlannedFetch& fetch : plan.fetches) {
    Add(fetch.global_shape.num_elements() * static_cast<int64_t>(DataTypeSize(fetch.dtype)),
        &total);
  }
  return total;
}

absl::Status CheckVariableMemory(const VariableLayout& layout, size_t replicas, int64_t max_bytes) {
  return CheckTotal(VariableBytes(layout, replicas), max_bytes,
                    absl::StrCat("the variables of ", replicas, " replicas need too much memory"),
                    LargestVariable(layout));
}

absl::Status CheckStepMemory(const VariableLayout& layout,
                             absl::Span<const std::shared_ptr<const Plan>> plans,
                             int64_t max_bytes) {
  int64_t total = VariableBytes(layout, plans.size());
  Add(FetchBytes(*plans[0]), &total);
  for (size_t r = 0; r < plans.size(); ++r) {
    const Plan& plan = *plans[r];
    Add(plan.arena_bytes, &total);
    Add(plan.constants_bytes, &total);
    Add(plan.form_making_bytes(), &total);
    for (const PlannedForm& planned : plan.forms) {
      const bool shared =
          std::all_of(planned.variables.begin(), planned.variables.end(), [&](int variable) {
            return layout.regions()[layout.variables()[variable].region].shared;
          });
      if (planned.kept && (r == 0 || !shared)) Add(planned.bytes, &total);
    }
  }
  return CheckTotal(total, max_bytes, "this step and its fetches need too much memory",
                    LargestValues(*plans[0]));
}

}  // namespace mirrorflow
