// SPDX-License-Identifier: Apache-2.0
#include "framework/session/variable_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/runtime/reduce_in_rank_order.h"

namespace mirrorflow {
namespace {

bool IsZero(const Tensor& value) {
  return std::all_of(value.raw(), value.raw() + value.bytes(),
                     [](std::byte b) { return b == std::byte{0}; });
}

// Returns the variable's address in the memory of the replica's device.
std::byte* AddressOf(const VariableInfo& variable, const Replica& replica) {
  return replica.layout_region(variable.region) + variable.offset;
}

}  // namespace

VariableStore::VariableStore(VariableLayout layout, RankExchange& exchange, const Sharing& sharing)
    : layout_(std::move(layout)),
      exchange_(exchange),
      replicas_(exchange.replicas()),
      connection_(exchange.connection()),
      sharing_(sharing),
      states_(layout_.variables().size()),
      forms_(std::make_shared<Forms>(states_.size())) {
  for (const auto& replica : replicas_) replica->set_forms(forms_);
}

absl::StatusOr<int> VariableStore::Find(absl::string_view name) const {
  const int v = layout_.Find(name);
  if (v >= 0) return v;
  std::vector<std::string> names;
  for (const VariableInfo& variable : layout_.variables()) names.push_back(variable.name);
  return absl::NotFoundError(
      absl::StrCat("no variable '", Printable(name), "'", DidYouMean(name, names)));
}

void VariableStore::MarkSet(absl::Span<const int> variables) {
  for (const int v : variables) {
    states_[v] = State::kSet;
    forms_->MarkWritten(v);
  }
}

void VariableStore::MarkIndeterminate(absl::Span<const int> variables, const absl::Status& cause) {
  for (const int v : variables) {
    states_[v] = State::kIndeterminate;
    forms_->MarkWritten(v);
  }
  indeterminate_cause_ = std::string(cause.message());
}

absl::Status VariableStore::CheckDeterminate(int v) const {
  if (states_[v] != State::kIndeterminate) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("variable '", info(v).name,
                   "' is indeterminate, because a step failed while updating variables (",
                   indeterminate_cause_, "); assign it before the next read"));
}

absl::Status VariableStore::NotReadable(int v) const {
  MF_RETURN_IF_ERROR(CheckDeterminate(v));
  return absl::FailedPreconditionError(
      absl::StrCat("variable '", info(v).name, "' is read, but nothing has initialised it"));
}

absl::Status VariableStore::CheckOnRead(int v) const {
  if (info(v).on_read) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "variable '", info(v).name,
      "': expected a variable that is synchronised on read, got one synchronised on write"));
}

absl::Status VariableStore::CheckValue(int v, const Tensor& value) const {
  const VariableInfo& variable = info(v);
  if (value.dtype() == variable.dtype && value.shape() == variable.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "variable '", variable.name, "': expected ", DataTypeName(variable.dtype),
      variable.shape.ToString(), ", got ", DataTypeName(value.dtype()), value.shape().ToString()));
}

bool VariableStore::Writes(const Replica& replica, const VariableInfo& variable) const {
  return !layout_.regions()[variable.region].shared ||
         (sharing_.writes && &replica == &replicas_.first());
}

bool VariableStore::ReadsOtherWorkers(int v) const {
  return info(v).on_read && connection_.has_other_workers();
}

absl::Status VariableStore::Read(int v, Tensor* value) const {
  MF_RETURN_IF_ERROR(Read(v, 0, value));
  if (!info(v).on_read) return absl::OkStatus();
  if (connection_.has_other_workers()) {
    MF_ASSIGN_OR_RETURN(*value, exchange_.Sum(info(v)));
    return absl::OkStatus();
  }
  Tensor part;
  for (int r = 1; r < replicas_.size(); ++r) {
    MF_RETURN_IF_ERROR(Read(v, r, &part));
    const void* const parts[] = {value->raw(), part.raw()};
    void* const sum = value->raw();
    ReduceInRankOrder(Reduction::kSum, part.dtype(), parts, {&sum, 1}, part.num_elements());
  }
  return absl::OkStatus();
}

