// SPDX-License-Identifier: Apache-2.0
//
// ListInfo: static information about a list of tensors. A list is a value of dtype variant, and so
// is an optional, which is a list of at most one element.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_LIST_INFO_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_LIST_INFO_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

// The kind of tensor that a list holds.
struct ListKind {
  static constexpr int64_t kUnknown = -1;
  static constexpr int kMaxDepth = 8;  // nesting depth of lists

  DataType dtype = DT_INVALID;           // the tensors' dtype; DT_INVALID if unknown
  Shape element = Shape::UnknownRank();  // every tensor's shape
  // The maximum lengths of nested lists, one per level: `inner[0]` for the element lists,
  // `inner[1]` for the lists in those, and so on.
  std::vector<int64_t> inner;
  Tensor common;  // if it has a value, every tensor equals it

  bool known() const { return dtype != DT_INVALID; }
};

struct ListInfo : ListKind {
  int64_t length = kUnknown;
  int64_t max_length = kUnknown;  // an upper bound, which may be known when `length` is not
  // The remaining kinds, in canonical order. Only an optional or a list of optionals can have
  // several kinds: TensorFlow's gradient of an If stores the intermediate values of both branches
  // in the same optionals.
  std::vector<ListKind> others;

  bool is_empty() const { return max_length == 0; }
  // Returns true if the list is known to hold no tensor. Its dtype may then be unknown.
  bool holds_nothing() const;
  // Returns this kind and the others.
  std::vector<ListKind> kinds() const;

  // Returns a list whose only element is this list, or Unimplemented if the nesting becomes too
  // deep.
  absl::StatusOr<ListInfo> InList() const;
  // Returns the element list of a nested list, or an unknown list if the elements are not lists.
  ListInfo ElementList() const;
  // Returns a list with elements of the same kinds, but unknown lengths and common values.
  ListInfo OfAnyLength() const;

  static ListInfo From(const ValueInfo& info);
  ValueInfo ToValueInfo() const;
};

// Read the list at input i, and set the list at output i, in a shape function.
inline ListInfo ListInput(const ShapeContext& c, int i) { return ListInfo::From(c.input_info(i)); }
inline void SetList(ShapeContext& c, int i, const ListInfo& list) {
  c.set_info(i, list.ToValueInfo());
}

// Returns true if both tensors have values, with equal dtypes, shapes and bits.
bool SameTensor(const Tensor& a, const Tensor& b);

// Compare everything that is known about two kinds or lists.
bool operator==(const ListKind& a, const ListKind& b);
bool operator==(const ListInfo& a, const ListInfo& b);

// Returns the index of the kind in `kinds` that has `depth` levels of nesting, the dtype of `kind`
// and a compatible shape, or -1 if there is none.
int FindKind(absl::Span<const ListKind> kinds, const ListKind& kind, size_t depth);

// Returns the information that holds for both lists, or InvalidArgument if their elements differ in
// dtype, shape or nesting, unless they are optionals.
absl::StatusOr<ListInfo> EitherList(const ListInfo& a, const ListInfo& b);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_LIST_INFO_H_
