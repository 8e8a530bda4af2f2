// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reference_lists.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

Tensor Number(int64_t number) { return Tensor::Scalar<int32_t>(static_cast<int32_t>(number)); }

int64_t IntegerOf(const Tensor& tensor) { return (*IntegersOf(tensor))[0]; }

// Returns the shape in an element_shape operand, where the scalar -1 means an unknown rank.
Shape ShapeIn(const Tensor& tensor) {
  if (tensor.shape().rank() == 0) return Shape::UnknownRank();
  const std::vector<int64_t> dims = *IntegersOf(tensor);
  return Shape(absl::Span<const int64_t>(dims));
}

absl::StatusOr<Tensor> ZerosOf(DataType dtype, const Shape& shape) {
  MF_ASSIGN_OR_RETURN(Tensor zeros, Tensor::Allocate(dtype, shape));
  if (zeros.bytes() > 0) std::memset(zeros.raw(), 0, zeros.bytes());
  return zeros;
}

absl::StatusOr<Tensor> ItemOf(const ReferenceList& list, size_t i) {
  if (list.items[i].has_value()) return list.items[i];
  Shape shape = list.element;
  for (const Tensor& other : list.items) {
    if (other.has_value()) shape = other.shape();
  }
  if (!shape.IsFullyDefined()) {
    return absl::InvalidArgumentError("the shape of an item without a value is unknown");
  }
  return ZerosOf(list.dtype, shape);
}

absl::StatusOr<size_t> CheckedIndex(const ReferenceList& list, int64_t index) {
  if (index >= 0 && index < static_cast<int64_t>(list.items.size())) return index;
  return absl::InvalidArgumentError(absl::StrCat(
      "the index is out of range; expected an index in [0, ", list.items.size(), "), got ", index));
}

absl::StatusOr<Tensor> Stack(const ReferenceList& list, absl::Span<const int64_t> indices) {
  std::vector<Tensor> items;
  Shape shape({static_cast<int64_t>(indices.size())});
  for (const int64_t index : indices) {
    MF_ASSIGN_OR_RETURN(const size_t at, CheckedIndex(list, index));
    MF_ASSIGN_OR_RETURN(Tensor item, ItemOf(list, at));
    items.push_back(std::move(item));
  }
  const Shape element = items.empty() ? list.element : items[0].shape();
  for (const int64_t d : element.dims()) shape.AddDim(d);
  MF_ASSIGN_OR_RETURN(Tensor stacked, Tensor::Allocate(list.dtype, shape));
  std::byte* at = stacked.raw();
  for (const Tensor& item : items) {
    std::memcpy(at, item.raw(), item.bytes());
    at += item.bytes();
  }
  return stacked;
}

absl::StatusOr<std::vector<Tensor>> Rows(const Tensor& tensor) {
  const Shape element(tensor.shape().dims().subspan(1));
  std::vector<Tensor> rows;
  const std::byte* at = tensor.raw();
  for (int64_t i = 0; i < tensor.shape().dim(0); ++i) {
    MF_ASSIGN_OR_RETURN(Tensor row, Tensor::Allocate(tensor.dtype(), element));
    if (row.bytes() > 0) std::memcpy(row.raw(), at, row.bytes());
    at += row.bytes();
    rows.push_back(std::move(row));
  }
  return rows;
}

