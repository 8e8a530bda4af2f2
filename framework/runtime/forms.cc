// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/forms.h"

#include "framework/core/status.h"
#include "framework/runtime/device.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {
namespace {

constexpr uint64_t kConstantVersion = 1;

}  // namespace

absl::StatusOr<std::shared_ptr<Form>> Forms::Get(const PlannedForm& planned,
                                                 const std::byte* source, Device& device) {
  MutexLock lock(&mutex_);
  std::weak_ptr<Form>& known = forms_[{source, planned.form.key}];
  if (std::shared_ptr<Form> form = known.lock()) return form;
  std::erase_if(
      forms_, [&](const auto& entry) { return &entry.second != &known && entry.second.expired(); });
  const auto bytes = static_cast<int64_t>(planned.form.bytes);
  MF_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, device.Allocate(bytes));
  bytes_ += bytes;  // first, because the deleter also runs if this allocation fails
  std::shared_ptr<Form> form(new Form(), [bytes, counter = bytes_counter_](Form* dead) {
    *counter -= bytes;
    delete dead;
  });
  form->memory_ = std::move(memory);
  form->bytes_ = bytes;
  known = form;
  return form;
}

absl::Status Forms::Refresh(Form& form, const PlannedForm& planned, const std::byte* source,
                            Lane& lane) {
  const uint64_t version = planned.variable < 0
                               ? kConstantVersion
                               : versions_[planned.variable].load(std::memory_order_relaxed);
  if (form.version_.load(std::memory_order_acquire) == version) return absl::OkStatus();
  MutexLock lock(&form.mutex_);
  if (form.version_.load(std::memory_order_relaxed) == version) return absl::OkStatus();
  MF_RETURN_IF_ERROR(Make(form, planned, source, lane));
  form.version_.store(version, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status Forms::Make(Form& form, const PlannedForm& planned, const std::byte* source,
                         Lane& lane) {
  std::vector<std::byte> scratch(planned.form.scratch_bytes);
  std::byte* const bases[] = {nullptr, const_cast<std::byte*>(source), form.data(), scratch.data()};
  constexpr Operand kOperands[] = {{1, 0}, {2, 0}, {3, 0}};
  const KernelArgs args(bases, kOperands, /*num_inputs=*/1, /*num_outputs=*/1);
  MF_RETURN_IF_ERROR(planned.form.make->Run(args, lane));
  num_made_.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace mirrorflow
