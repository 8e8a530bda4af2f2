// SPDX-License-Identifier: Apache-2.0
//
// What is known of a list of tensors before anything runs. A list is a value of dtype variant, and
// so is an optional: a list of one element, or of none.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_LIST_INFO_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_LIST_INFO_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

// What a list is of.
struct ListKind {
  static constexpr int64_t kUnknown = -1;
  static constexpr int kMaxDepth = 8;  // of lists in lists

  DataType dtype = DT_INVALID;           // of the tensors; DT_INVALID: it is not known
  Shape element = Shape::UnknownRank();  // the shape of all tensors
  // If the tensors are in lists in the list: the most that each of those has, then of those in
  // them, and so on.
  std::vector<int64_t> inner;
  Tensor common;  // has_value(): every tensor is this

  bool known() const { return dtype != DT_INVALID; }
};

struct ListInfo : ListKind {
  int64_t length = kUnknown;
  int64_t max_length = kUnknown;  // it is never longer; that may be known where its length is not
  // An optional may be of several kinds: TensorFlow's gradient of an If puts what one branch keeps
  // and what the other one does into the same. So may the elements of a list be, if those are
  // optionals. Kinds come in one order.
  std::vector<ListKind> others;

  bool is_empty() const { return max_length == 0; }
  // Whether there is no tensor in it; then the dtype need not be known.
  bool holds_nothing() const;
  // This kind and the others.
  std::vector<ListKind> kinds() const;

  // The list of this one alone; Unimplemented if that is too deep.
  absl::StatusOr<ListInfo> InList() const;
  // What an element is that is a list; nothing is known of it if none is.
  ListInfo ElementList() const;
  // A list of such elements, of which the lengths are not known.
  ListInfo OfAnyLength() const;

  static ListInfo From(const ValueInfo& info);
  ValueInfo ToValueInfo() const;
};

// The list of a shape function's input i, and what it says of output i.
ListInfo ListInput(const ShapeContext& c, int i);
void SetList(ShapeContext& c, int i, const ListInfo& list);

// Whether both are tensors of one value.
bool SameTensor(const Tensor& a, const Tensor& b);

// Whether what is true of one kind, or list, is true of the other, and as much is.
bool operator==(const ListKind& a, const ListKind& b);
bool operator==(const ListInfo& a, const ListInfo& b);

// The kind among `kinds` whose tensors lie `depth` lists deep and are like those of `kind`, or -1.
int FindKind(absl::Span<const ListKind> kinds, const ListKind& kind, size_t depth);

// What is true of a list that is one or the other. InvalidArgument if their elements differ in
// dtype or shape, or are lists in one only; those of optionals may.
absl::StatusOr<ListInfo> EitherList(const ListInfo& a, const ListInfo& b);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_LIST_INFO_H_
