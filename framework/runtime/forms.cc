// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/forms.h"

#include "framework/core/status.h"
#include "framework/runtime/device.h"
#include "framework/runtime/plan.h"

namespace mirrorflow {

absl::StatusOr<std::shared_ptr<Form>> Forms::Get(const PlannedForm& planned, Sources sources,
                                                 Device& device) {
  MutexLock lock(&mutex_);
  std::weak_ptr<Form>& known = forms_[{std::move(sources), planned.key}];
  if (std::shared_ptr<Form> form = known.lock()) return form;
  std::erase_if(
      forms_, [&](const auto& entry) { return &entry.second != &known && entry.second.expired(); });
  const int64_t bytes = planned.bytes;
  MF_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, device.Allocate(bytes));
  bytes_ += bytes;  // first, because the deleter also runs if this allocation fails
  std::shared_ptr<Form> form(new Form(), [bytes, counter = bytes_counter_](Form* dead) {
    *counter -= bytes;
    delete dead;
  });
  form->memory_ = std::move(memory);
  known = form;
  return form;
}

uint64_t Forms::VersionOf(const PlannedForm& planned) const {
  uint64_t version = 1;  // a form without variables is made once
  for (const int v : planned.variables) version += versions_[v].load(std::memory_order_relaxed);
  return version;
}

absl::Status Forms::Refresh(Form& form, const PlannedForm& planned,
                            absl::FunctionRef<absl::Status()> make) {
  const uint64_t version = VersionOf(planned);
  if (form.version_.load(std::memory_order_acquire) == version) return absl::OkStatus();
  MutexLock lock(&form.mutex_);
  if (form.version_.load(std::memory_order_relaxed) == version) return absl::OkStatus();
  MF_RETURN_IF_ERROR(make());
  num_made_.fetch_add(1, std::memory_order_relaxed);
  form.version_.store(version, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace mirrorflow
