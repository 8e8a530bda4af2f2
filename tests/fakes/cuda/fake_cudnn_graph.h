// SPDX-License-Identifier: Apache-2.0
//
// The cuDNN fake's graphs: their descriptors, and what a graph computes.
#ifndef MIRRORFLOW_TESTS_FAKES_CUDA_FAKE_CUDNN_GRAPH_H_
#define MIRRORFLOW_TESTS_FAKES_CUDA_FAKE_CUDNN_GRAPH_H_

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mirrorflow {

struct FakeCudnnDescriptor {
  struct Value {
    int64_t count = 0;
    std::vector<std::byte> bytes;
    std::vector<std::shared_ptr<const FakeCudnnDescriptor>> descriptors;  // copies
  };

  bool Has(cudnnBackendAttributeName_t name) const { return values.contains(name); }
  template <typename T>
  std::vector<T> All(cudnnBackendAttributeName_t name) const {
    const Value& value = values.at(name);
    std::vector<T> all(value.count);
    std::memcpy(all.data(), value.bytes.data(), value.bytes.size());
    return all;
  }
  template <typename T>
  T One(cudnnBackendAttributeName_t name) const {
    T one;
    std::memcpy(&one, values.at(name).bytes.data(), sizeof one);
    return one;
  }
  const FakeCudnnDescriptor& Child(cudnnBackendAttributeName_t name) const {
    return *values.at(name).descriptors.front();
  }

  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Value> values = {};
  int engine = -1;                 // the index of this engine, or of a knob choice's engine
  cudnnHandle_t handle = nullptr;  // the handle that executes a plan
  std::shared_ptr<bool> has_plan;  // whether the configuration has a plan
};

struct FakeCudnnTensor {
  explicit FakeCudnnTensor(const FakeCudnnDescriptor& tensor);

  int64_t size() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  bool operator==(const FakeCudnnTensor& other) const = default;

  int64_t id, alignment;
  cudnnDataType_t type;
  std::vector<int64_t> dims, strides;
  bool is_virtual, is_by_value;
};

// A convolution and the operations on its result; or attention, from its first matrix product to
// its second.
class FakeCudnnGraph {
 public:
  // Requires that ErrorOfGraph(graph) is empty.
  explicit FakeCudnnGraph(const FakeCudnnDescriptor& graph);

  // Returns why the library would reject an operation or a graph; empty if it would not.
  static std::string ErrorOfOperation(const FakeCudnnDescriptor& operation);
  static std::string ErrorOfGraph(const FakeCudnnDescriptor& graph);

  // Returns the tensors that are not virtual.
  std::vector<FakeCudnnTensor> Operands() const;
  bool is_attention() const;
  bool is_fused() const { return operations_.size() > 1; }
  cudnnDataType_t type() const;

  // Computes in double precision, but rounds virtual 16-bit tensors. With `tf32`, rounds the
  // operands of a convolution to TensorFloat-32. `scalars` are the tensors passed by value.
  void Compute(const std::map<int64_t, void*>& addresses, const std::map<int64_t, float>& scalars,
               bool tf32) const;

 private:
  std::vector<FakeCudnnDescriptor> operations_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_CUDA_FAKE_CUDNN_GRAPH_H_
