// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/bound_forms.h"

#include <map>
#include <utility>

#include "framework/core/status.h"
#include "framework/runtime/device.h"

namespace mirrorflow {

absl::StatusOr<std::unique_ptr<BoundForms>> BoundForms::Create(std::shared_ptr<const Plan> plan,
                                                               std::shared_ptr<Forms> store,
                                                               absl::Span<std::byte*> bases,
                                                               Device& device) {
  std::unique_ptr<BoundForms> bound(new BoundForms(std::move(plan), std::move(store)));
  const std::vector<PlannedForm>& forms = bound->plan_->forms;
  std::map<int, const std::byte*> variables;
  for (size_t f = 0; f < forms.size(); ++f) {
    std::vector<const std::byte*>& addresses = bound->addresses_.emplace_back();
    for (const FormOperand& operand : forms[f].operands) {
      const std::byte* address = nullptr;
      if (operand.variable >= 0) {
        address = bases[operand.source.region] + operand.source.offset;
        variables[operand.variable] = address;
      } else if (operand.form < 0) {
        address = operand.constant.raw();
      }
      addresses.push_back(address);
    }
    std::shared_ptr<Form>& form = bound->forms_.emplace_back();
    if (!forms[f].kept) continue;
    Forms::Sources sources;
    for (const int variable : forms[f].variables) sources.push_back(variables.at(variable));
    MF_ASSIGN_OR_RETURN(
        form, Annotate(bound->store_->Get(forms[f], std::move(sources), device), forms[f].name));
    bases[bound->plan_->form_region(static_cast<int>(f))] = form->data();
  }
  return bound;
}

absl::Status BoundForms::RefreshAll(Lane& lane) {
  const uint64_t writes = store_->writes();
  const std::vector<PlannedForm>& forms = plan_->forms;
  // By form, if it is not kept: how many stale forms have yet to read it.
  std::vector<int> readers(forms.size());
  std::vector<char> is_stale(forms.size());
  for (size_t f = forms.size(); f-- > 0;) {
    is_stale[f] =
        forms[f].kept ? !is_tracked_ || !store_->IsCurrent(*forms_[f], forms[f]) : readers[f] > 0;
    if (!is_stale[f]) continue;
    for (const FormOperand& operand : forms[f].operands) {
      if (operand.form >= 0) ++readers[operand.form];
    }
  }
  std::vector<std::shared_ptr<Buffer>> temporary(forms.size());
  for (size_t f = 0; f < forms.size(); ++f) {
    if (!is_stale[f]) continue;
    std::byte* out = nullptr;
    if (forms[f].kept) {
      out = forms_[f]->data();
    } else {
      MF_ASSIGN_OR_RETURN(temporary[f], Annotate(Buffer::Allocate(forms[f].bytes), forms[f].name));
      out = temporary[f]->data();
    }
    const auto make = [&] { return Compute(static_cast<int>(f), temporary, out, lane); };
    const absl::Status made =
        forms[f].kept && is_tracked_ ? store_->Refresh(*forms_[f], forms[f], make) : make();
    MF_RETURN_IF_ERROR(Annotate(made, forms[f].name));
    for (const FormOperand& operand : forms[f].operands) {
      if (operand.form >= 0 && --readers[operand.form] == 0) temporary[operand.form].reset();
    }
  }
  refreshed_at_ = writes;
  return absl::OkStatus();
}

absl::Status BoundForms::Compute(int form, absl::Span<const std::shared_ptr<Buffer>> temporary,
                                 std::byte* out, Lane& lane) const {
  const PlannedForm& planned = plan_->forms[form];
  static constexpr StepParams kNoParams;  // forms are the same in all steps and on all replicas
  std::vector<std::byte*> bases = {
      reinterpret_cast<std::byte*>(const_cast<StepParams*>(&kNoParams))};
  for (size_t i = 0; i < planned.operands.size(); ++i) {
    const int operand = planned.operands[i].form;
    bases.push_back(operand < 0 ? const_cast<std::byte*>(addresses_[form][i])  // only read
                    : forms_[operand] != nullptr ? forms_[operand]->data()
                                                 : temporary[operand]->data());
  }
  bases.push_back(out);
  MF_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> scratch,
                      Buffer::Allocate(planned.scratch_bytes));
  bases.push_back(scratch->data());
  std::vector<Operand> operands;
  for (size_t i = 1; i < bases.size(); ++i) operands.push_back({static_cast<RegionId>(i), 0});
  const KernelArgs args(bases.data(), operands.data(), static_cast<int>(planned.operands.size()),
                        /*num_outputs=*/1);
  return planned.make->Run(args, lane);
}

}  // namespace mirrorflow
