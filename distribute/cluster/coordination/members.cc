// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/members.h"

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "distribute/cluster/coordination/value_list.h"
#include "framework/core/status.h"

namespace mirrorflow {

coordination::Membership JoinMembers(absl::Span<const coordination::Member> members) {
  coordination::Membership membership;
  std::map<std::string, uint32_t> hosts;  // by identity
  std::vector<std::string> replicas;
  for (const coordination::Member& member : members) {
    const auto number = static_cast<uint32_t>(hosts.size());
    membership.add_host(hosts.emplace(member.host_id(), number).first->second);
    coordination::Membership::Replicas own;
    *own.mutable_devices() = member.devices();
    own.set_cores(member.cores());
    own.set_instruction_set(member.instruction_set());
    replicas.push_back(own.SerializeAsString());
  }
  *membership.mutable_replicas() = ValueListOf(replicas);
  if (!members.empty()) *membership.mutable_first() = members[0];
  membership.mutable_first()->clear_settings();  // the service has checked that all are equal
  return membership;
}

absl::StatusOr<std::vector<coordination::Member>> SplitMembers(
    const coordination::Membership& membership, int count) {
  const auto malformed = [] { return absl::InternalError("coordination: malformed membership"); };
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> replicas,
                      ValuesOf(membership.replicas(), count));
  if (membership.host_size() != count) return malformed();
  std::vector<coordination::Member> members(count);
  for (int w = 0; w < count; ++w) {
    coordination::Membership::Replicas own;
    if (!own.ParseFromString(replicas[w])) return malformed();
    if (w == 0) members[w] = membership.first();
    members[w].set_worker(w);
    members[w].set_num_workers(count);
    members[w].set_host_id(absl::StrCat(membership.host(w)));
    *members[w].mutable_devices() = own.devices();
    members[w].set_cores(own.cores());
    members[w].set_instruction_set(own.instruction_set());
  }
  return members;
}

}  // namespace mirrorflow
