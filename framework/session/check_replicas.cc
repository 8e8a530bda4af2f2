// SPDX-License-Identifier: Apache-2.0
#include "framework/session/check_replicas.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/core/crc32c.h"
#include "framework/core/failpoint.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

// A variable is copied to the host in pieces of this size.
constexpr int64_t kPieceBytes = int64_t{1} << 20;

// With the action `error`, this worker flips a bit in its copy of the first variable.
Failpoint flip_failpoint("check_replicas/flip");

absl::Status FlipBit(const Replica& replica, const VariableInfo& variable) {
  std::byte* const address = replica.layout_region(variable.region) + variable.offset;
  std::byte first;
  MF_RETURN_IF_ERROR(replica.device().CopyOut(address, &first, 1));
  first ^= std::byte{1};
  return replica.device().CopyIn(&first, address, 1);
}

absl::StatusOr<uint32_t> ChecksumOf(const Replica& replica, const VariableInfo& variable) {
  const std::byte* const address = replica.layout_region(variable.region) + variable.offset;
  std::string piece;
  uint32_t checksum = 0;
  for (int64_t begin = 0; begin < variable.bytes(); begin += kPieceBytes) {
    piece.resize(std::min(kPieceBytes, variable.bytes() - begin));
    MF_RETURN_IF_ERROR(replica.device().CopyOut(
        address + begin, reinterpret_cast<std::byte*>(piece.data()), piece.size()));
    checksum = Crc32c(piece, checksum);
  }
  return checksum;
}

// Formats checksums by rank, such as `1a2b3c4d on ranks 0, 1 and 5e6f7a8b on rank 2`.
std::string Describe(const std::vector<uint32_t>& checksums) {
  std::vector<std::pair<uint32_t, std::vector<int>>> groups;  // ordered by their first ranks
  for (size_t rank = 0; rank < checksums.size(); ++rank) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& g) { return g.first == checksums[rank]; });
    if (group == groups.end()) group = groups.insert(group, {checksums[rank], {}});
    group->second.push_back(static_cast<int>(rank));
  }
  std::vector<std::string> texts;
  for (const auto& [checksum, ranks] : groups) {
    texts.push_back(absl::StrFormat("%08x on %s %s", checksum, ranks.size() == 1 ? "rank" : "ranks",
                                    absl::StrJoin(ranks, ", ")));
  }
  return absl::StrJoin(texts, " and ");
}

}  // namespace

absl::Status CheckReplicas(const VariableLayout& layout, RankExchange& exchange) {
  LocalReplicas& replicas = exchange.replicas();
  std::vector<const VariableInfo*> variables;
  for (const VariableInfo& variable : layout.variables()) {
    if (!variable.on_read && variable.bytes() > 0) variables.push_back(&variable);
  }
  if (variables.empty()) return absl::OkStatus();
  if (!flip_failpoint.Pass().ok()) MF_RETURN_IF_ERROR(FlipBit(replicas.first(), *variables[0]));

  // Divides the shared variables among the local replicas.
  const size_t count = variables.size(), num_replicas = replicas.size();
  const auto is_shared = [&](size_t v) { return layout.regions()[variables[v]->region].shared; };
  std::vector<std::vector<uint32_t>> own(num_replicas, std::vector<uint32_t>(count));
  MF_RETURN_IF_ERROR(exchange.OnEachReplica([&](Replica& replica, Lane&) -> absl::Status {
    const size_t r = replicas.IndexOf(replica);
    for (size_t v = 0; v < count; ++v) {
      if (is_shared(v) && v % num_replicas != r) continue;
      MF_ASSIGN_OR_RETURN(own[r][v], ChecksumOf(replica, *variables[v]));
    }
    return absl::OkStatus();
  }));
  for (size_t v = 0; v < count; ++v) {
    for (size_t r = 0; is_shared(v) && r < num_replicas; ++r) own[r][v] = own[v % num_replicas][v];
  }

  MF_ASSIGN_OR_RETURN(const std::vector<uint32_t> all,
                      exchange.AllGather(own, "checksums of the variables"));
  std::string name, found;  // for the first variable that differs
  int num_others = 0;
  for (size_t v = 0; v < count; ++v) {
    std::vector<uint32_t> by_rank;
    for (size_t i = v; i < all.size(); i += count) by_rank.push_back(all[i]);
    if (std::equal(by_rank.begin() + 1, by_rank.end(), by_rank.begin())) continue;
    if (!name.empty()) {
      ++num_others;
      continue;
    }
    name = variables[v]->name;
    found = Describe(by_rank);
  }
  if (name.empty()) return absl::OkStatus();
  const std::string others =
      num_others == 0 ? "" : absl::StrCat("; other variables that differ: ", num_others);
  return WithFailure(
      NumericError(absl::DataLossError(
          absl::StrCat("variable '", name,
                       "' differs between replicas; expected one checksum, got ", found, others))),
      {.name = name});
}

}  // namespace mirrorflow