absl::Status VariableStore::Read(int v, int replica, Tensor* value) const {
  if (replica < 0 || replica >= replicas_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no such local replica; expected an index from 0 to ", replicas_.size() - 1,
                     ", got ", replica));
  }
  MF_RETURN_IF_ERROR(CheckDeterminate(v));
  const VariableInfo& variable = info(v);
  if (value->dtype() != variable.dtype || value->shape() != variable.shape) {
    MF_ASSIGN_OR_RETURN(*value, Tensor::Allocate(variable.dtype, variable.shape));
  }
  const Replica& from = replicas_[replica];
  return from.device().CopyOut(AddressOf(variable, from), value->raw(), value->bytes());
}

absl::StatusOr<std::vector<VariablePart>> VariableStore::ReadParts(int v) const {
  MF_RETURN_IF_ERROR(CheckOnRead(v));
  const VariableInfo& variable = info(v);
  const int num_local = replicas_.size();
  std::vector<Tensor> own(num_local);
  std::vector<std::vector<uint32_t>> has_part(num_local);
  for (int r = 0; r < num_local; ++r) {
    MF_RETURN_IF_ERROR(Read(v, r, &own[r]));
    has_part[r] = {IsZero(own[r]) ? 0u : 1u};
  }
  std::vector<VariablePart> parts;
  if (!connection_.has_other_workers()) {
    for (int r = 0; r < num_local; ++r) {
      if (has_part[r][0] != 0) parts.push_back({replicas_[r].rank(), std::move(own[r])});
    }
    return parts;
  }
  MF_ASSIGN_OR_RETURN(const std::vector<uint32_t> all,
                      exchange_.AllGather(has_part, variable.name));
  const Topology& topology = connection_.topology();
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    if (all[rank] == 0) continue;
    const int local = rank - replicas_.first().rank();
    const bool is_local = local >= 0 && local < num_local;
    if (topology.replicas[rank].worker == 0) {
      if (is_chief()) parts.push_back({rank, std::move(own[local])});
      continue;
    }
    MF_ASSIGN_OR_RETURN(Tensor value,
                        exchange_.Broadcast(variable, rank, is_local ? own[local] : Tensor()));
    if (is_chief()) parts.push_back({rank, std::move(value)});
  }
  return parts;
}

absl::Status VariableStore::Assign(absl::Span<const Assignment> assignments) {
  for (const Assignment& assignment : assignments) {
    MF_RETURN_IF_ERROR(CheckValue(assignment.variable, assignment.value));
  }
  // A single worker writes a shared copy, after all workers have finished reading it and before any
  // of them continues.
  MF_RETURN_IF_ERROR(WaitForSharers());
  for (const Assignment& assignment : assignments) {
    MF_RETURN_IF_ERROR(Set(assignment.variable, assignment.value));
    MarkEqual({assignment.variable});
  }
  return WaitForSharers();
}

absl::Status VariableStore::Set(int v, const Tensor& value) {
  const VariableInfo& variable = info(v);
  // If the variable is synchronised on read, rank 0 receives the whole value and all other ranks
  // receive zeros.
  const Tensor* own = &value;
  Tensor zeros;
  for (const auto& replica : replicas_) {
    if (!Writes(*replica, variable)) continue;
    if (variable.on_read && replica->rank() != 0 && !zeros.has_value()) {
      MF_ASSIGN_OR_RETURN(zeros, Tensor::Allocate(variable.dtype, variable.shape));
      own = &zeros;
    }
    MF_RETURN_IF_ERROR(
        replica->device().CopyIn(own->raw(), AddressOf(variable, *replica), own->bytes()));
  }
  MarkSet({v});
  return absl::OkStatus();
}

