// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/check_collective.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/runtime/reduce_in_rank_order.h"

namespace mirrorflow {
namespace {

// Which fields of a Collective a kind uses.
struct Uses {
  bool reduction = false;
  bool count = false;
  bool counts = false;
  bool root = false;
  bool variables = false;
};

Uses UsesOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return {.reduction = true, .count = true};
    case CollectiveKind::kReduceScatter:
      return {.reduction = true, .counts = true};
    case CollectiveKind::kAllGather:
      return {.counts = true};
    case CollectiveKind::kBroadcast:
      return {.count = true, .root = true};
    case CollectiveKind::kUpdate:
      return {.reduction = true, .count = true, .variables = true};
    case CollectiveKind::kUpdateByProduct:
      return {.count = true, .counts = true, .variables = true};
    case CollectiveKind::kBarrier:
      return {};
  }
  return {};
}

bool HasElements(const Uses& uses) { return uses.count || uses.counts; }

absl::Status Wrong(const Collective& c, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(CollectiveToString(c), ": ", what));
}

}  // namespace

absl::Status CheckCollective(const Collective& c, int rank, int world_size) {
  const Uses uses = UsesOf(c.kind);
  if (!HasElements(uses)) return absl::OkStatus();
  if (uses.reduction && !CanReduce(c.reduction, c.dtype)) {
    return Wrong(c, absl::StrCat("cannot reduce; expected sum, mean, max or min of float, double, "
                                 "int32, int64 or uint8, or all or any of bool, got ",
                                 ReductionName(c.reduction), " of ", DataTypeName(c.dtype)));
  }
  if (DataTypeSize(c.dtype) == 0) {
    return Wrong(c, absl::StrCat("elements must have a fixed size; got ", DataTypeName(c.dtype)));
  }
  if (uses.root && (c.root < 0 || c.root >= world_size)) {
    return Wrong(
        c, absl::StrCat("root is not a rank; expected 0 to ", world_size - 1, ", got ", c.root));
  }
  if (uses.count && c.count < 0) {
    return Wrong(c, absl::StrCat("expected a count of 0 or more, got ", c.count));
  }
  if (uses.counts && static_cast<int>(c.counts.size()) != world_size) {
    return Wrong(
        c, absl::StrCat("expected one count a rank, ", world_size, ", got ", c.counts.size()));
  }
  int64_t total = c.count;
  int64_t own = c.count;
  if (uses.counts) {
    total = 0;
    for (const int64_t count : c.counts) {
      if (count < 0) return Wrong(c, absl::StrCat("expected counts of 0 or more, got ", count));
      total += count;
    }
    own = c.counts[rank];
  }
  const bool gathers =
      c.kind == CollectiveKind::kAllGather || c.kind == CollectiveKind::kUpdateByProduct;
  const bool scatters = c.kind == CollectiveKind::kReduceScatter;
  const bool reads = c.kind != CollectiveKind::kBroadcast || c.root == rank;
  if ((c.in == nullptr && reads && (gathers ? own : total) > 0) ||
      (c.out == nullptr && !uses.variables && (scatters ? own : total) > 0) ||
      (c.kind == CollectiveKind::kUpdateByProduct && c.right == nullptr && own > 0)) {
    return Wrong(c, absl::StrCat("has elements but no memory on rank ", rank));
  }
  if ((c.kind == CollectiveKind::kUpdate && c.update == nullptr) ||
      (c.kind == CollectiveKind::kUpdateByProduct && c.product_update == nullptr)) {
    return Wrong(c, absl::StrCat("expected an update, got none on rank ", rank));
  }
  return absl::OkStatus();
}

bool SameCollective(const Collective& a, const Collective& b) {
  const Uses uses = UsesOf(a.kind);
  return a.kind == b.kind && (!HasElements(uses) || a.dtype == b.dtype) &&
         (!uses.reduction || a.reduction == b.reduction) && (!uses.count || a.count == b.count) &&
         (!uses.counts || a.counts == b.counts) && (!uses.root || a.root == b.root) &&
         (!uses.variables ||
          (a.variables.size() == b.variables.size() && a.is_whole == b.is_whole &&
           a.rows == b.rows && a.row_bytes == b.row_bytes)) &&
         a.name == b.name;
}

std::string CollectiveToString(const Collective& c) {
  const Uses uses = UsesOf(c.kind);
  std::string text = absl::StrCat(CollectiveKindName(c.kind), " '", c.name, "'");
  if (uses.count) absl::StrAppend(&text, " of ", c.count);
  if (uses.counts) absl::StrAppend(&text, " of [", absl::StrJoin(c.counts, ","), "]");
  if (HasElements(uses)) absl::StrAppend(&text, " ", DataTypeName(c.dtype));
  if (uses.reduction) absl::StrAppend(&text, " (", ReductionName(c.reduction), ")");
  if (uses.root) absl::StrAppend(&text, " (root ", c.root, ")");
  return text;
}

}  // namespace mirrorflow
