// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/cublas_lt.h"

#include <cublasLt.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_status.h"
#include "kernels/cuda/libraries/autotune.h"

namespace mirrorflow {
namespace {

// NVIDIA's recommendation for Hopper. Kernels that could use more lose little performance.
constexpr size_t kMaxWorkspaceBytes = size_t{32} << 20;
// The library rejects any other alignment; scratch is aligned only to kBufferAlignment.
constexpr size_t kWorkspaceAlignment = 256;
static_assert(kWorkspaceAlignment % kBufferAlignment == 0);
// How many of the heuristic's proposals autotune tries.
constexpr int kMaxTried = 8;

absl::Status CublasStatus(cublasStatus_t status, absl::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return absl::OkStatus();
  const std::string message = absl::StrCat(call, ": ", cublasLtGetStatusName(status), " (",
                                           cublasLtGetStatusString(status), ")");
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return absl::UnimplementedError(message);
  return status == CUBLAS_STATUS_ALLOC_FAILED ? absl::ResourceExhaustedError(message)
                                              : absl::InternalError(message);
}
#define MF_CUBLAS_STATUS(call) CublasStatus((call), #call)
#define MF_RETURN_IF_CUBLAS_ERROR(call) MF_RETURN_IF_ERROR(CublasStatus((call), #call))

// The handle of one lane. A handle can be used for only one device.
class Handle {
 public:
  ~Handle() {
    if (handle_ != nullptr) cublasLtDestroy(handle_);
  }
  absl::StatusOr<cublasLtHandle_t> Get() {
    if (handle_ == nullptr) MF_RETURN_IF_CUBLAS_ERROR(cublasLtCreate(&handle_));
    return handle_;
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

// Returns the handle for heuristics on the current GPU. Takes a lock, because sessions can make
// plans on several threads.
absl::StatusOr<cublasLtHandle_t> HandleForPlans() {
  struct Handles {
    Mutex mu;
    std::map<int, Handle> by_gpu ABSL_GUARDED_BY(mu);
  };
  static auto* const handles = new Handles();
  int gpu = 0;
  MF_RETURN_IF_CUDA_ERROR(cudaGetDevice(&gpu));
  MutexLock lock(&handles->mu);
  return handles->by_gpu[gpu].Get();
}

// A matrix in the library's terms. The library is column-major, so it computes the transposed
// product, outᵀ = bᵀ · aᵀ, where our rows are its columns.
struct Matrix {
  cublasLtMatrixLayoutOpaque_t layout;

  // Describes a matrix with `rows` rows in our row-major layout.
  absl::Status Make(cudaDataType_t type, int64_t rows, int64_t columns, int64_t batch,
                    bool has_batch) {
    MF_RETURN_IF_CUBLAS_ERROR(cublasLtMatrixLayoutInit(&layout, type, columns, rows, columns));
    if (batch == 1) return absl::OkStatus();
    const auto count = static_cast<int32_t>(batch);
    const int64_t stride = has_batch ? rows * columns : 0;
    MF_RETURN_IF_CUBLAS_ERROR(cublasLtMatrixLayoutSetAttribute(
        &layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    return MF_CUBLAS_STATUS(cublasLtMatrixLayoutSetAttribute(
        &layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  }
  // The library takes mutable handles even if it does not modify the layout.
  cublasLtMatrixLayout_t get() const { return const_cast<cublasLtMatrixLayout_t>(&layout); }
};

struct Types {
  cudaDataType_t data, scale;
  cublasComputeType_t compute;
};

absl::StatusOr<Types> TypesOf(const CublasProduct& p) {
  switch (p.dtype) {
    case DT_HALF:
      return Types{CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DT_BFLOAT16:
      return Types{CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DT_FLOAT:
      return Types{CUDA_R_32F, CUDA_R_32F,
                   p.allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case DT_DOUBLE:
      return Types{CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    default:
      return absl::UnimplementedError(
          absl::StrCat("cuBLASLt does not support products of ", DataTypeName(p.dtype)));
  }
}

class ProductKernel final : public Kernel {
 public:
  absl::Status Make(const KernelContext& c, const CublasProduct& p) {
    MF_ASSIGN_OR_RETURN(const Types types, TypesOf(p));
    epilogue_ = p.epilogue;
    in_double_ = p.dtype == DT_DOUBLE;
    MF_RETURN_IF_CUBLAS_ERROR(cublasLtMatmulDescInit(&desc_, types.compute, types.scale));
    const cublasOperation_t b_op = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t a_op = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    MF_RETURN_IF_ERROR(Set(&desc_, CUBLASLT_MATMUL_DESC_TRANSA, b_op));
    MF_RETURN_IF_ERROR(Set(&desc_, CUBLASLT_MATMUL_DESC_TRANSB, a_op));
    MF_RETURN_IF_ERROR(Set(&desc_, CUBLASLT_MATMUL_DESC_EPILOGUE, CublasEpilogue()));
    if (HasMask()) {
      MF_RETURN_IF_ERROR(
          Set(&desc_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, (p.n + 127) / 128 * 128));
    }
    MF_RETURN_IF_ERROR(a_.Make(types.data, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k,
                               p.batch, p.batch_a));
    MF_RETURN_IF_ERROR(b_.Make(types.data, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n,
                               p.batch, p.batch_b));
    MF_RETURN_IF_ERROR(out_.Make(types.data, p.m, p.n, p.batch, /*has_batch=*/true));
    const bool autotune = c.tuning() != nullptr;
    MF_ASSIGN_OR_RETURN(const std::vector<Algorithm> proposed, Propose(autotune ? kMaxTried : 1));
    int choice = 0;
    if (autotune) {
      MF_ASSIGN_OR_RETURN(choice, ChooseProposal(c, absl::StrCat("cuBLASLt ", cublasLtGetVersion()),
                                                 static_cast<int>(proposed.size()),
                                                 [&] { return Fastest(p, proposed); }));
    }
    chosen_ = proposed[choice];
    return absl::OkStatus();
  }

  // Returns the scratch size: the workspace, and room to align it.
  int64_t scratch_bytes() const {
    if (chosen_.workspaceSize == 0) return 0;
    return static_cast<int64_t>(chosen_.workspaceSize + kWorkspaceAlignment - kBufferAlignment);
  }

  absl::Status Run(const KernelArgs& args, Lane& lane) const override {
    const std::byte *a = args.input<std::byte>(0), *b = args.input<std::byte>(1);
    std::byte* const out = args.output<std::byte>(0);
    const std::byte *bias = nullptr, *mask = nullptr;
    if (epilogue_ == Epilogue::kReluGrad) {
      bias = args.output<std::byte>(1);  // here the library writes the gradient of the bias
      mask = args.input<std::byte>(2);
    } else if (epilogue_ != Epilogue::kNone) {
      bias = args.input<std::byte>(2);
      if (HasMask()) mask = args.output<std::byte>(1);
    }
    cublasLtMatmulDescOpaque_t desc = desc_;  // a copy, to hold these addresses
    MF_RETURN_IF_ERROR(SetPointers(&desc, bias, mask));
    MF_ASSIGN_OR_RETURN(cublasLtHandle_t handle, lane.Library<Handle>().Get());
    void* const workspace = scratch_bytes() > 0 ? Aligned(args.scratch<void>()) : nullptr;
    return Multiply(handle, desc, chosen_, a, b, out, workspace, StreamOf(lane));
  }

 private:
  using Algorithm = cublasLtMatmulHeuristicResult_t;
  // The alignment that algorithms may rely on. Operands have a larger one (see cuda_kernel.h).
  static constexpr uint32_t kAlignment = 16;

  static void* Aligned(void* scratch) {
    return reinterpret_cast<void*>(
        AlignUp(reinterpret_cast<uintptr_t>(scratch), kWorkspaceAlignment));
  }

  bool HasMask() const {
    return epilogue_ == Epilogue::kBiasReluMask || epilogue_ == Epilogue::kReluGrad;
  }
  cublasLtEpilogue_t CublasEpilogue() const {
    switch (epilogue_) {
      case Epilogue::kNone:
        return CUBLASLT_EPILOGUE_DEFAULT;
      case Epilogue::kBias:
        return CUBLASLT_EPILOGUE_BIAS;
      case Epilogue::kBiasRelu:
        return CUBLASLT_EPILOGUE_RELU_BIAS;
      case Epilogue::kBiasReluMask:
        return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
      case Epilogue::kReluGrad:
        return CUBLASLT_EPILOGUE_DRELU_BGRAD;
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
  }
  absl::Status SetPointers(cublasLtMatmulDesc_t desc, const void* bias, const void* mask) const {
    if (epilogue_ == Epilogue::kNone) return absl::OkStatus();
    MF_RETURN_IF_ERROR(Set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    return HasMask() ? Set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask)
                     : absl::OkStatus();
  }

  absl::Status Multiply(cublasLtHandle_t handle, const cublasLtMatmulDescOpaque_t& desc,
                        const Algorithm& algorithm, const void* a, const void* b, void* out,
                        void* workspace, cudaStream_t stream) const {
    static constexpr float kOne = 1, kZero = 0;
    static constexpr double kDoubleOne = 1, kDoubleZero = 0;
    const void* const one = in_double_ ? static_cast<const void*>(&kDoubleOne) : &kOne;
    const void* const zero = in_double_ ? static_cast<const void*>(&kDoubleZero) : &kZero;
    return MF_CUBLAS_STATUS(cublasLtMatmul(
        handle, const_cast<cublasLtMatmulDesc_t>(&desc), one, b, b_.get(), a, a_.get(), zero, out,
        out_.get(), out, out_.get(), &algorithm.algo, workspace, algorithm.workspaceSize, stream));
  }

  absl::StatusOr<int> Fastest(const CublasProduct& p, const std::vector<Algorithm>& proposed) {
    const size_t element = DataTypeSize(p.dtype);
    const size_t workspace_bytes =
        std::ranges::max(proposed, {}, &Algorithm::workspaceSize).workspaceSize;
    MF_ASSIGN_OR_RETURN(const TrialMemory a, AllocateForTrial(p.batch * p.m * p.k * element));
    MF_ASSIGN_OR_RETURN(const TrialMemory b, AllocateForTrial(p.batch * p.k * p.n * element));
    MF_ASSIGN_OR_RETURN(const TrialMemory bias, AllocateForTrial(p.n * element));
    MF_ASSIGN_OR_RETURN(const TrialMemory mask, AllocateForTrial(p.m * ((p.n + 127) / 128) * 16));
    MF_ASSIGN_OR_RETURN(const TrialMemory out, AllocateForTrial(p.batch * p.m * p.n * element));
    MF_ASSIGN_OR_RETURN(const TrialMemory workspace, AllocateForTrial(workspace_bytes));
    cublasLtMatmulDescOpaque_t desc = desc_;
    MF_RETURN_IF_ERROR(SetPointers(&desc, bias.get(), mask.get()));
    Handle own;  // for the current GPU
    MF_ASSIGN_OR_RETURN(cublasLtHandle_t handle, own.Get());
    return FastestWay(static_cast<int>(proposed.size()), [&](int i, cudaStream_t stream) {
      return Multiply(handle, desc, proposed[i], a.get(), b.get(), out.get(), workspace.get(),
                      stream);
    });
  }

  template <typename T>
  static absl::Status Set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                          T value) {
    return MF_CUBLAS_STATUS(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value));
  }

  // Returns the heuristic's proposals, best first: at least one and at most `max_count`.
  absl::StatusOr<std::vector<Algorithm>> Propose(int max_count) const {
    cublasLtMatmulPreferenceOpaque_t preference;
    MF_RETURN_IF_CUBLAS_ERROR(cublasLtMatmulPreferenceInit(&preference));
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      return CublasStatus(
          cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
    };
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      MF_RETURN_IF_ERROR(set(attribute, kAlignment));
    }
    MF_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kMaxWorkspaceBytes}));
    // Excludes CUBLASLT_REDUCTION_SCHEME_INPLACE, whose sums depend on the order in which blocks
    // finish.
    const uint32_t schemes =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    MF_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
    MF_ASSIGN_OR_RETURN(cublasLtHandle_t handle, HandleForPlans());
    // Only the alignment of these pointers matters.
    cublasLtMatmulDescOpaque_t desc = desc_;
    const auto* const aligned = reinterpret_cast<const void*>(uintptr_t{kAlignment});
    MF_RETURN_IF_ERROR(SetPointers(&desc, aligned, aligned));
    std::vector<Algorithm> proposed(max_count);
    int found = 0;
    cublasStatus_t asked =
        cublasLtMatmulAlgoGetHeuristic(handle, &desc, b_.get(), a_.get(), out_.get(), out_.get(),
                                       &preference, max_count, proposed.data(), &found);
    // The library returns INVALID_VALUE for some shapes that it does not support, such as those
    // with a dimension of 1.
    if (asked == CUBLAS_STATUS_INVALID_VALUE) asked = CUBLAS_STATUS_NOT_SUPPORTED;
    MF_RETURN_IF_ERROR(CublasStatus(asked, "cublasLtMatmulAlgoGetHeuristic"));
    proposed.resize(found);
    std::erase_if(proposed,
                  [](const Algorithm& each) { return each.state != CUBLAS_STATUS_SUCCESS; });
    if (proposed.empty()) {
      return absl::UnimplementedError("cuBLASLt has no algorithm for this product");
    }
    return proposed;
  }

  Epilogue epilogue_ = Epilogue::kNone;
  bool in_double_ = false;
  cublasLtMatmulDescOpaque_t desc_;
  Matrix a_, b_, out_;
  Algorithm chosen_;
};

}  // namespace

absl::StatusOr<KernelPlan> MakeCublasProduct(const KernelContext& c, const CublasProduct& product) {
  auto kernel = std::make_unique<ProductKernel>();
  MF_RETURN_IF_ERROR(kernel->Make(c, product));
  const int64_t scratch_bytes = kernel->scratch_bytes();
  return KernelPlan{.kernel = std::move(kernel), .scratch_bytes = scratch_bytes};
}

}  // namespace mirrorflow
