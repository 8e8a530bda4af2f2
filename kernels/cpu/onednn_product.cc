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

// Describes a matrix or, if `batched` is true, `batch` contiguous matrices. `stride` is the
// distance between the rows of a matrix as stored; batches ignore it.
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
  const auto key_of = [&](int64_t rows) {
    return absl::StrCat("product ", rows, " ", g.n, " ", g.k, " ", g.transpose_a, " ",
                        g.transpose_b, " ", g.batch_a, " ", g.batch_b, " ", g.a_stride, " ",
                        g.b_stride, " ", g.out_stride, " ", g.bias, may_pack ? " packed" : "");
  };
  const memory::desc plain_b =
      FloatMatrices(batched, g.batch_b, g.k, g.n, g.transpose_b, g.b_stride);
  const auto product_of = [&](int64_t rows) {
    return Cached(key_of(rows), [&] {
      const memory::desc a =
          FloatMatrices(batched, g.batch_a, rows, g.k, g.transpose_a, g.a_stride);
      const memory::desc b =
          may_pack ? memory::desc({g.k, g.n}, memory::data_type::f32, memory::format_tag::any)
                   : plain_b;
      const memory::desc out = FloatMatrices(batched, batch, rows, g.n, false, g.out_stride);
      const memory::desc bias = FloatBias(g.bias, {1, g.n}, memory::format_tag::ab);
      const dnnl::matmul::primitive_desc pd({a, b, bias, out}, Attributes(), Engine());
      std::vector<Primitive::Arg> args = {{DNNL_ARG_SRC, a},
                                          {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                          {DNNL_ARG_DST, out},
                                          Scratchpad(pd)};
      if (g.bias) args.push_back({DNNL_ARG_BIAS, bias});
      return std::make_shared<const Primitive>(dnnl::matmul(pd), std::move(args));
    });
  };
  const int64_t block = std::min(g.block_rows, g.m), rest = g.m % block;
  MF_CHECK(block == g.m || !may_pack);
  MF_ASSIGN_OR_RETURN(const PrimitivePtr product, product_of(block));
  MF_ASSIGN_OR_RETURN(const PrimitivePtr last, product_of(rest > 0 ? rest : block));
  std::vector<OperandForm> forms;
  if (may_pack) {
    const std::string key = key_of(g.m);
    MF_ASSIGN_OR_RETURN(
        const Reorder::Ptr reorder,
        Reorder::Create(absl::StrCat("reorder for ", key), plain_b, product->desc(1)));
    if (reorder != nullptr) forms.push_back(FormOf(g.b, key, reorder, g.transpose_b));
  }
  Scratch scratch, scratch_of_last;
  scratch.Add(product->desc(3));
  scratch_of_last.Add(last->desc(3));
  const int64_t bytes = std::max(scratch.bytes(), scratch_of_last.bytes());
  const int64_t a_step = g.transpose_a ? 1 : g.a_stride;
  const auto run = [=](const KernelArgs& args, Lane& lane) -> absl::Status {
    const float *const a = args.input<float>(g.a), *const b = args.input<float>(g.b);
    float* const out = args.output<float>(0);
    void* const scratch = Scratch::Start(args, bytes);
    for (int64_t row = 0; row < g.m; row += block) {
      const Primitive& of_block = row + block <= g.m ? *product : *last;
      const float* const a_block = a + row * a_step;
      float* const out_block = out + row * g.out_stride;
      MF_RETURN_IF_ERROR(
          g.bias ? of_block.Run(lane, {a_block, b, out_block, scratch, args.input<float>(2)})
                 : of_block.Run(lane, {a_block, b, out_block, scratch}));
    }
    return absl::OkStatus();
  };
  return KernelPlan{.kernel = MakeKernel(run), .scratch_bytes = bytes, .forms = std::move(forms)};
}

}  // namespace mirrorflow
