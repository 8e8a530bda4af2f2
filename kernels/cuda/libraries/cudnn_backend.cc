// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cudnn_backend.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

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

}  // namespace mirrorflow