absl::StatusOr<Tensor> Add(const Tensor& a, const Tensor& b) {
  MF_ASSIGN_OR_RETURN(Tensor sum, a.Clone());
  for (int64_t i = 0; i < sum.num_elements(); ++i) {
    if (sum.dtype() == DT_DOUBLE) {
      sum.flat<double>()[i] += b.flat<double>()[i];
    } else if (sum.dtype() == DT_FLOAT) {
      sum.flat<float>()[i] += b.flat<float>()[i];
    } else {
      return absl::UnimplementedError("lists of this dtype cannot be added");
    }
  }
  return sum;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> RunListOp(const Node& node, absl::Span<const Tensor> in,
                                              ReferenceLists& lists) {
  const std::string& op = node.op().name;
  auto list_at = [&](int i) { return lists[IntegerOf(in[i])]; };
  auto made = [&](ReferenceList list) {
    lists.push_back(std::move(list));
    return std::vector<Tensor>{Number(static_cast<int64_t>(lists.size()) - 1)};
  };
  if (op == "EmptyTensorList" || op == "TensorListReserve") {
    ReferenceList list{node.attr<DataType>("element_dtype"), ShapeIn(in[0]), {}};
    if (op == "TensorListReserve") list.items.resize(IntegerOf(in[1]));
    return made(std::move(list));
  }
  if (op == "TensorListFromTensor") {
    MF_ASSIGN_OR_RETURN(std::vector<Tensor> rows, Rows(in[0]));
    return made({in[0].dtype(), Shape(in[0].shape().dims().subspan(1)), std::move(rows)});
  }
  if (op == "OptionalNone") return made({});
  if (op == "OptionalFromValue") return made({in[0].dtype(), in[0].shape(), {in[0]}});
  ReferenceList list = list_at(0);
  if (op == "OptionalHasValue")
    return std::vector<Tensor>{Tensor::Scalar<bool>(!list.items.empty())};
  if (op == "OptionalGetValue") {
    if (list.items.empty()) return absl::InvalidArgumentError("the optional has no value");
    return list.items;
  }
  if (op == "TensorListStack") {
    std::vector<int64_t> all(list.items.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    MF_ASSIGN_OR_RETURN(Tensor stacked, Stack(list, all));
    return std::vector<Tensor>{std::move(stacked)};
  }
  if (op == "TensorListGather") {
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, IntegersOf(in[1]));
    MF_ASSIGN_OR_RETURN(Tensor stacked, Stack(list, indices));
    return std::vector<Tensor>{std::move(stacked)};
  }
  if (op == "TensorListGetItem") {
    MF_ASSIGN_OR_RETURN(const size_t at, CheckedIndex(list, IntegerOf(in[1])));
    MF_ASSIGN_OR_RETURN(Tensor item, ItemOf(list, at));
    return std::vector<Tensor>{std::move(item)};
  }
  if (op == "TensorListSetItem") {
    MF_ASSIGN_OR_RETURN(const size_t at, CheckedIndex(list, IntegerOf(in[1])));
    list.items[at] = in[2];
    return made(std::move(list));
  }
  if (op == "TensorListScatterIntoExistingList") {
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> rows, Rows(in[1]));
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> indices, IntegersOf(in[2]));
    for (size_t i = 0; i < indices.size(); ++i) {
      MF_ASSIGN_OR_RETURN(const size_t at, CheckedIndex(list, indices[i]));
      list.items[at] = rows[i];
    }
    return made(std::move(list));
  }
  if (op == "TensorListPushBack") {
    list.items.push_back(in[1]);
    return made(std::move(list));
  }
  if (op == "TensorListPopBack") {
    if (list.items.empty()) return absl::InvalidArgumentError("the list is empty");
    MF_ASSIGN_OR_RETURN(Tensor last, ItemOf(list, list.items.size() - 1));
    list.items.pop_back();
    std::vector<Tensor> outputs = made(std::move(list));
    outputs.push_back(std::move(last));
    return outputs;
  }
  if (op == "TensorListLength") {
    return std::vector<Tensor>{Number(static_cast<int64_t>(list.items.size()))};
  }
  if (op == "TensorListElementShape") {
    Shape shape = list.element;
    for (const Tensor& item : list.items) {
      if (item.has_value()) shape = item.shape();
    }
    if (shape.unknown_rank()) return std::vector<Tensor>{Number(-1)};
    const std::vector<int32_t> dims(shape.dims().begin(), shape.dims().end());
    return std::vector<Tensor>{Tensor::Vector<int32_t>(dims)};
  }
  if (op == "TensorListResize") {
    list.items.resize(IntegerOf(in[1]));
    return made(std::move(list));
  }
  if (op == "ZerosLike") {
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (list.items[i].has_value()) {
        MF_ASSIGN_OR_RETURN(list.items[i], ZerosOf(list.dtype, list.items[i].shape()));
      }
    }
    return made(std::move(list));
  }
  if (op == "AddN") {
    for (size_t k = 1; k < in.size(); ++k) {
      const ReferenceList other = list_at(static_cast<int>(k));
      for (size_t i = 0; i < list.items.size() && i < other.items.size(); ++i) {
        if (!other.items[i].has_value()) continue;
        if (!list.items[i].has_value()) {
          list.items[i] = other.items[i];
        } else {
          MF_ASSIGN_OR_RETURN(list.items[i], Add(list.items[i], other.items[i]));
        }
      }
    }
    return made(std::move(list));
  }
  if (node.op().has(kView)) return made(std::move(list));
  return absl::UnimplementedError("the interpreter does not support lists as inputs of this op");
}

}  // namespace mirrorflow
