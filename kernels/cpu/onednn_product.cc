// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/onednn_primitive.h"
#include "kernels/cpu/onednn_reorder.h"

namespace mirrorflow {
namespace {

using dnnl::memory;
using onednn::Attributes;
using onednn::Cached;
using onednn::CheckSizes;
using onednn::Engine;
using onednn::FloatBias;
using onednn::FormOf;
using onednn::Primitive;
using onednn::PrimitivePtr;
using onednn::Reorder;
using onednn::Scratch;
using onednn::Scratchpad;

// Describes matrices. If `batched` is true, `batch` is the leading dimension, and the matrices are
// contiguous. `stride` is between the rows of a matrix, as it is stored.
memory::desc FloatMatrices(bool batched, int64_t batch, int64_t rows, int64_t columns,
                           bool transposed, int64_t stride) {
  using Tag = memory::format_tag;
  if (!batched) {
    const memory::dims strides = {transposed ? 1 : stride, transposed ? stride : 1};
    return memory::desc({rows, columns}, memory::data_type::f32, strides);
  }
  return memory::desc({batch, rows, columns}, memory::data_type::f32,
                      transposed ? Tag::acb : Tag::abc);
}

}  // namespace

absl::StatusOr<KernelPlan> OneDnnProduct(const ProductGeometry& g, bool keeps_b) {
  const double m = g.m, n = g.n, k = g.k;
  const int64_t batch = std::max(g.batch_a, g.batch_b);
  const bool batched = batch > 1;
  MF_RETURN_IF_ERROR(CheckSizes({g.batch_a * m * k, g.batch_b * k * n, batch * m * n}));
  const bool may_pack = keeps_b && !batched;
  const std::string key =
      absl::StrCat("product ", g.m, " ", g.n, " ", g.k, " ", g.transpose_a, " ", g.transpose_b, " ",
                   g.batch_a, " ", g.batch_b, " ", g.a_stride, " ", g.b_stride, " ", g.out_stride,
                   " ", g.bias, may_pack ? " packed" : "");
  const memory::desc plain_b =
      FloatMatrices(batched, g.batch_b, g.k, g.n, g.transpose_b, g.b_stride);
  MF_ASSIGN_OR_RETURN(
      const PrimitivePtr product, Cached(key, [&] {
        const memory::desc a =
            FloatMatrices(batched, g.batch_a, g.m, g.k, g.transpose_a, g.a_stride);
        const memory::desc b =
            may_pack ? memory::desc({g.k, g.n}, memory::data_type::f32, memory::format_tag::any)
                     : plain_b;
        const memory::desc out = FloatMatrices(batched, batch, g.m, g.n, false, g.out_stride);
        const memory::desc bias = FloatBias(g.bias, {1, g.n}, memory::format_tag::ab);
        const dnnl::matmul::primitive_desc pd({a, b, bias, out}, Attributes(), Engine());
        std::vector<Primitive::Arg> args = {{DNNL_ARG_SRC, a},
                                            {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                            {DNNL_ARG_DST, out},
                                            Scratchpad(pd)};
        if (g.bias) args.push_back({DNNL_ARG_BIAS, bias});
        return std::make_shared<const Primitive>(dnnl::matmul(pd), std::move(args));
      }));
  std::vector<OperandForm> forms;
  if (may_pack) {
    MF_ASSIGN_OR_RETURN(
        const Reorder::Ptr reorder,
        Reorder::Create(absl::StrCat("reorder for ", key), plain_b, product->desc(1)));
    if (reorder != nullptr) forms.push_back(FormOf(g.b, key, reorder, g.transpose_b));
  }
  Scratch scratch;
  scratch.Add(product->desc(3));
  const int64_t bytes = scratch.bytes();
  return KernelPlan{.kernel = MakeKernel([product, bytes, bias = g.bias, in_a = g.a, in_b = g.b](
                                             const KernelArgs& args, Lane& lane) {
                      const float *const a = args.input<float>(in_a), *const b =
                                                                          args.input<float>(in_b);
                      float* const out = args.output<float>(0);
                      void* const scratch = Scratch::Start(args, bytes);
                      if (!bias) return product->Run(lane, {a, b, out, scratch});
                      return product->Run(lane, {a, b, out, scratch, args.input<float>(2)});
                    }),
                    .scratch_bytes = bytes,
                    .forms = std::move(forms)};
}

}  // namespace mirrorflow
