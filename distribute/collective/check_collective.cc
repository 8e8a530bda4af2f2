// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/check_collective.h"

#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/hash.h"
#include "framework/core/overloaded.h"
#include "framework/runtime/reduce_in_rank_order.h"

namespace mirrorflow {
namespace {

// The fields that collectives have in common. A field is unset if this kind of collective lacks it.
struct Fields {
  absl::string_view kind;
  std::optional<Reduction> reduction;
  std::optional<int64_t> count;
  std::optional<absl::Span<const int64_t>> counts;
  std::optional<int> root;
  size_t num_variables = 0;
};

Fields FieldsOf(const Collective& c) {
  return std::visit(
      Overloaded{
          [](const Barrier&) { return Fields{.kind = "barrier"}; },
          [](const AllReduce& a) {
            return Fields{.kind = "all-reduce", .reduction = a.reduction, .count = a.count};
          },
          [](const ReduceScatter& r) {
            return Fields{.kind = "reduce-scatter", .reduction = r.reduction, .counts = r.counts};
          },
          [](const AllGather& g) { return Fields{.kind = "all-gather", .counts = g.counts}; },
          [](const Broadcast& b) {
            return Fields{.kind = "broadcast", .count = b.count, .root = b.root};
          },
          [](const Update& u) {
            return Fields{.kind = "update",
                          .reduction = u.reduction,
                          .count = u.count,
                          .num_variables = u.variables.size()};
          },
          [](const ProductUpdate& u) {
            return Fields{.kind = "update by product",
                          .counts = u.counts,
                          .num_variables = u.variables.size()};
          },
      },
      c.operation);
}

absl::Status Wrong(const Collective& c, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(CollectiveToString(c), ": ", what));
}

int64_t Sum(absl::Span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

bool IsBarrier(const Collective& c) { return std::holds_alternative<Barrier>(c.operation); }

}  // namespace

int64_t FirstOf(int rank, absl::Span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

absl::Status CheckCollective(const Collective& c, int rank, int world_size) {
  if (IsBarrier(c)) return absl::OkStatus();
  const Fields f = FieldsOf(c);
  if (f.reduction && !CanReduce(*f.reduction, c.dtype)) {
    return Wrong(c,
                 absl::StrCat("cannot reduce; expected sum, mean, max or min of half, bfloat16, "
                              "float, double, int32, int64 or uint8, or all or any of bool, got ",
                              ReductionName(*f.reduction), " of ", DataTypeName(c.dtype)));
  }
  if (DataTypeSize(c.dtype) == 0) {
    return Wrong(c, absl::StrCat("unsupported dtype; expected elements of a fixed size, got ",
                                 DataTypeName(c.dtype)));
  }
  if (f.root && (*f.root < 0 || *f.root >= world_size)) {
    return Wrong(
        c, absl::StrCat("root is not a rank; expected 0 to ", world_size - 1, ", got ", *f.root));
  }
  if (f.count && *f.count < 0) {
    return Wrong(c, absl::StrCat("expected a count of 0 or more, got ", *f.count));
  }
  if (f.counts && static_cast<int>(f.counts->size()) != world_size) {
    return Wrong(c, absl::StrCat("wrong number of counts; expected ", world_size,
                                 " (one per rank), got ", f.counts->size()));
  }
  if (f.counts) {
    for (const int64_t count : *f.counts) {
      if (count < 0) return Wrong(c, absl::StrCat("expected counts of 0 or more, got ", count));
    }
  }
  if ((c.in == nullptr && InputElements(c, rank) > 0) ||
      (c.out == nullptr && OutputElements(c, rank) > 0)) {
    return Wrong(c,
                 absl::StrCat("an input or output with elements has null memory on rank ", rank));
  }
  return absl::OkStatus();
}

int64_t InputElements(const Collective& c, int rank) {
  return std::visit(Overloaded{
                        [](const Barrier&) { return int64_t{0}; },
                        [](const AllReduce& a) { return a.count; },
                        [](const ReduceScatter& r) { return Sum(r.counts); },
                        [&](const AllGather& g) { return g.counts[rank]; },
                        [&](const Broadcast& b) { return b.root == rank ? b.count : 0; },
                        [](const Update& u) { return u.count; },
                        [&](const ProductUpdate& u) { return u.counts[rank] * u.rows; },
                    },
                    c.operation);
}

int64_t OutputElements(const Collective& c, int rank) {
  return std::visit(Overloaded{
                        [](const Barrier&) { return int64_t{0}; },
                        [](const AllReduce& a) { return a.count; },
                        [&](const ReduceScatter& r) { return r.counts[rank]; },
                        [](const AllGather& g) { return Sum(g.counts); },
                        [](const Broadcast& b) { return b.count; },
                        [](const Update&) { return int64_t{0}; },
                        [](const ProductUpdate&) { return int64_t{0}; },
                    },
                    c.operation);
}

bool IsUpdate(const Collective& c) {
  return std::holds_alternative<Update>(c.operation) ||
         std::holds_alternative<ProductUpdate>(c.operation);
}

absl::Status NeedsHostMemory(const Collective& c, int rank) {
  return absl::FailedPreconditionError(absl::StrCat(
      CollectiveToString(c), ": expected host memory, got device memory on rank ", rank));
}

uint64_t Fingerprint(const Collective& c) {
  const Fields f = FieldsOf(c);
  StableHasher hasher;
  hasher.Add(f.kind).Add(c.name);
  if (!IsBarrier(c)) hasher.Add(static_cast<int64_t>(c.dtype));
  if (f.reduction) hasher.Add(static_cast<int64_t>(*f.reduction));
  if (f.count) hasher.Add(*f.count);
  if (f.root) hasher.Add(int64_t{*f.root});
  if (f.counts) {
    for (const int64_t count : *f.counts) hasher.Add(count);
  }
  if (f.num_variables > 0) hasher.Add(static_cast<int64_t>(f.num_variables));
  if (const auto* product = std::get_if<ProductUpdate>(&c.operation)) {
    hasher.Add(product->rows).Add(product->row_bytes);
  }
  return hasher.hash();
}

std::string CollectiveToString(const Collective& c) {
  const Fields f = FieldsOf(c);
  std::string text = absl::StrCat(f.kind, " '", c.name, "'");
  if (f.count) absl::StrAppend(&text, " of ", *f.count);
  if (f.counts) absl::StrAppend(&text, " of [", absl::StrJoin(*f.counts, ","), "]");
  if (std::holds_alternative<ProductUpdate>(c.operation)) absl::StrAppend(&text, " rows");
  if (!IsBarrier(c)) absl::StrAppend(&text, " ", DataTypeName(c.dtype));
  if (f.reduction) absl::StrAppend(&text, " (", ReductionName(*f.reduction), ")");
  if (std::holds_alternative<Update>(c.operation) && !f.reduction) text += " (whole)";
  if (f.root) absl::StrAppend(&text, " (root ", *f.root, ")");
  return text;
}

}  // namespace mirrorflow
