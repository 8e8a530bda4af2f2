// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/bound_forms.h"

#include <utility>

#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "framework/runtime/device.h"

namespace mirrorflow {

absl::StatusOr<std::unique_ptr<BoundForms>> BoundForms::Create(std::shared_ptr<const Plan> plan,
                                                               std::shared_ptr<Forms> store,
                                                               absl::Span<std::byte*> bases,
                                                               Device& device) {
  std::unique_ptr<BoundForms> bound(new BoundForms(std::move(plan), std::move(store)));
  const std::vector<PlannedForm>& forms = bound->plan_->forms;
  for (size_t f = 0; f < forms.size(); ++f) {
    std::vector<const std::byte*>& addresses = bound->addresses_.emplace_back();
    for (const FormOperand& operand : forms[f].operands) {
      addresses.push_back(operand.form >= 0 ? nullptr
                          : operand.variable >= 0
                              ? bases[operand.source.region] + operand.source.offset
                          : operand.constant.has_value() ? operand.constant.raw()
                                                         : nullptr);
    }
    std::shared_ptr<Form>& form = bound->forms_.emplace_back();
    if (!forms[f].kept) continue;
    const int number = static_cast<int>(f);
    MF_ASSIGN_OR_RETURN(form, bound->store_->Get(forms[f], bound->SourcesOf(number), device));
    bases[bound->plan_->form_region(number)] = form->data();
  }
  return bound;
}

Forms::Sources BoundForms::SourcesOf(int form) const {
  Forms::Sources sources;
  const std::vector<FormOperand>& operands = plan_->forms[form].operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].variable >= 0) {
      sources.push_back(addresses_[form][i]);
    } else if (operands[i].form >= 0) {
      const Forms::Sources of_operand = SourcesOf(operands[i].form);
      sources.insert(sources.end(), of_operand.begin(), of_operand.end());
    }
  }
  return sources;
}

absl::Status BoundForms::RefreshAll(Lane& lane) {
  const uint64_t writes = store_->writes();
  for (size_t f = 0; f < forms_.size(); ++f) {
    if (forms_[f] == nullptr) continue;
    Form& form = *forms_[f];
    const auto make = [&] { return Compute(static_cast<int>(f), form.data(), lane); };
    MF_RETURN_IF_ERROR(is_tracked_ ? store_->Refresh(form, plan_->forms[f], make) : make());
  }
  refreshed_at_ = writes;
  return absl::OkStatus();
}

absl::Status BoundForms::Compute(int form, std::byte* out, Lane& lane) const {
  const PlannedForm& planned = plan_->forms[form];
  static constexpr StepParams kNoParams;  // forms are the same in all steps and on all replicas
  std::vector<std::byte*> bases = {
      reinterpret_cast<std::byte*>(const_cast<StepParams*>(&kNoParams))};
  std::vector<std::shared_ptr<Buffer>> temporary;
  const auto allocate = [&](int64_t bytes) -> absl::StatusOr<std::byte*> {
    MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, Buffer::Allocate(bytes));
    temporary.push_back(buffer);
    return buffer->data();
  };
  for (size_t i = 0; i < planned.operands.size(); ++i) {
    const int operand = planned.operands[i].form;
    if (operand < 0) {
      bases.push_back(const_cast<std::byte*>(addresses_[form][i]));  // operands are only read
    } else if (forms_[operand] != nullptr) {
      bases.push_back(forms_[operand]->data());  // up to date, because it is an earlier form
    } else {
      MF_ASSIGN_OR_RETURN(std::byte * data, allocate(plan_->forms[operand].bytes));
      MF_RETURN_IF_ERROR(Compute(operand, data, lane));
      bases.push_back(data);
    }
  }
  bases.push_back(out);
  MF_ASSIGN_OR_RETURN(std::byte * scratch, allocate(planned.scratch_bytes));
  bases.push_back(scratch);
  std::vector<Operand> operands;
  for (size_t i = 1; i < bases.size(); ++i) operands.push_back({static_cast<RegionId>(i), 0});
  const KernelArgs args(bases.data(), operands.data(), static_cast<int>(planned.operands.size()),
                        /*num_outputs=*/1);
  return Annotate(planned.make->Run(args, lane), planned.name);
}

}  // namespace mirrorflow