absl::Status VariableStore::AssignFromWorker0(absl::Span<const int> variables,
                                              const std::map<std::string, Tensor>& values) {
  MF_RETURN_IF_ERROR(WaitForSharers());
  for (const int v : variables) {
    const VariableInfo& variable = info(v);
    if (is_chief()) {
      const auto value = values.find(variable.name);
      if (value == values.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("variable '", variable.name, "': worker 0 passed no value for it"));
      }
      MF_RETURN_IF_ERROR(CheckValue(v, value->second));
      MF_RETURN_IF_ERROR(Set(v, value->second));
    } else if (variable.on_read) {  // rank 0 holds the whole value
      MF_ASSIGN_OR_RETURN(const Tensor zeros, Tensor::Allocate(variable.dtype, variable.shape));
      MF_RETURN_IF_ERROR(Set(v, zeros));
    }
    MarkSet({v});
  }
  if (connection_.has_other_workers()) MF_RETURN_IF_ERROR(TakeValuesOfRank0(variables));
  return WaitForSharers();
}

absl::Status VariableStore::AssignPartsFromWorker0(int v, absl::Span<const VariablePart> parts) {
  MF_RETURN_IF_ERROR(CheckOnRead(v));
  const VariableInfo& variable = info(v);
  MF_ASSIGN_OR_RETURN(const Tensor zeros, Tensor::Allocate(variable.dtype, variable.shape));
  MF_RETURN_IF_ERROR(Set(v, zeros));
  const int world_size = connection_.topology().world_size();
  int last_rank = -1;
  for (const VariablePart& part : parts) {
    if (part.rank <= last_rank || part.rank >= world_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", variable.name,
                       "': wrong rank of a part; expected ascending ranks, here from ",
                       last_rank + 1, " to ", world_size - 1, ", got rank ", part.rank));
    }
    last_rank = part.rank;
    if (is_chief()) MF_RETURN_IF_ERROR(CheckValue(v, part.value));
    Tensor value = part.value;
    if (connection_.has_other_workers()) {
      MF_ASSIGN_OR_RETURN(value, exchange_.Broadcast(variable, /*root=*/0, part.value));
    }
    for (const auto& replica : replicas_) {
      if (replica->rank() != part.rank) continue;
      MF_RETURN_IF_ERROR(
          replica->device().CopyIn(value.raw(), AddressOf(variable, *replica), value.bytes()));
    }
  }
  forms_->MarkWritten(v);
  return absl::OkStatus();
}

void VariableStore::MarkInitial() {
  for (int v = 0; v < static_cast<int>(states_.size()); ++v) {
    if (states_[v] == State::kSet && !info(v).on_read) initial_.insert(v);
  }
}

void VariableStore::MarkEqual(absl::Span<const int> variables) {
  for (const int v : variables) initial_.erase(v);
}

absl::Status VariableStore::TakeInitialValues() {
  if (initial_.empty()) return absl::OkStatus();
  return TakeValuesOfRank0(std::vector<int>(initial_.begin(), initial_.end()));
}

absl::Status VariableStore::AgreeOnInitial(MonotonicTime deadline) {
  std::string own(states_.size(), '0');
  for (const int v : initial_) own[v] = '1';
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      connection_.workers()->AllGather("initial values", own, deadline));
  for (const std::string& other : all) {
    for (size_t v = 0; v < std::min(own.size(), other.size()); ++v) {
      if (other[v] == '1') initial_.insert(static_cast<int>(v));
    }
  }
  return absl::OkStatus();
}

absl::Status VariableStore::TakeValuesOfRank0(absl::Span<const int> variables) {
  for (const int v : variables) forms_->MarkWritten(v);
  MF_RETURN_IF_ERROR(exchange_.OnEachReplica([&](Replica& replica, Lane& lane) -> absl::Status {
    for (const int variable : variables) {
      const VariableInfo& v = info(variable);
      if (v.on_read) continue;  // the replicas' parts differ and sum to the value
      std::byte* const memory = replica.VariableAddress(v);
      MF_RETURN_IF_ERROR(replica.communicator()->Run(
          {.operation = Broadcast{.count = v.shape.num_elements(), .root = 0},
           .dtype = v.dtype,
           .in = memory,
           .out = memory,  // several replicas may share the memory
           .name = v.name},
          &lane));
    }
    return absl::OkStatus();
  }));
  MarkEqual(variables);
  return absl::OkStatus();
}

absl::Status VariableStore::WaitForSharers() {
  return sharing_.with_workers ? exchange_.Barrier("variables") : absl::OkStatus();
}

}  // namespace mirrorflow
