// SPDX-License-Identifier: Apache-2.0
//
// Shape inference computes static information about each output and stores it in a side table, the
// ShapeTable. An op's shape function fills the rows of its outputs through a ShapeContext, from
// shapes that may be partially known and from values that are constant or known as a partial shape.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_SHAPE_INFERENCE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_SHAPE_INFERENCE_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/core/shape.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

struct ListInfo;

// Static information about one output.
struct ValueInfo {
  Shape shape = Shape::UnknownRank();
  Tensor constant;  // has a value if the output is a known constant
  std::optional<Shape>
      as_shape;  // for an integer vector, the partial shape that it holds: [-1, 784]
  // The dtype and shape of the variable, for a variable handle.
  DataType handle_dtype = DT_INVALID;
  Shape handle_shape = Shape::UnknownRank();
  std::shared_ptr<const ListInfo> list;  // for a value of dtype variant (list_info.h)
};

class ShapeTable {
 public:
  ShapeTable() = default;
  // Creates the table for `graph`. The outputs of other graphs have no rows in it.
  explicit ShapeTable(const Graph* graph) : graph_(graph) {}

  // Runs the shape function of `node` and stores the rows of its outputs. The rows of its inputs
  // must exist. Errors name the node.
  absl::Status Infer(const Node& node);

  // Returns the row of an output. If it has none, returns a row where everything is unknown.
  const ValueInfo& at(const Output& output) const;
  const Shape& shape(const Output& output) const { return at(output).shape; }
  // Overwrites a row. The compiler does so when it folds a constant.
  void Set(const Output& output, ValueInfo info) {
    Row(*output.node)[output.index] = std::move(info);
  }
  void Forget(const Node& node);

 private:
  friend class Graph;
  friend class ShapeContext;
  std::vector<ValueInfo>& Row(const Node& node);

  const Graph* graph_ = nullptr;              // may be null
  std::vector<std::vector<ValueInfo>> rows_;  // by node id, then output
};

class ShapeContext {
 public:
  ShapeContext(const Node& node, const ShapeTable& table, std::vector<ValueInfo>* outputs)
      : node_(node), table_(table), outputs_(*outputs) {}

  const Node& node() const { return node_; }
  int num_inputs() const { return node_.num_inputs(); }
  int num_outputs() const { return node_.num_outputs(); }
  const Shape& input(int i) const { return table_.shape(node_.input(i)); }
  const ValueInfo& input_info(int i) const { return table_.at(node_.input(i)); }
  // Returns the value of input i if it is constant, else null.
  const Tensor* constant(int i) const;
  // Returns input i, an integer vector, as integers, or nullopt if it is not constant.
  absl::StatusOr<std::optional<std::vector<int64_t>>> integers(int i) const;
  // Returns input i, an integer vector, as a partially known shape (at worst of unknown rank).
  // Returns InvalidArgument if it is not a vector or has an element below -1.
  absl::StatusOr<Shape> input_as_shape(int i) const;
  // Return the dtype and shape of the variable that handle input i refers to.
  DataType handle_dtype(int i) const { return input_info(i).handle_dtype; }
  const Shape& handle_shape(int i) const { return input_info(i).handle_shape; }

  template <typename T>
  const T& attr(absl::string_view name) const {
    return node_.attr<T>(name);
  }

  void set_info(int i, ValueInfo info) { outputs_[i] = std::move(info); }
  void set_output(int i, Shape shape) { outputs_[i].shape = std::move(shape); }
  void set_constant(int i, Tensor value);
  // Sets output i to the integer vector that holds `shape`, which is a constant if `shape` is fully
  // defined.
  void set_output_as_shape(int i, const Shape& shape);
  void set_handle(int i, DataType dtype, Shape shape);

  // Checks that input i has `rank` dimensions. If the rank is unknown, the check passes and returns
  // a shape of unknown dimensions.
  absl::StatusOr<Shape> WithRank(int i, int64_t rank) const;
  absl::StatusOr<Shape> WithRankAtLeast(int i, int rank) const;

 private:
  const Node& node_;
  const ShapeTable& table_;
  std::vector<ValueInfo>& outputs_;
};

// The input of a sharding rule function: a node, and the global shapes and constants of its inputs
// and outputs, all of which are fully known.
class ShardContext {
 public:
  ShardContext(const Node& node, const ShapeTable& table) : node_(node), table_(table) {}

  const Node& node() const { return node_; }
  int num_inputs() const { return node_.num_inputs(); }
  int num_outputs() const { return node_.num_outputs(); }
  const Shape& input(int i) const { return table_.shape(node_.input(i)); }
  const Shape& output(int i) const { return table_.shape(node_.output(i)); }
  // Returns static input i as integers.
  absl::StatusOr<std::vector<int64_t>> integers(int i) const;

 private:
  const Node& node_;
  const ShapeTable& table_;
};

// Maps an axis in [-rank, rank) to [0, rank). Returns InvalidArgument, naming `axis_name` and the
// range, if it is out of range.
absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank, absl::string_view axis_name = "axis");

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_SHAPE_INFERENCE_H_
