// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/list_info.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int64_t kUnknown = ListKind::kUnknown;
// TensorFlow creates one kind per branch; a file could create as many as it has nodes.
constexpr size_t kMaxKinds = 64;

int64_t Longest(int64_t a, int64_t b) { return a < 0 || b < 0 ? kUnknown : std::max(a, b); }

bool IsZero(int64_t length) { return length == 0; }

bool HoldsNothing(int64_t max_length, const ListKind& kind) {
  return max_length == 0 || std::any_of(kind.inner.begin(), kind.inner.end(), IsZero);
}

// Returns true if the list is an optional or contains optionals.
bool HasOptionals(const ListInfo& list) {
  const auto at_most_one = [](int64_t length) { return length == 0 || length == 1; };
  return at_most_one(list.max_length) ||
         std::any_of(list.inner.begin(), list.inner.end(), at_most_one);
}

// Returns true if `a` has `depth` levels of nesting, the dtype of `b` and a compatible shape.
bool AreAlike(const ListKind& a, const ListKind& b, size_t depth) {
  return a.dtype == b.dtype && a.inner.size() == depth && a.element.IsCompatibleWith(b.element);
}

// Returns the error for two kinds that are not alike.
absl::Status NotAlike(const ListKind& a, const ListKind& b) {
  if (a.inner.size() != b.inner.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the elements of a list must be nested to the same depth, got ",
                     a.inner.size() + 1, " and ", b.inner.size() + 1));
  }
  if (a.dtype != b.dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("the elements of a list must have the same dtype, ", "got ",
                     DataTypeName(a.dtype), " and ", DataTypeName(b.dtype)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the elements of a list must have the same shape, ", "got ",
                   a.element.ToString(), " and ", b.element.ToString()));
}

// Reduces `kind` to the information that also holds for `other`. `kind_holds` and `other_holds` say
// whether the list of that kind holds a tensor; if it does not, the kind's common value is ignored.
absl::Status MergeKind(const ListKind& other, bool other_holds, bool kind_holds, ListKind* kind) {
  MF_ASSIGN_OR_RETURN(kind->element, kind->element.MergeWith(other.element));
  for (size_t i = 0; i < std::min(kind->inner.size(), other.inner.size()); ++i) {
    kind->inner[i] = Longest(kind->inner[i], other.inner[i]);
  }
  if (!kind_holds) {
    kind->common = other.common;
  } else if (other_holds && !SameTensor(kind->common, other.common)) {
    kind->common = Tensor();
  }
  return absl::OkStatus();
}

void SetKinds(std::vector<ListKind> kinds, ListInfo* list) {
  const auto before = [](const ListKind& a, const ListKind& b) {
    const auto key = [](const ListKind& k) {
      return std::make_tuple(k.inner.size(), static_cast<int>(k.dtype), k.element.ToString());
    };
    return key(a) < key(b);
  };
  if (kinds.size() > 1) std::sort(kinds.begin(), kinds.end(), before);
  static_cast<ListKind&>(*list) = kinds[0];
  list->others.assign(kinds.begin() + 1, kinds.end());
}

}  // namespace

bool ListInfo::holds_nothing() const { return HoldsNothing(max_length, *this); }

std::vector<ListKind> ListInfo::kinds() const {
  std::vector<ListKind> all = {*this};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

absl::StatusOr<ListInfo> ListInfo::InList() const {
  std::vector<ListKind> nested = kinds();
  for (ListKind& kind : nested) {
    if (static_cast<int>(kind.inner.size()) + 1 >= kMaxDepth) {
      return absl::UnimplementedError(
          absl::StrCat("lists can be nested at most ", kMaxDepth, " deep"));
    }
    kind.inner.insert(kind.inner.begin(), max_length);
  }
  ListInfo outer;
  outer.length = outer.max_length = 1;
  SetKinds(std::move(nested), &outer);
  return outer;
}

ListInfo ListInfo::ElementList() const {
  ListInfo element_list;
  if (holds_nothing() && inner.empty()) element_list.max_length = 0;
  std::vector<ListKind> nested;
  for (ListKind kind : kinds()) {
    if (kind.inner.empty()) continue;
    const int64_t max = kind.inner[0];
    element_list.max_length = nested.empty() ? max : Longest(max, element_list.max_length);
    kind.inner.erase(kind.inner.begin());
    nested.push_back(std::move(kind));
  }
  if (!nested.empty()) SetKinds(std::move(nested), &element_list);
  return element_list;
}

ListInfo ListInfo::OfAnyLength() const {
  std::vector<ListKind> any = kinds();
  for (ListKind& kind : any) {
    kind.common = Tensor();
    kind.inner.assign(kind.known() ? kind.inner.size() : 0, kUnknown);
  }
  ListInfo list;
  SetKinds(std::move(any), &list);
  return list;
}

ListInfo ListInfo::From(const ValueInfo& info) {
  return info.list != nullptr ? *info.list : ListInfo();
}

ValueInfo ListInfo::ToValueInfo() const {
  return {.shape = Shape(), .list = std::make_shared<const ListInfo>(*this)};
}

bool SameTensor(const Tensor& a, const Tensor& b) {
  return a.has_value() && Tensor::Identical(a, b);
}

bool operator==(const ListKind& a, const ListKind& b) {
  return a.dtype == b.dtype && a.element == b.element && a.inner == b.inner &&
         Tensor::Identical(a.common, b.common);
}

bool operator==(const ListInfo& a, const ListInfo& b) {
  return a.length == b.length && a.max_length == b.max_length && a.kinds() == b.kinds();
}

int FindKind(absl::Span<const ListKind> kinds, const ListKind& kind, size_t depth) {
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (AreAlike(kinds[i], kind, depth)) return static_cast<int>(i);
  }
  return -1;
}

absl::StatusOr<ListInfo> EitherList(const ListInfo& a, const ListInfo& b) {
  // An empty list may be of unknown kind, like an optional without a value.
  if ((!a.known() && !a.holds_nothing()) || (!b.known() && !b.holds_nothing())) return ListInfo();
  if (!a.known() && (b.known() || b.inner.size() > a.inner.size())) return EitherList(b, a);
  std::vector<ListKind> kinds = a.kinds();
  for (const ListKind& other : b.kinds()) {
    const bool other_holds = !HoldsNothing(b.max_length, other);
    bool merged = false;
    for (ListKind& kind : kinds) {
      if (other.known() && !AreAlike(kind, other, other.inner.size())) continue;
      const bool kind_holds = !HoldsNothing(a.max_length, kind);
      MF_RETURN_IF_ERROR(MergeKind(other, other_holds, kind_holds, &kind));
      merged = true;
    }
    if (merged) continue;
    if (!HasOptionals(a) || !HasOptionals(b)) return NotAlike(a, other);
    if (kinds.size() == kMaxKinds) {
      return absl::UnimplementedError(
          absl::StrCat("an optional can hold at most ", kMaxKinds, " kinds of tensors"));
    }
    kinds.push_back(other);
  }
  ListInfo either;
  either.length = a.length == b.length ? a.length : kUnknown;
  either.max_length = Longest(a.max_length, b.max_length);
  SetKinds(std::move(kinds), &either);
  return either;
}

}  // namespace mirrorflow
