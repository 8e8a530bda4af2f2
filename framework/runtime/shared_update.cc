// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/shared_update.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/hash.h"
#include "framework/core/status.h"
#include "framework/runtime/reduce_in_rank_order.h"
#include "framework/runtime/share.h"

namespace mirrorflow {
namespace {

constexpr int64_t kPieceBytes = 16 << 10;  // of a gradient; fits into a part of a small L1 cache

const std::byte* At(const void* memory, int64_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

// Without a team, an update would use only one rank's part of the gradient.
absl::Status CheckTeam(const Communicator& communicator, const LocalTeam* team,
                       const TeamWork& work) {
  if (team != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(work.ToString(),
                   ": expected ranks that share memory within their domain, "
                   "got a communicator without a local team on rank ",
                   communicator.rank()));
}

// Copies what this rank has written to its variables to those of the other ranks, unless they are
// the same memory.
void CopyVariables(const TeamOffer& own, absl::Span<const TeamMemory> ranks, int64_t first,
                   int64_t bytes) {
  for (const TeamMemory& other : ranks) {
    for (size_t v = 0; v < own.out.size(); ++v) {
      if (bytes == 0 || other.out[v] == own.out[v]) continue;
      std::memcpy(other.out[v] + first, own.out[v] + first, bytes);
    }
  }
}

}  // namespace

SharedUpdate::SharedUpdate(Description description)
    : what_(std::move(description)),
      element_bytes_(static_cast<int64_t>(DataTypeSize(what_.dtype))) {
  offer_.work = this;
  offer_.name = what_.name;
  offer_.sequence = what_.sequence;
  offer_.fingerprint = StableHasher()
                           .Add("update")
                           .Add(what_.name)
                           .Add(what_.reduction ? static_cast<int64_t>(*what_.reduction) : -1)
                           .Add(static_cast<int64_t>(what_.dtype))
                           .Add(what_.count)
                           .Add(static_cast<int64_t>(what_.num_variables))
                           .hash();
}

absl::Status SharedUpdate::Start(Communicator* communicator, const void* gradient,
                                 absl::Span<std::byte* const> variables) {
  offer_.in = gradient;
  offer_.in_bytes = what_.count * element_bytes_;
  offer_.out = variables;
  if (communicator == nullptr) return absl::OkStatus();
  LocalTeam* const team = communicator->team();
  MF_RETURN_IF_ERROR(CheckTeam(*communicator, team, *this));
  ins_.resize(team->size());
  return team->Start(offer_);
}

absl::Status SharedUpdate::Finish(Communicator* communicator, Apply apply) {
  if (communicator == nullptr) {
    apply(0, offer_.in, what_.count);
    return absl::OkStatus();
  }
  return communicator->team()->Finish(offer_, [&](absl::Span<const TeamMemory> ranks) {
    return RunShare(*communicator, ranks, apply);
  });
}

absl::Status SharedUpdate::RunShare(Communicator& communicator, absl::Span<const TeamMemory> ranks,
                                    Apply apply) {
  LocalTeam& team = *communicator.team();
  const Share share = ShareOf(what_.count, element_bytes_, team.rank(), team.size());
  // Writes elements [first, first + n) of the reduction over the domain to `out`.
  const auto reduce = [&](int64_t first, int64_t n, Reduction reduction, void* out) {
    for (size_t r = 0; r < ranks.size(); ++r) ins_[r] = At(ranks[r].in, first * element_bytes_);
    ReduceInRankOrder(reduction, what_.dtype, ins_, {&out, 1}, n);
  };
  alignas(64) std::byte piece[kPieceBytes];
  const bool by_piece = what_.reduction.has_value() && communicator.num_domains() == 1;
  // The whole gradient of the share, unless it is reduced piece by piece.
  const std::byte* whole = At(offer_.in, share.first * element_bytes_);
  if (what_.reduction.has_value() && !by_piece) {
    share_.resize(share.count * element_bytes_);
    reduce(share.first, share.count, WithinDomain(*what_.reduction), share_.data());
    MF_RETURN_IF_ERROR(communicator.ReduceOverDomains({.reduction = *what_.reduction,
                                                       .dtype = what_.dtype,
                                                       .memory = share_.data(),
                                                       .count = what_.count,
                                                       .name = what_.name}));
    whole = share_.data();
  }
  const int64_t per_piece = kPieceBytes / element_bytes_;
  for (int64_t first = share.first; first < share.end(); first += per_piece) {
    const int64_t n = std::min(per_piece, share.end() - first);
    if (by_piece) reduce(first, n, *what_.reduction, piece);
    apply(first, by_piece ? piece : whole + (first - share.first) * element_bytes_, n);
    CopyVariables(offer_, ranks, first * element_bytes_, n * element_bytes_);
  }
  return absl::OkStatus();
}

std::string SharedUpdate::ToString() const {
  return absl::StrCat("update '", what_.name, "' of ", what_.count, " ", DataTypeName(what_.dtype),
                      " (", what_.reduction ? ReductionName(*what_.reduction) : "whole", ")");
}

SharedProductUpdate::SharedProductUpdate(Description description) : what_(std::move(description)) {
  offer_.work = this;
  offer_.name = what_.name;
  offer_.sequence = what_.sequence;
  StableHasher hasher;
  hasher.Add("update by product").Add(what_.name).Add(static_cast<int64_t>(what_.dtype));
  hasher.Add(what_.rows).Add(what_.row_bytes).Add(static_cast<int64_t>(what_.num_variables));
  for (const int64_t count : what_.counts) hasher.Add(count);
  offer_.fingerprint = hasher.hash();
}

absl::Status SharedProductUpdate::Start(Communicator* communicator, const void* a, const void* b,
                                        absl::Span<std::byte* const> variables) {
  offer_.in = a;
  offer_.right = b;
  if (communicator != nullptr) {
    const int64_t own_rows = what_.counts[communicator->rank()];
    offer_.in_bytes = own_rows * what_.rows * static_cast<int64_t>(DataTypeSize(what_.dtype));
    offer_.right_bytes = own_rows * what_.row_bytes;
  }
  offer_.out = variables;
  if (communicator == nullptr) return absl::OkStatus();
  LocalTeam* const team = communicator->team();
  MF_RETURN_IF_ERROR(CheckTeam(*communicator, team, *this));
  if (team->size() != communicator->world_size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(ToString(), ": expected one memory domain for all ",
                     communicator->world_size(), " ranks, got one of ", team->size()));
  }
  parts_.resize(team->size());
  return team->Start(offer_);
}

absl::Status SharedProductUpdate::Finish(Communicator* communicator, Apply apply) {
  if (communicator == nullptr) {
    const ProductRows rows{offer_.in, offer_.right, what_.counts[0]};
    apply({&rows, 1}, 0, what_.rows);
    return absl::OkStatus();
  }
  LocalTeam& team = *communicator->team();
  return team.Finish(offer_, [&](absl::Span<const TeamMemory> ranks) {
    for (size_t r = 0; r < ranks.size(); ++r) {
      parts_[r] = {ranks[r].in, ranks[r].right, what_.counts[r]};
    }
    constexpr int64_t kTogether = 4;  // rows; products are faster on several rows at a time
    const auto first_of = [&](int rank) {
      return rank == team.size() ? what_.rows
                                 : what_.rows * rank / team.size() / kTogether * kTogether;
    };
    const int64_t first = first_of(team.rank()), last = first_of(team.rank() + 1);
    apply(parts_, first, last);
    CopyVariables(offer_, ranks, first * what_.row_bytes, (last - first) * what_.row_bytes);
    return absl::OkStatus();
  });
}

std::string SharedProductUpdate::ToString() const {
  return absl::StrCat("update by product '", what_.name, "' of [", absl::StrJoin(what_.counts, ","),
                      "] rows ", DataTypeName(what_.dtype));
}

}  // namespace mirrorflow
