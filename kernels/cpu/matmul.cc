// SPDX-License-Identifier: Apache-2.0
//
// MatMul and BatchMatMulV2 on the CPU. PackedProduct multiplies by a matrix that changes rarely.
// Other large float products go to Product or oneDNN, whichever is faster; Eigen computes the rest.
#include "ops/matmul.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

// `stride` is the distance between rows of the operand as stored.
StridedMatrix Operand(const float* data, int64_t stride, bool transposed) {
  return transposed ? StridedMatrix{data, 1, stride} : StridedMatrix{data, stride, 1};
}

void OwnProduct(const ProductGeometry& g, const float* a, const float* b, float* out,
                const float* bias = nullptr) {
  const ProductTerm term = {Operand(a, g.a_stride, g.transpose_a),
                            Operand(b, g.b_stride, g.transpose_b), g.k};
  Product{{&term, 1}, g.m, g.n, g.out_stride}.Store(out, bias);
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

// Reads b in packed form and applies the epilogue to one block of rows at a time. `whole` is the
// product of all columns; the kernel computes only the columns `part`, unless it is null.
KernelPlan PackedMatMul(const ProductGeometry& whole, int64_t out_stride, const Epilogue& epilogue,
                        const DimRange* part) {
  PackedProduct product = {.m = whole.m, .n = whole.n, .k = whole.k, .out_stride = out_stride};
  OperandForm form = {.input = 1,
                      .key = absl::StrCat("packed ", product.k, " ", product.n,
                                          whole.transpose_b ? " transposed" : ""),
                      .bytes = product.PackedFloats() * static_cast<int64_t>(sizeof(float)),
                      .make = MakeKernel([whole, product](const KernelArgs& args) {
                        product.Pack(
                            Operand(args.input<float>(0), whole.b_stride, whole.transpose_b),
                            args.output<float>(0));
                      })};
  if (part != nullptr) {
    product.first_column = part->first;
    product.end_column = part->first + part->count;
  }
  return {
      .kernel = MakeKernel([product, epilogue, has_bias = whole.bias](const KernelArgs& args) {
        const float *const a = args.input<float>(0), *const b = args.input<float>(1);
        const float* const bias = has_bias ? args.input<float>(2) : nullptr;
        const ConstRows addend = epilogue.AddendOf(args, product.n);
        const int64_t n = product.end_column - product.first_column;
        const int64_t rows = PackedProduct::RowsPerPart(product.m);
        for (int64_t row = 0; row < product.m; row += rows) {
          PackedProduct block = product;
          block.m = std::min(rows, product.m - row);
          const Rows out = {args.output<float>(0) + row * product.out_stride, product.out_stride};
          block.Store(a + row * product.k, b, out.data, bias);
          epilogue.Run(out, addend.From(row), out, block.m, n);
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

// The matrix products that a node computes.
struct Products {
  ProductGeometry g;       // one of the products
  ProductGeometry merged;  // the same, with the rows that multiply the same matrix merged
  int64_t batch;           // number of output matrices

  static Products Of(const KernelContext& c, bool transpose_a, bool transpose_b) {
    const Shape &a = c.input_shape(0), &b = c.input_shape(1), &out = c.output_shape(0);
    Products p = {.g = {.m = out.dim(out.rank() - 2),
                        .n = out.dim(out.rank() - 1),
                        .k = a.dim(a.rank() - (transpose_a ? 2 : 1)),
                        .transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .batch_a = BatchDims(a).num_elements(),
                        .batch_b = BatchDims(b).num_elements(),
                        .bias = c.node().input_index(ops::kFusedBias) >= 0},
                  .batch = BatchDims(out).num_elements()};
    p.merged = p.g;
    if (p.g.batch_b == 1 && !transpose_a) {
      p.merged.m *= p.g.batch_a;
      p.merged.batch_a = 1;
    }
    return p;
  }
  bool is_single() const { return merged.batch_a == 1 && merged.batch_b == 1; }
  double flops() const { return 2.0 * batch * g.m * g.n * g.k; }
};

enum class Algorithm { kPacked, kOwn, kOneDnn, kEigen };

Algorithm Choose(const KernelContext& c, const Products& p) {
  const auto& [g, merged, batch] = p;
  if (c.output_dtype(0) != DT_FLOAT) return Algorithm::kEigen;
  if (c.changes_rarely(1) && p.is_single() && !g.transpose_a && p.flops() > 0 &&
      PackedIsFastest(merged.m)) {
    return Algorithm::kPacked;
  }
  if (p.flops() >= kMinLargeFlops * batch &&
      Product::IsFastest(g.m, g.n, g.k, g.transpose_a && !g.transpose_b)) {
    return Algorithm::kOwn;
  }
  // OneDnnProduct can broadcast an operand only if it is a single matrix.
  const bool broadcasts_one =
      (g.batch_a == batch || g.batch_a == 1) && (g.batch_b == batch || g.batch_b == 1);
  return p.flops() >= kMinLargeFlops && broadcasts_one ? Algorithm::kOneDnn : Algorithm::kEigen;
}

// Parts begin at multiples of this number of rows or columns.
constexpr int64_t kPartMultiple = PackedProduct::kColumnMultiple;

bool AreMatrices(const KernelContext& c) {
  return c.output_shape(0).rank() == 2 && c.input_shape(0).rank() == 2 &&
         c.input_shape(1).rank() == 2;
}

// Returns how many rows oneDNN computes per call: `m`, unless `a` is transposed. For a transposed
// `a`, oneDNN's summation order depends on the number of rows, so results would depend on the
// number of threads. Blocks of 256 rows or more slow products down by at most 1 %.
int64_t BlockRows(const KernelContext& c, int64_t m, bool transpose_a) {
  constexpr int64_t kLeast = 256, kMultiple = 16;
  const int64_t blocks = m / kLeast;
  if (!transpose_a || !AreMatrices(c) || c.changes_rarely(1) || blocks < 2) return m;
  const int64_t rows = (m + blocks - 1) / blocks;
  return (rows + kMultiple - 1) / kMultiple * kMultiple;
}

// Returns the dimensions along which threads can divide a product of two matrices, in addition to
// those of the sharding rule: the columns, unless oneDNN computes the product, and the rows if `a`
// is transposed.
std::vector<DivisibleDim> DivisibleDims(const KernelContext& c, Algorithm algorithm, int64_t m,
                                        bool transpose_a) {
  if (!AreMatrices(c) || algorithm == Algorithm::kEigen) return {};
  if (algorithm == Algorithm::kOneDnn) {
    const int64_t block = BlockRows(c, m, transpose_a);
    if (block == m) return {};
    return {{.dim = 0, .multiple = block, .divided_inputs = {0}}};
  }
  std::vector<DivisibleDim> dims = {{.dim = 1, .multiple = kPartMultiple, .divided_inputs = {1}}};
  if (transpose_a) dims.push_back({.dim = 0, .multiple = kPartMultiple, .divided_inputs = {0}});
  return dims;
}

absl::StatusOr<KernelPlan> CreateProduct(const KernelContext& c, bool transpose_a,
                                         bool transpose_b) {
  const DimRange* const part = c.part();
  const Products undivided = Products::Of(c.undivided(), transpose_a, transpose_b);
  Products p = part != nullptr ? undivided : Products::Of(c, transpose_a, transpose_b);
  const Epilogue epilogue = Epilogue::Of(c.node());
  std::vector<std::pair<int, DimRange>> part_inputs;
  if (part != nullptr) {  // parts exist only of products of two matrices
    ProductGeometry& g = p.g;
    const bool by_columns = part->dim == 1;
    (by_columns ? g.n : g.m) = part->count;
    g.out_stride = c.row_stride();
    p.merged = g;
    const auto take = [&](int input, int dim) {
      part_inputs.push_back({input, {dim, part->first, part->count}});
    };
    if (!by_columns) take(0, transpose_a ? 1 : 0);
    if (by_columns) take(1, transpose_b ? 0 : 1);
    if (by_columns && g.bias) take(2, 0);
    if (epilogue.adds()) take(Epilogue::kAddendInput, part->dim);
  }
  const Algorithm algorithm = Choose(c.undivided(), undivided);
  // Eigen sums in a different order if a matrix has a single row or column.
  if (algorithm == Algorithm::kEigen && p.g.m != undivided.g.m) {
    return absl::UnimplementedError("the rows of a small product cannot be divided");
  }
  bool runs_epilogue = false;
  absl::StatusOr<KernelPlan> plan = absl::UnimplementedError("");
  switch (algorithm) {
    case Algorithm::kPacked:
      plan = PackedMatMul(part != nullptr ? undivided.merged : p.merged, c.row_stride(), epilogue,
                          part);
      // The form contains all columns, so Run receives the whole form.
      std::erase_if(part_inputs, [](const auto& taken) { return taken.first == 1; });
      runs_epilogue = true;
      break;
    case Algorithm::kOwn:
      plan = OwnMatMul(c, p.g);
      break;
    case Algorithm::kOneDnn:
      p.merged.block_rows = p.merged.m;
      if (p.is_single()) {
        p.merged.block_rows = BlockRows(c.undivided(), undivided.merged.m, transpose_a);
      }
      plan = OneDnnProduct(p.merged, part == nullptr && c.changes_rarely(1));
      break;
    case Algorithm::kEigen:
      break;
  }
  if (absl::IsUnimplemented(plan.status())) {
    if (part != nullptr) return plan;
    plan = ForType(SignedTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
      using Element = decltype(Wrapping(T()));
      return ForEachMatrix<Element>(c, p.g, EigenProduct<Element>);
    });
    if (plan.ok() && p.g.bias) plan = ThenAddBias(*std::move(plan), p.g.m, p.g.n);
  }
  MF_RETURN_IF_ERROR(plan.status());
  const int64_t rows = c.output_shape(0).num_elements() / std::max<int64_t>(p.g.n, 1);
  if (!runs_epilogue) {
    plan = ThenRun(epilogue, *std::move(plan), rows, p.g.n, p.g.out_stride, undivided.g.n);
  }
  // Double precision is exact for every count below 2^53, and no product of sizes overflows it.
  plan->flops = static_cast<int64_t>(std::min(p.flops(), 9e18));
  plan->divisible_dims = DivisibleDims(c, algorithm, undivided.g.m, transpose_a);
  plan->part_inputs = std::move(part_inputs);
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
