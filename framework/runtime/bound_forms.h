// SPDX-License-Identifier: Apache-2.0
//
// BoundForms: the forms (forms.h) that a plan reads on one replica. It knows the addresses that
// each is computed from, and computes those that are stale.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_BOUND_FORMS_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_BOUND_FORMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/buffer.h"
#include "framework/runtime/forms.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

class BoundForms {
 public:
  // `bases` holds the addresses of the plan's regions; Create sets those of its forms. `store` is
  // null if variables can be written without Forms::MarkWritten; all forms are then always stale.
  static absl::StatusOr<std::unique_ptr<BoundForms>> Create(std::shared_ptr<const Plan> plan,
                                                            std::shared_ptr<Forms> store,
                                                            absl::Span<std::byte*> bases,
                                                            Device& device);

  // Computes the forms that are stale.
  absl::Status Refresh(Lane& lane) {
    if (is_tracked_ && refreshed_at_ == store_->writes()) [[likely]]
      return absl::OkStatus();
    return RefreshAll(lane);
  }

 private:
  BoundForms(std::shared_ptr<const Plan> plan, std::shared_ptr<Forms> store)
      : plan_(std::move(plan)),
        is_tracked_(store != nullptr),
        store_(is_tracked_ ? std::move(store) : std::make_shared<Forms>(0)) {}

  absl::Status RefreshAll(Lane& lane);
  // Writes the form to `out`. `temporary` holds the forms that the session does not keep.
  absl::Status Compute(int form, absl::Span<const std::shared_ptr<Buffer>> temporary,
                       std::byte* out, Lane& lane) const;

  const std::shared_ptr<const Plan> plan_;
  const bool is_tracked_;
  const std::shared_ptr<Forms> store_;
  std::vector<std::shared_ptr<Form>> forms_;  // for plan_->forms; null if not kept
  // By form and operand: where the variable or constant is; null for a form.
  std::vector<std::vector<const std::byte*>> addresses_;
  uint64_t refreshed_at_ = 0;  // Forms::writes() when all forms were up to date
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_BOUND_FORMS_H_
