// SPDX-License-Identifier: Apache-2.0
//
// MatMul and BatchMatMulV2 on the CPU. PackedProduct multiplies by a matrix that changes rarely.
// Other large float products go to Product or oneDNN, whichever is faster; Eigen computes the rest.
#include "ops/matmul.h"

#include <algorithm>
#include <string>
#include <utility>

#include "Eigen/Core"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/bias.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"
#include "ops/fused_ops.h"

namespace mirrorflow {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename T>
void EigenProduct(const ProductGeometry& g, const T* a, const T* b, T* out) {
  const int64_t m = g.m, n = g.n, k = g.k;
  const bool ta = g.transpose_a, tb = g.transpose_b;
  Eigen::Map<const Matrix<T>> ma(a, ta ? k : m, ta ? m : k), mb(b, tb ? n : k, tb ? k : n);
  Eigen::Map<Matrix<T>> mo(out, m, n);
  if (ta && tb) {
    mo.noalias() = ma.transpose() * mb.transpose();
  } else if (ta) {
    mo.noalias() = ma.transpose() * mb;
  } else if (tb) {
    mo.noalias() = ma * mb.transpose();
  } else {
    mo.noalias() = ma * mb;
  }
}

StridedMatrix Operand(const float* data, int64_t rows, int64_t columns, bool transposed) {
  return transposed ? StridedMatrix{data, 1, rows} : StridedMatrix{data, columns, 1};
}

void OwnProduct(const ProductGeometry& g, const float* a, const float* b, float* out,
                const float* bias = nullptr) {
  const ProductTerm term = {Operand(a, g.m, g.k, g.transpose_a),
                            Operand(b, g.k, g.n, g.transpose_b), g.k};
  Product{{&term, 1}, g.m, g.n}.Store(out, bias);
}

// Smaller products go to Eigen, because the overhead of Product or oneDNN is about the time that
// Eigen needs for this many operations.
constexpr double kMinLargeFlops = 65536;

// Makes a kernel that calls multiply(g, a, b, out) for each matrix of the output.
template <typename T, typename Multiply>
KernelPlan ForEachMatrix(const KernelContext& c, const ProductGeometry& g, Multiply multiply) {
  if (c.output_shape(0).rank() == 2 && c.input_shape(0).rank() == 2 &&
      c.input_shape(1).rank() == 2) {
    return {.kernel = MakeKernel([g, multiply](const KernelArgs& args) {
              multiply(g, args.input<T>(0), args.input<T>(1), args.output<T>(0));
            })};
  }
  const Shape a = BatchDims(c.input_shape(0)), b = BatchDims(c.input_shape(1));
  const BroadcastLoop<2> batch(BatchDims(c.output_shape(0)), {&a, &b});
  return {.kernel = MakeKernel([g, batch, multiply](const KernelArgs& args) {
            const int64_t a_step = batch.moves(0), b_step = batch.moves(1);
            batch.ForEachRun([&](int64_t at, const auto& from) {
              for (int64_t i = 0; i < batch.run_length(); ++i) {
                multiply(g, args.input<T>(0) + (from[0] + i * a_step) * g.m * g.k,
                         args.input<T>(1) + (from[1] + i * b_step) * g.k * g.n,
                         args.output<T>(0) + (at + i) * g.m * g.n);
              }
            });
          })};
}

KernelPlan OwnMatMul(const KernelContext& c, const ProductGeometry& g) {
  if (!g.bias) {
    return ForEachMatrix<float>(
        c, g, [](const ProductGeometry& g, const float* a, const float* b, float* out) {
          OwnProduct(g, a, b, out);
        });
  }
  return {.kernel = MakeKernel([g](const KernelArgs& args) {
            OwnProduct(g, args.input<float>(0), args.input<float>(1), args.output<float>(0),
                       args.input<float>(2));
          })};
}

// Reads b in packed form and applies the epilogue to one block of rows at a time. `out_stride` is
// the stride between the rows of the result, in floats.
KernelPlan PackedMatMul(const ProductGeometry& g, int64_t out_stride, const Epilogue& epilogue) {
  const PackedProduct product = {.m = g.m, .n = g.n, .k = g.k, .out_stride = out_stride};
  OperandForm form = {
      .input = 1,
      .key = absl::StrCat("packed ", g.k, " ", g.n, g.transpose_b ? " transposed" : ""),
      .bytes = product.PackedFloats() * static_cast<int64_t>(sizeof(float)),
      .make = MakeKernel([g, product](const KernelArgs& args) {
        product.Pack(Operand(args.input<float>(0), g.k, g.n, g.transpose_b), args.output<float>(0));
      })};
  return {.kernel = MakeKernel([product, epilogue, has_bias = g.bias](const KernelArgs& args) {
            const auto& [m, n, k, out_stride] = product;
            const float *const a = args.input<float>(0), *const b = args.input<float>(1);
            const float* const bias = has_bias ? args.input<float>(2) : nullptr;
            const float* const addend =
                epilogue.adds() ? args.input<float>(Epilogue::kAddendInput) : nullptr;
            const int64_t rows = PackedProduct::RowsPerPart(m);
            for (int64_t row = 0; row < m; row += rows) {
              const PackedProduct part = {std::min(rows, m - row), n, k, out_stride};
              const Rows out = {args.output<float>(0) + row * out_stride, out_stride};
              part.Store(a + row * k, b, out.data, bias);
              epilogue.Run(out, addend != nullptr ? addend + row * n : nullptr, out, part.m, n);
            }
          }),
          .forms = {std::move(form)},
          .supports_row_stride = true};
}

// Returns whether PackedProduct is the fastest kernel for a matrix b that rarely changes. With
// AVX-512, oneDNN is faster for more rows than PackedProduct can multiply at once. Without AVX-512,
// PackedProduct is nearly always the fastest. Fractions of
// peak on a Zen 3 core for Product, PackedProduct and oneDNN 2.6 with packed weights:
//     64 rows, 1024 x 1024 weights   0.66, 0.90, 0.43
//    128 rows,  256 x 1024 weights   0.76, 0.91, 0.44
//    512 rows, 1024 x  256 weights   0.77, 0.88, 0.83
//   4096 rows, 1024 x  256 weights   0.83, 0.87, 0.81
//   4096 rows,  256 x 1024 weights   0.84, 0.85, 0.92
bool PackedIsFastest(int64_t m) { return !HasAvx512() || m <= PackedProduct::kMaxRows; }

absl::StatusOr<KernelPlan> CreateProduct(const KernelContext& c, bool transpose_a,
                                         bool transpose_b) {
  const Shape &a = c.input_shape(0), &b = c.input_shape(1), &out = c.output_shape(0);
  const ProductGeometry g = {.m = out.dim(out.rank() - 2),
                             .n = out.dim(out.rank() - 1),
                             .k = a.dim(a.rank() - (transpose_a ? 2 : 1)),
                             .transpose_a = transpose_a,
                             .transpose_b = transpose_b,
                             .batch_a = BatchDims(a).num_elements(),
                             .batch_b = BatchDims(b).num_elements(),
                             .bias = c.node().input_index(ops::kFusedBias) >= 0};
  const int64_t batch = BatchDims(out).num_elements();
  const double flops = 2.0 * batch * g.m * g.n * g.k;
  // Rows that are multiplied by the same matrix form one product.
  ProductGeometry merged = g;
  if (g.batch_b == 1 && !transpose_a) {
    merged.m *= g.batch_a;
    merged.batch_a = 1;
  }
  const bool is_float = c.output_dtype(0) == DT_FLOAT;
  const bool is_single = merged.batch_a == 1 && merged.batch_b == 1;
  const Epilogue epilogue = Epilogue::Of(c.node());
  bool runs_epilogue = false;
  absl::StatusOr<KernelPlan> plan = absl::UnimplementedError("");
  if (is_float && c.changes_rarely(1) && is_single && !transpose_a && flops > 0 &&
      PackedIsFastest(merged.m)) {
    plan = PackedMatMul(merged, c.row_stride(), epilogue);
    runs_epilogue = true;
  } else if (is_float && flops >= kMinLargeFlops * batch &&
             Product::IsFastest(g.m, g.n, g.k, transpose_a && !transpose_b)) {
    plan = OwnMatMul(c, g);
  } else if (is_float && flops >= kMinLargeFlops && (g.batch_a == batch || g.batch_a == 1) &&
             (g.batch_b == batch || g.batch_b == 1)) {
    // OneDnnProduct broadcasts only operands that are a single matrix.
    plan = OneDnnProduct(merged, c.changes_rarely(1));
  }
  if (absl::IsUnimplemented(plan.status())) {
    plan = ForType(SignedTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
      using Element = decltype(Wrapping(T()));
      return ForEachMatrix<Element>(c, g, EigenProduct<Element>);
    });
    if (plan.ok() && g.bias) plan = ThenAddBias(*std::move(plan), g.m, g.n);
  }
  if (plan.ok() && !runs_epilogue) plan = ThenRun(epilogue, *std::move(plan), out.num_elements());
  // Double precision is exact for every count below 2^53, and no product of sizes overflows it.
  if (plan.ok()) plan->flops = static_cast<int64_t>(std::min(flops, 9e18));
  return plan;
}

}  // namespace

void RegisterMatMulCpu(KernelRegistry& kernels) {
  kernels.Register("BatchMatMulV2", "CPU", [](const KernelContext& c) {
    return CreateProduct(c, c.attr<bool>("adj_x"), c.attr<bool>("adj_y"));
  });
  const auto create = [](const KernelContext& c) {
    return CreateProduct(c, c.attr<bool>("transpose_a"), c.attr<bool>("transpose_b"));
  };
  kernels.Register(ops::kMatMul, "CPU", create);
  for (const std::string& op : ops::FusedVariants(ops::kMatMul)) {
    kernels.Register(op, "CPU", create);
  }
}

}  // namespace mirrorflow
