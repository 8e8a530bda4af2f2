// SPDX-License-Identifier: Apache-2.0
//
// cuDNN backend API descriptors as C++ objects. A builder sets the attributes:
//   MF_ASSIGN_OR_RETURN(const CudnnDescriptor add,
//                       CudnnBuilder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
//                           .Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD)
//                           .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
//                           .Build());
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_BACKEND_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_BACKEND_H_

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/status.h"

namespace mirrorflow {

// Returns OK, or the error of `call`: Unimplemented if the library does not support the call,
// otherwise Internal.
absl::Status CudnnStatus(cudnnStatus_t status, absl::string_view call);
#define MF_RETURN_IF_CUDNN_ERROR(call) MF_RETURN_IF_ERROR(::mirrorflow::CudnnStatus((call), #call))

namespace internal {
// The attribute type for values of type T.
template <typename T>
constexpr cudnnBackendAttributeType_t CudnnTypeOf() {
  if constexpr (std::is_same_v<T, bool>) return CUDNN_TYPE_BOOLEAN;
  if constexpr (std::is_same_v<T, int32_t>) return CUDNN_TYPE_INT32;
  if constexpr (std::is_same_v<T, int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if constexpr (std::is_same_v<T, void*>) return CUDNN_TYPE_VOID_PTR;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnPointwiseMode_t>) return CUDNN_TYPE_POINTWISE_MODE;
  if constexpr (std::is_same_v<T, cudnnNanPropagation_t>) return CUDNN_TYPE_NAN_PROPOGATION;
  if constexpr (std::is_same_v<T, cudnnReduceTensorOp_t>) return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
}
}  // namespace internal

class CudnnDescriptor {
 public:
  // Creates a descriptor for the library to fill.
  static absl::StatusOr<CudnnDescriptor> Create(cudnnBackendDescriptorType_t type);

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

  // Returns at most `max_count` values of an attribute of a finalized descriptor.
  template <typename T>
  absl::StatusOr<std::vector<T>> Get(cudnnBackendAttributeName_t name, int64_t max_count) const {
    std::vector<T> values(max_count);
    int64_t count = 0;
    MF_RETURN_IF_CUDNN_ERROR(cudnnBackendGetAttribute(get(), name, internal::CudnnTypeOf<T>(),
                                                      max_count, &count, values.data()));
    values.resize(count);
    return values;
  }
  // Like Get(), for an attribute whose values are descriptors of type `type`.
  absl::StatusOr<std::vector<CudnnDescriptor>> GetDescriptors(cudnnBackendAttributeName_t name,
                                                              cudnnBackendDescriptorType_t type,
                                                              int64_t max_count) const;

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t descriptor) const {
      cudnnBackendDestroyDescriptor(descriptor);
    }
  };
  std::unique_ptr<void, Destroy> descriptor_;
};

// Makes one descriptor. After an error, further calls do nothing and Build returns the error.
class CudnnBuilder {
 public:
  explicit CudnnBuilder(cudnnBackendDescriptorType_t type);

  template <typename T>
  CudnnBuilder& Set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    SetArray(name, internal::CudnnTypeOf<T>(), static_cast<int64_t>(values.size()), values.data());
    return *this;
  }
  template <typename T>
  CudnnBuilder& Set(cudnnBackendAttributeName_t name, const T& value) {
    SetArray(name, internal::CudnnTypeOf<T>(), 1, &value);
    return *this;
  }
  CudnnBuilder& Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value);
  CudnnBuilder& Set(cudnnBackendAttributeName_t name, const std::vector<CudnnDescriptor>& values);

  // Finalizes the descriptor.
  absl::StatusOr<CudnnDescriptor> Build();

 private:
  void SetArray(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                const void* values);

  absl::StatusOr<CudnnDescriptor> made_;
};

// Base class of builders for graphs of operations on tensors. After an error, further calls do
// nothing and Finish returns the error.
class CudnnGraphBuilder {
 protected:
  using Index = size_t;  // index of a tensor or another descriptor that an operation refers to
  using Dims = std::vector<int64_t>;
  enum class Kind { kStored, kVirtual, kByValue };
  struct Operands {
    Index x;
    std::optional<Index> b = {}, t = {};
    Index y;
  };

  Index Tensor(int64_t id, cudnnDataType_t type, const Dims& dims, const Dims& strides, Kind kind);
  // Adds an operation that applies one of the library's element-wise functions.
  void Pointwise(cudnnPointwiseMode_t mode, const Operands& operands);
  void Pointwise(CudnnBuilder& function, const Operands& operands);
  // Adds a descriptor and returns its index, or adds an operation. Do not call at() after an error.
  Index AddDescriptor(CudnnBuilder& builder);
  void AddOperation(CudnnBuilder& builder);
  const CudnnDescriptor& at(Index i) const { return parts_[i]; }
  bool ok() const { return status_.ok(); }

  // Returns the graph as the last descriptor, after the descriptors that it refers to.
  absl::StatusOr<std::vector<CudnnDescriptor>> Finish();

 private:
  absl::Status status_;
  std::vector<CudnnDescriptor> parts_, operations_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_BACKEND_H_
