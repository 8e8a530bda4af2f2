// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/in_double.h"

#include <utility>

#include "framework/core/reduced_float.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

double NumberAt(const Tensor& tensor, int64_t i) {
  if (tensor.dtype() == DT_DOUBLE) return tensor.flat<double>()[i];
  if (tensor.dtype() == DT_FLOAT) return tensor.flat<float>()[i];
  return ReducedToFloat(tensor.dtype(), reinterpret_cast<const uint16_t*>(tensor.raw())[i]);
}

void SetNumber(const Tensor& tensor, int64_t i, double number) {
  if (tensor.dtype() == DT_DOUBLE) {
    tensor.flat<double>()[i] = number;
  } else if (tensor.dtype() == DT_FLOAT) {
    tensor.flat<float>()[i] = static_cast<float>(number);
  } else {
    reinterpret_cast<uint16_t*>(tensor.raw())[i] = ReducedFrom(tensor.dtype(), number);
  }
}

absl::StatusOr<AttrValue> AttrInDouble(const AttrValue& value) {
  if (const DataType* dtype = value.get_if<DataType>()) {
    return AttrValue(IsFloating(*dtype) ? DT_DOUBLE : *dtype);
  }
  if (const Tensor* tensor = value.get_if<Tensor>()) {
    MF_ASSIGN_OR_RETURN(Tensor converted, ConvertFloating(*tensor, DT_DOUBLE));
    return AttrValue(std::move(converted));
  }
  if (const AttrList* list = value.get_if<AttrList>()) {
    AttrList converted;
    for (const AttrValue& item : *list) {
      MF_ASSIGN_OR_RETURN(AttrValue in_double, AttrInDouble(item));
      converted.push_back(std::move(in_double));
    }
    return AttrValue(std::move(converted));
  }
  return value;
}

}  // namespace

absl::StatusOr<Tensor> ConvertFloating(const Tensor& tensor, DataType dtype) {
  if (!IsFloating(tensor.dtype()) || !IsFloating(dtype) || tensor.dtype() == dtype) return tensor;
  MF_ASSIGN_OR_RETURN(Tensor converted, Tensor::Allocate(dtype, tensor.shape()));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) SetNumber(converted, i, NumberAt(tensor, i));
  return converted;
}

absl::StatusOr<GraphInDouble> CopyInDouble(const Graph& graph) {
  GraphInDouble copy;
  copy.nodes.resize(graph.id_limit());
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(graph));
  for (const Node* node : order) {
    AttrMap attrs;
    for (const auto& [name, value] : node->attrs()) {
      MF_ASSIGN_OR_RETURN(AttrValue in_double, AttrInDouble(value));
      attrs.emplace(name, std::move(in_double));
    }
    std::vector<Output> inputs;
    for (const Output& in : node->inputs()) {
      inputs.push_back({copy.nodes[in.node->id()], in.index});
    }
    std::vector<Node*> controls;
    for (const Node* control : node->control_inputs()) {
      controls.push_back(copy.nodes[control->id()]);
    }
    MF_ASSIGN_OR_RETURN(copy.nodes[node->id()],
                        copy.graph.AddNode(node->name(), node->op(), std::move(attrs),
                                           std::move(inputs), std::move(controls)));
  }
  return copy;
}

}  // namespace mirrorflow
