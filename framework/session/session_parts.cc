// SPDX-License-Identifier: Apache-2.0
//
// Reads and assigns the parts that the ranks hold of variables that are synchronised on read.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/session/session_state.h"

namespace mirrorflow {
namespace {

bool IsZero(const Tensor& value) {
  return std::all_of(value.raw(), value.raw() + value.bytes(),
                     [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

absl::StatusOr<int> SessionState::FindOnRead(absl::string_view name) const {
  MF_ASSIGN_OR_RETURN(const int v, FindVariable(name));
  if (layout_.variables()[v].on_read) return v;
  return absl::InvalidArgumentError(
      absl::StrCat("variable '", name,
                   "': expected one that is synchronised on read, got one whose copies are equal"));
}

absl::StatusOr<std::vector<VariablePart>> SessionState::ReadParts(absl::string_view name) {
  MF_ASSIGN_OR_RETURN(const int v, FindOnRead(name));
  const VariableInfo& variable = layout_.variables()[v];
  const size_t num_local = replicas_.size();
  std::vector<Tensor> own(num_local);
  std::vector<std::vector<uint32_t>> has_part(num_local);
  for (size_t r = 0; r < num_local; ++r) {
    MF_RETURN_IF_ERROR(ReadVariable(name, static_cast<int>(r), &own[r]));
    has_part[r] = {IsZero(own[r]) ? 0u : 1u};
  }
  std::vector<VariablePart> parts;
  if (!connection_.has_other_workers()) {
    for (size_t r = 0; r < num_local; ++r) {
      if (has_part[r][0] != 0) parts.push_back({replicas_[r]->rank(), std::move(own[r])});
    }
    return parts;
  }
  if (connection_.state() == Connection::State::kBroken) MF_RETURN_IF_ERROR(Reconnect());
  MF_ASSIGN_OR_RETURN(const std::vector<uint32_t> all, GatherNumbers(has_part, variable.name));
  const int first_rank = replicas_[0]->rank();
  const bool is_chief = connection_.workers()->worker() == 0;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (all[rank] == 0) continue;
    const int local = rank - first_rank;
    const bool is_local = local >= 0 && local < static_cast<int>(num_local);
    if (connection_.topology().replicas[rank].worker == 0) {
      if (is_chief) parts.push_back({rank, std::move(own[local])});
      continue;
    }
    MF_ASSIGN_OR_RETURN(Tensor value,
                        BroadcastPart(variable, rank, is_local ? own[local] : Tensor()));
    if (is_chief) parts.push_back({rank, std::move(value)});
  }
  return parts;
}

absl::Status SessionState::AssignPartsFromWorker0(absl::string_view name,
                                                  absl::Span<const VariablePart> parts) {
  MF_ASSIGN_OR_RETURN(const int v, FindOnRead(name));
  const VariableInfo& variable = layout_.variables()[v];
  MF_ASSIGN_OR_RETURN(Tensor zeros, Tensor::Allocate(variable.dtype, variable.shape));
  std::memset(zeros.raw(), 0, zeros.bytes());
  MF_RETURN_IF_ERROR(SetVariable(v, zeros));
  const bool is_alone = !connection_.has_other_workers();
  const bool is_chief = is_alone || connection_.workers()->worker() == 0;
  if (!is_alone && connection_.state() == Connection::State::kBroken) {
    MF_RETURN_IF_ERROR(Reconnect());
  }
  int last_rank = -1;
  for (const VariablePart& part : parts) {
    if (part.rank <= last_rank || part.rank >= world_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", name, "': expected parts of ranks from ", last_rank + 1,
                       " to ", world_size() - 1, ", got one of rank ", part.rank));
    }
    last_rank = part.rank;
    if (is_chief) MF_RETURN_IF_ERROR(CheckValue(variable, part.value));
    Tensor value = part.value;
    if (!is_alone) {
      MF_ASSIGN_OR_RETURN(value, BroadcastPart(variable, /*root=*/0, part.value));
    }
    for (const auto& replica : replicas_) {
      if (replica->rank() != part.rank) continue;
      std::byte* const to = replica->layout_region(variable.region) + variable.offset;
      MF_RETURN_IF_ERROR(replica->device().CopyIn(value.raw(), to, value.bytes()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> SessionState::BroadcastPart(const VariableInfo& variable, int root,
                                                   const Tensor& value) {
  std::vector<std::shared_ptr<std::byte>> buffers(replicas_.size());
  const int first_rank = replicas_[0]->rank();
  MF_RETURN_IF_ERROR(OnEachReplica([&](Replica& replica, Lane& lane) -> absl::Status {
    Device& device = replica.device();
    std::shared_ptr<std::byte>& buffer = buffers[replica.rank() - first_rank];
    MF_ASSIGN_OR_RETURN(buffer, device.AllocateForCollectives(variable.bytes()));
    if (replica.rank() == root) {
      MF_RETURN_IF_ERROR(device.CopyIn(value.raw(), buffer.get(), value.bytes()));
    }
    std::byte* const memory = device.KernelAddress(buffer.get());
    return replica.communicator()->Run(
        {.operation = Broadcast{.count = variable.shape.num_elements(), .root = root},
         .dtype = variable.dtype,
         .in = memory,
         .out = memory,
         .name = variable.name},
        &lane);
  }));
  MF_ASSIGN_OR_RETURN(Tensor part, Tensor::Allocate(variable.dtype, variable.shape));
  MF_RETURN_IF_ERROR(replicas_[0]->device().CopyOut(buffers[0].get(), part.raw(), part.bytes()));
  return part;
}

}  // namespace mirrorflow
