// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn_backend.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"

namespace mirrorflow {

absl::Status CudnnStatus(cudnnStatus_t status, absl::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return absl::OkStatus();
  std::array<char, 512> reason = {};
  cudnnGetLastErrorString(reason.data(), reason.size());
  const std::string message =
      absl::StrCat(call, ": ", cudnnGetErrorString(status), ": ", reason.data());
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) {
    return absl::UnimplementedError(message);
  }
  return absl::InternalError(message);
}

absl::StatusOr<CudnnDescriptor> CudnnDescriptor::Create(cudnnBackendDescriptorType_t type) {
  CudnnDescriptor made;
  cudnnBackendDescriptor_t descriptor = nullptr;
  MF_RETURN_IF_CUDNN_ERROR(cudnnBackendCreateDescriptor(type, &descriptor));
  made.descriptor_.reset(descriptor);
  return made;
}

absl::StatusOr<std::vector<CudnnDescriptor>> CudnnDescriptor::GetDescriptors(
    cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type, int64_t max_count) const {
  std::vector<CudnnDescriptor> values;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < max_count; ++i) {
    MF_ASSIGN_OR_RETURN(CudnnDescriptor each, Create(type));
    raw.push_back(each.get());
    values.push_back(std::move(each));
  }
  int64_t count = 0;
  MF_RETURN_IF_CUDNN_ERROR(cudnnBackendGetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                    max_count, &count, raw.data()));
  values.erase(values.begin() + count, values.end());
  return values;
}

CudnnBuilder::CudnnBuilder(cudnnBackendDescriptorType_t type)
    : made_(CudnnDescriptor::Create(type)) {}

CudnnBuilder& CudnnBuilder::Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  const cudnnBackendDescriptor_t raw = value.get();
  SetArray(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  return *this;
}

CudnnBuilder& CudnnBuilder::Set(cudnnBackendAttributeName_t name,
                                const std::vector<CudnnDescriptor>& values) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const CudnnDescriptor& value : values) raw.push_back(value.get());
  SetArray(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()), raw.data());
  return *this;
}

void CudnnBuilder::SetArray(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            int64_t count, const void* values) {
  if (!made_.ok()) return;
  const absl::Status status =
      CudnnStatus(cudnnBackendSetAttribute(made_->get(), name, type, count, values),
                  absl::StrCat("cudnnBackendSetAttribute of attribute ", name));
  if (!status.ok()) made_ = status;
}

absl::StatusOr<CudnnDescriptor> CudnnBuilder::Build() {
  if (made_.ok()) MF_RETURN_IF_CUDNN_ERROR(cudnnBackendFinalize(made_->get()));
  return std::move(made_);
}

CudnnGraphBuilder::Index CudnnGraphBuilder::AddDescriptor(CudnnBuilder& builder) {
  absl::StatusOr<CudnnDescriptor> made = builder.Build();
  status_.Update(made.status());
  parts_.push_back(made.ok() ? *std::move(made) : CudnnDescriptor());
  return parts_.size() - 1;
}

void CudnnGraphBuilder::AddOperation(CudnnBuilder& builder) {
  absl::StatusOr<CudnnDescriptor> made = builder.Build();
  status_.Update(made.status());
  if (made.ok()) operations_.push_back(*std::move(made));
}

CudnnGraphBuilder::Index CudnnGraphBuilder::Tensor(int64_t id, cudnnDataType_t type,
                                                   const Dims& dims, const Dims& strides,
                                                   Kind kind) {
  return AddDescriptor(
      CudnnBuilder(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
          .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
          .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
          .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
          .Set(CUDNN_ATTR_TENSOR_STRIDES, strides)
          .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, static_cast<int64_t>(kBufferAlignment))
          .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, kind == Kind::kVirtual)
          .Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, kind == Kind::kByValue));
}

void CudnnGraphBuilder::Pointwise(cudnnPointwiseMode_t mode, const Operands& operands) {
  Pointwise(CudnnBuilder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                .Set(CUDNN_ATTR_POINTWISE_MODE, mode)
                .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT),
            operands);
}

void CudnnGraphBuilder::Pointwise(CudnnBuilder& function, const Operands& operands) {
  const Index made = AddDescriptor(function);
  if (!ok()) return;
  CudnnBuilder operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, at(made))
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(operands.x))
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(operands.y));
  if (operands.b) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(*operands.b));
  if (operands.t) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(*operands.t));
  AddOperation(operation);
}

absl::StatusOr<std::vector<CudnnDescriptor>> CudnnGraphBuilder::Finish() {
  MF_RETURN_IF_ERROR(status_);
  MF_ASSIGN_OR_RETURN(CudnnDescriptor graph, CudnnBuilder(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                                                 .Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_)
                                                 .Build());
  for (CudnnDescriptor& operation : operations_) parts_.push_back(std::move(operation));
  parts_.push_back(std::move(graph));
  return std::move(parts_);
}

}  // namespace mirrorflow
