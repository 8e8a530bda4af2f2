// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/shared_update.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
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

SharedUpdate::SharedUpdate(Description description, Apply apply)
    : what_(std::move(description)),
      apply_(std::move(apply)),
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
  own_ = ShareOf(what_.count, element_bytes_, team->rank(), team->size());
  ins_.resize(team->size());
  return GoesOverDomains(*communicator) ? communicator->StartOverDomains(this)
                                        : team->Start(offer_);
}

absl::Status SharedUpdate::Finish(Communicator* communicator) {
  if (communicator == nullptr) {
    apply_(0, offer_.in, what_.count);
    return absl::OkStatus();
  }
  if (GoesOverDomains(*communicator)) return communicator->FinishOverDomains(this);
  return communicator->team()->Finish(offer_, [this](absl::Span<const TeamMemory> ranks) {
    RunShare(ranks);
    return absl::OkStatus();
  });
}

void SharedUpdate::FindOthers(absl::Span<const TeamMemory> ranks) {
  others_.clear();
  for (const TeamMemory& rank : ranks) {
    others_.insert(others_.end(), rank.out.begin(), rank.out.end());
  }
}

void SharedUpdate::Update(int64_t first, const void* gradient, int64_t count) {
  apply_(first, gradient, count);
  const int64_t at = first * element_bytes_, bytes = count * element_bytes_;
  for (size_t i = 0; i < others_.size(); ++i) {
    const std::byte* const own = offer_.out[i % offer_.out.size()];
    if (others_[i] != own) std::memcpy(others_[i] + at, own + at, bytes);
  }
}

void SharedUpdate::RunShare(absl::Span<const TeamMemory> ranks) {
  FindOthers(ranks);
  alignas(64) std::byte piece[kPieceBytes];
  void* const out = piece;
  const int64_t per_piece = kPieceBytes / element_bytes_;
  for (int64_t first = own_.first; first < own_.end(); first += per_piece) {
    const int64_t n = std::min(per_piece, own_.end() - first);
    if (!what_.reduction.has_value()) {
      Update(first, At(offer_.in, first * element_bytes_), n);
      continue;
    }
    for (size_t r = 0; r < ranks.size(); ++r) ins_[r] = At(ranks[r].in, first * element_bytes_);
    ReduceInRankOrder(*what_.reduction, what_.dtype, ins_, {&out, 1}, n);
    Update(first, piece, n);
  }
}

std::variant<Communicator::DomainShare, Communicator::DomainPart> SharedUpdate::Prepare(
    absl::Span<const TeamMemory> ranks) {
  FindOthers(ranks);
  const void* in = offer_.in;
  if (ranks.size() > 1) {
    share_.resize(own_.count * element_bytes_);
    void* const sum = share_.data();
    for (size_t r = 0; r < ranks.size(); ++r) {
      ins_[r] = At(ranks[r].in, own_.first * element_bytes_);
    }
    ReduceInRankOrder(WithinDomain(*what_.reduction), what_.dtype, ins_, {&sum, 1}, own_.count);
    in = sum;
  }
  return Communicator::DomainShare{.reduction = *what_.reduction,
                                   .dtype = what_.dtype,
                                   .count = what_.count,
                                   .in = in,
                                   .urgency = what_.urgency};
}

void SharedUpdate::Take(int64_t first, const void* values, int64_t count) {
  const int64_t per_piece = kPieceBytes / element_bytes_;
  for (int64_t at = 0; at < count; at += per_piece) {
    Update(first + at, At(values, at * element_bytes_), std::min(per_piece, count - at));
  }
}

std::string SharedUpdate::ToString() const {
  return absl::StrCat("update '", what_.name, "' of ", what_.count, " ", DataTypeName(what_.dtype),
                      " (", what_.reduction ? ReductionName(*what_.reduction) : "whole", ")");
}

