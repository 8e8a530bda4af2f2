// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/passes/list_parts.h"

#include <algorithm>
#include <utility>

#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Returns whether the length must be passed along with the list, because the length is not fixed or
// the list has several kinds.
bool Varies(const ListInfo& info) { return info.length < 0 || !info.others.empty(); }

}  // namespace

absl::StatusOr<ListRows> NoRows(const Scope& scope, const ListKind& kind, int64_t capacity,
                                int64_t length) {
  bool bounded = capacity >= 0;
  for (const int64_t max : kind.inner) bounded &= max >= 0;
  if (!bounded) {
    return absl::UnimplementedError(
        "the maximum length of the list must be known before the step runs; set "
        "max_num_elements, or push the elements in a loop that compares a counter with a "
        "constant (`maximum_iterations` for a loop with a gradient)");
  }
  Shape row;
  std::vector<Output> inner;
  for (const int64_t max : kind.inner) {
    inner.push_back(ZeroRows(scope, DT_INT32, capacity, row, 0).rows);
    row.AddDim(max);
  }
  // If dimensions are still unknown, the elements never exist; if the dtype is unknown, an optional
  // never has a value.
  const Shape element = kind.element.unknown_rank() ? Shape() : kind.element;
  for (const int64_t d : element.dims()) row.AddDim(std::max<int64_t>(d, 0));
  ListRows none = ZeroRows(scope, kind.known() ? kind.dtype : DT_BOOL, capacity, row, length);
  none.inner = std::move(inner);
  return none;
}

absl::StatusOr<ListParts> SelectParts(const Scope& scope, const ListInfo& have,
                                      const ListInfo& want, bool is_element,
                                      absl::FunctionRef<ListRows(int)> get) {
  const std::vector<ListKind> kinds = have.kinds();
  ListParts parts;
  for (const ListKind& kind : want.kinds()) {
    const int found = FindKind(kinds, kind, kind.inner.size() + (is_element ? 1 : 0));
    if (found >= 0) {
      parts.push_back(get(found));
    } else {  // the list is never of this kind
      MF_ASSIGN_OR_RETURN(ListRows none, NoRows(scope, kind, want.max_length, 0));
      parts.push_back(std::move(none));
    }
  }
  return parts;
}

void AppendParts(const Scope& scope, const ListParts& parts, const ListInfo& info,
                 std::vector<Output>* values) {
  for (const ListRows& part : parts) {
    values->push_back(part.rows);
    if (Varies(info)) values->push_back(LengthOf(scope, part));
    values->insert(values->end(), part.inner.begin(), part.inner.end());
  }
}

ListParts TakeParts(const ListInfo& info, absl::FunctionRef<Output()> next) {
  ListParts parts;
  for (const ListKind& kind : info.kinds()) {
    ListRows part{.rows = next(), .length = Output(), .fixed = info.length};
    if (Varies(info)) part.length = next();
    for (size_t k = 0; k < kind.inner.size(); ++k) part.inner.push_back(next());
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace mirrorflow
