// SPDX-License-Identifier: Apache-2.0
//
// A fake of cuBLASLt that a test links in its place. It computes matrix products by definition, in
// order with other enqueued work. It reports misuse that would make the real library compute wrong
// results: operands without the promised alignment, or a missing workspace. Like the library, it
// rejects a workspace that is not aligned to 256 bytes.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "framework/core/reduced_float.h"
#include "tests/fakes/cuda/fake_cuda.h"

namespace {

// The contents of the library's opaque structs.
struct Desc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t a, b;
  cublasLtEpilogue_t epilogue;
  const void* bias;
  void* mask;
  int64_t mask_ld;  // leading dimension of the mask, in bits
};
struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t ld;
  int32_t batch;
  int64_t stride;
};
struct Preference {
  uint32_t alignment;
  uint64_t workspace;
};
struct Algo {
  uint32_t alignment;
  bool works;
};
static_assert(sizeof(Desc) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t));

constexpr uint64_t kWorkspace = 512;  // bytes that the fake claims to need
constexpr uint32_t kWorkspaceAlignment = 256;

template <typename T, typename Opaque>
T& As(Opaque* opaque) {
  return *reinterpret_cast<T*>(opaque);
}

size_t SizeOf(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

mirrorflow::DataType DtypeOf(cudaDataType_t type) {
  return type == CUDA_R_16F ? mirrorflow::DT_HALF : mirrorflow::DT_BFLOAT16;
}

double Get(const void* data, cudaDataType_t type, int64_t i) {
  if (type == CUDA_R_64F) return static_cast<const double*>(data)[i];
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  return mirrorflow::ReducedToFloat(DtypeOf(type), static_cast<const uint16_t*>(data)[i]);
}

void Put(void* data, cudaDataType_t type, int64_t i, double value) {
  if (type == CUDA_R_64F) {
    static_cast<double*>(data)[i] = value;
  } else if (type == CUDA_R_32F) {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  } else {
    static_cast<uint16_t*>(data)[i] = mirrorflow::ReducedFrom(DtypeOf(type), value);
  }
}

// A column-major matrix in a batch, which may be transposed.
struct Operand {
  const void* data;
  Layout layout;
  bool transposed;

  double At(int64_t batch, int64_t row, int64_t column) const {
    if (transposed) std::swap(row, column);
    return Get(data, layout.type, batch * layout.stride + row + column * layout.ld);
  }
  int64_t rows() const { return transposed ? layout.columns : layout.rows; }
  int64_t columns() const { return transposed ? layout.rows : layout.columns; }
};

// Truncates to TensorFloat-32, which has 10 fraction bits, if `compute` selects it.
double RoundedTo(cublasComputeType_t compute, double value) {
  if (compute != CUBLAS_COMPUTE_32F_FAST_TF32) return value;
  const float x = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bits &= ~uint32_t{0x1fff};
  float rounded;
  std::memcpy(&rounded, &bits, sizeof rounded);
  return rounded;
}

bool HasMask(const Desc& desc) {
  return desc.epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS ||
         desc.epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD;
}
bool AppliesRelu(const Desc& desc) {
  return desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
         desc.epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
}
bool AddsBias(const Desc& desc) {
  return desc.epilogue == CUBLASLT_EPILOGUE_BIAS || AppliesRelu(desc);
}

// A bit of a mask. The bit order is unusual, so code that assumes an order fails.
class Bit {
 public:
  Bit(const Desc& desc, int64_t row, int64_t column) {
    if (!HasMask(desc)) return;
    const int64_t number = column * desc.mask_ld + row;
    byte_ = static_cast<uint8_t*>(desc.mask) + number / 8;
    value_ = static_cast<uint8_t>(0x80 >> (number % 8));
  }
  void Set(bool on) { *byte_ = static_cast<uint8_t>(on ? *byte_ | value_ : *byte_ & ~value_); }
  bool Get() const { return (*byte_ & value_) != 0; }

 private:
  uint8_t* byte_ = nullptr;
  uint8_t value_ = 0;
};

void Multiply(const Desc& desc, const Operand& a, const Operand& b, void* out, const Layout& to,
              void* workspace) {
  std::memset(workspace, 0xff, kWorkspace);
  for (int64_t i = 0; i < to.batch; ++i) {
    for (int64_t column = 0; column < b.columns(); ++column) {
      for (int64_t row = 0; row < a.rows(); ++row) {
        double sum = 0;
        for (int64_t k = 0; k < a.columns(); ++k) {
          sum += RoundedTo(desc.compute, a.At(i, row, k)) *
                 RoundedTo(desc.compute, b.At(i, k, column));
        }
        if (AddsBias(desc)) sum += Get(desc.bias, to.type, row);
        Bit bit(desc, row, column);
        if (desc.epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS) bit.Set(sum > 0);
        if (desc.epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD ? !bit.Get()
                                                           : AppliesRelu(desc) && sum < 0) {
          sum = 0;
        }
        Put(out, to.type, i * to.stride + row + column * to.ld, sum);
      }
    }
  }
  if (desc.epilogue != CUBLASLT_EPILOGUE_DRELU_BGRAD) return;
  for (uint64_t row = 0; row < to.rows; ++row) {
    double sum = 0;
    for (uint64_t column = 0; column < to.columns; ++column) {
      sum += Get(out, to.type, row + column * to.ld);
    }
    Put(const_cast<void*>(desc.bias), to.type, row, sum);
  }
}

template <typename Opaque>
cublasStatus_t Copy(const void* value, size_t size, void* to, size_t expected, Opaque*) {
  if (size != expected) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

bool IsAligned(const void* data, uint32_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 0; }
const char* cublasLtGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS_OF_THE_FAKE"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "error reported by the fake"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int());
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  As<Desc>(desc) = {compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr,
                    nullptr, 0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  Desc& d = As<Desc>(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Copy(value, size, &d.a, sizeof d.a, desc);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Copy(value, size, &d.b, sizeof d.b, desc);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Copy(value, size, &d.epilogue, sizeof d.epilogue, desc);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Copy(value, size, &d.bias, sizeof d.bias, desc);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return Copy(value, size, &d.mask, sizeof d.mask, desc);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return Copy(value, size, &d.mask_ld, sizeof d.mask_ld, desc);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t ld) {
  if (ld < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  As<Layout>(layout) = {type, rows, columns, ld, 1, 0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t size) {
  Layout& l = As<Layout>(layout);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return Copy(value, size, &l.batch, sizeof l.batch, layout);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return Copy(value, size, &l.stride, sizeof l.stride, layout);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t) {
  As<Preference>(preference) = {256, 0};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t size) {
  Preference& p = As<Preference>(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Copy(value, size, &p.workspace, sizeof p.workspace, preference);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Copy(value, size, &p.alignment, sizeof p.alignment, preference);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return size == sizeof(uint32_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* result, int* found) {
  const Desc& d = As<Desc>(desc);
  const Operand left{nullptr, As<Layout>(a), d.a == CUBLAS_OP_T};
  const Operand right{nullptr, As<Layout>(b), d.b == CUBLAS_OP_T};
  const Layout& to = As<Layout>(out);
  *found = 0;
  if (left.columns() != right.rows() || left.rows() != static_cast<int64_t>(to.rows) ||
      right.columns() != static_cast<int64_t>(to.columns) || left.layout.type != to.type ||
      As<Preference>(preference).workspace < kWorkspace) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool has_epilogue = d.epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  // The library checks the alignment of these pointers, and rejects products of vectors.
  if (has_epilogue && (d.bias == nullptr || (HasMask(d) && d.mask == nullptr) || to.rows == 1 ||
                       to.columns == 1 || left.columns() == 1)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool transposed = d.a == CUBLAS_OP_T || d.b == CUBLAS_OP_T;
  if (HasMask(d) && (!mirrorflow::FakeHasReluMasks(transposed) || d.mask_ld % 128 != 0 ||
                     d.mask_ld < static_cast<int64_t>(to.rows))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  // Proposes two algorithms if the caller asks for several. The first of them cannot run.
  *found = std::min(most, 2);
  for (int i = 0; i < *found; ++i) {
    result[i] = {};
    As<Algo>(&result[i].algo) = {As<Preference>(preference).alignment, *found == 1 || i == 1};
    result[i].workspaceSize = kWorkspace;
    result[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void*,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void*, const void*,
                              cublasLtMatrixLayout_t, void* out, cublasLtMatrixLayout_t out_layout,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const Desc d = As<Desc>(desc);
  const uint32_t alignment = As<const Algo>(algo).alignment;
  if (!As<const Algo>(algo).works) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (workspace == nullptr || workspace_bytes < kWorkspace ||
      !IsAligned(workspace, kWorkspaceAlignment) || !IsAligned(a, alignment) ||
      !IsAligned(b, alignment) || !IsAligned(out, alignment) ||
      (d.bias != nullptr && !IsAligned(d.bias, alignment)) ||
      (HasMask(d) && (d.mask == nullptr || !IsAligned(d.mask, alignment)))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Operand left{a, As<Layout>(a_layout), d.a == CUBLAS_OP_T};
  const Operand right{b, As<Layout>(b_layout), d.b == CUBLAS_OP_T};
  const Layout to = As<Layout>(out_layout);
  mirrorflow::LaunchWatchedOnFake(stream, "cublasLtMatmul",
                                  [=] { Multiply(d, left, right, out, to, workspace); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