SharedProductUpdate::SharedProductUpdate(Description description, Apply apply)
    : what_(std::move(description)), apply_(std::move(apply)) {
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
  communicator_ = communicator;
  offer_.in = a;
  offer_.right = b;
  offer_.out = variables;
  if (communicator == nullptr) return absl::OkStatus();
  const int64_t own_rows = what_.counts[communicator->rank()];
  offer_.in_bytes = own_rows * RowBytesOfA();
  offer_.right_bytes = own_rows * what_.row_bytes;
  LocalTeam* const team = communicator->team();
  MF_RETURN_IF_ERROR(CheckTeam(*communicator, team, *this));
  parts_.resize(communicator->world_size());
  if (communicator->num_domains() == 1) return team->Start(offer_);
  CopyOwnRows();
  return communicator->StartOverDomains(this);
}

// The rows that the others get are copied, so that the plan need not keep them.
void SharedProductUpdate::CopyOwnRows() {
  rows_.resize(what_.counts.size());
  others_.resize(what_.counts.size());
  const absl::Span<const int> near = communicator_->domain_ranks();
  for (size_t r = 0; r < rows_.size(); ++r) {
    const bool is_near = absl::c_linear_search(near, static_cast<int>(r));
    if (is_near && static_cast<int>(r) != communicator_->rank()) continue;
    rows_[r].resize(what_.counts[r] * (RowBytesOfA() + what_.row_bytes));
    if (!is_near) others_[r] = absl::MakeSpan(rows_[r]);
  }
  std::byte* const own = rows_[communicator_->rank()].data();
  if (offer_.in_bytes > 0) std::memcpy(own, offer_.in, offer_.in_bytes);
  if (offer_.right_bytes > 0) std::memcpy(own + offer_.in_bytes, offer_.right, offer_.right_bytes);
  offer_.in = own;
  offer_.right = own + offer_.in_bytes;
}

std::variant<Communicator::DomainShare, Communicator::DomainPart> SharedProductUpdate::Prepare(
    absl::Span<const TeamMemory>) {
  return Communicator::DomainPart{
      .own = rows_[communicator_->rank()], .others = others_, .urgency = what_.urgency};
}

absl::Status SharedProductUpdate::Finish(Communicator* communicator) {
  if (communicator == nullptr) {
    const ProductRows rows{offer_.in, offer_.right, what_.counts[0]};
    apply_({&rows, 1}, 0, what_.rows);
    return absl::OkStatus();
  }
  if (communicator->num_domains() > 1) return communicator->FinishOverDomains(this);
  return communicator->team()->Finish(offer_, [this](absl::Span<const TeamMemory> ranks) {
    RunShare(ranks);
    return absl::OkStatus();
  });
}

void SharedProductUpdate::RunShare(absl::Span<const TeamMemory> ranks) {
  LocalTeam& team = *communicator_->team();
  for (size_t r = 0; r < others_.size(); ++r) {
    if (others_[r].empty()) continue;  // a rank of this domain, or one without rows
    parts_[r] = {others_[r].data(), others_[r].data() + what_.counts[r] * RowBytesOfA(),
                 what_.counts[r]};
  }
  const absl::Span<const int> near = communicator_->domain_ranks();
  for (size_t i = 0; i < ranks.size(); ++i) {
    parts_[near[i]] = {ranks[i].in, ranks[i].right, what_.counts[near[i]]};
  }
  constexpr int64_t kTogether = 4;  // rows; products are faster on several rows at a time
  const auto first_of = [&](int rank) {
    return rank == team.size() ? what_.rows
                               : what_.rows * rank / team.size() / kTogether * kTogether;
  };
  const int64_t first = first_of(team.rank()), last = first_of(team.rank() + 1);
  apply_(parts_, first, last);
  CopyVariables(offer_, ranks, first * what_.row_bytes, (last - first) * what_.row_bytes);
}

std::string SharedProductUpdate::ToString() const {
  return absl::StrCat("update by product '", what_.name, "' of [", absl::StrJoin(what_.counts, ","),
                      "] rows ", DataTypeName(what_.dtype));
}

}  // namespace mirrorflow
