// SPDX-License-Identifier: Apache-2.0
//
// Einsum, computed directly from its definition: a sum of products for each result element.
// LowerToMatmul (ops/passes/lower_to_matmul.h) has already replaced equations that are matrix
// products.
#include "ops/einsum.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

// Returns the stride of `label` in an operand. Dimensions of size 1 broadcast.
int64_t StepOf(char label, const std::string& term, const Shape& shape) {
  const std::vector<int64_t> strides = shape.Strides();
  int64_t step = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (term[d] == label && shape.dim(d) != 1) step += strides[d];
  }
  return step;
}

// The labels that are summed over, with their sizes.
struct Summed {
  std::string labels;
  std::vector<int64_t> sizes;
  int64_t terms = 1;
};

Summed SummedOf(const KernelContext& c, const EinsumTerms& terms) {
  Summed summed;
  for (size_t k = 0; k < terms.inputs.size(); ++k) {
    const Shape& shape = c.input_shape(static_cast<int>(k));
    for (int d = 0; d < shape.rank(); ++d) {
      const char label = terms.inputs[k][d];
      if (absl::StrContains(terms.output, label) || absl::StrContains(summed.labels, label)) {
        continue;
      }
      summed.labels += label;
      summed.sizes.push_back(shape.dim(d));
      summed.terms *= shape.dim(d);
    }
  }
  return summed;
}

// Returns the expression for the element of operand `k` in term s of result element i.
std::string OperandText(const KernelContext& c, const EinsumTerms& terms, const Summed& summed,
                        int k) {
  const Shape &out = c.output_shape(0), &shape = c.input_shape(k);
  std::vector<IndexDim> kept, rest;
  for (int d = 0; d < out.rank(); ++d) {
    const bool is_first = terms.output.find(terms.output[d]) == static_cast<size_t>(d);
    kept.push_back({out.dim(d), is_first ? StepOf(terms.output[d], terms.inputs[k], shape) : 0});
  }
  for (size_t l = 0; l < summed.labels.size(); ++l) {
    rest.push_back({summed.sizes[l], StepOf(summed.labels[l], terms.inputs[k], shape)});
  }
  // An operand can have more elements than the index type can represent.
  const bool wide = shape.num_elements() >= (int64_t{1} << 31);
  return absl::StrCat("Load(a", k, "[", OffsetText(wide ? "int64(i)" : "i", std::move(kept)), " + ",
                      OffsetText(wide ? "int64(s)" : "s", std::move(rest)), "])");
}

// Returns a condition that is true if element i of the result is off a diagonal, and is therefore
// 0. Returns an empty text if the result has no diagonal.
std::string OffDiagonalText(const Shape& out, const std::string& labels) {
  const auto coordinate = [&](size_t d) {
    std::vector<IndexDim> dims;
    for (int e = 0; e < out.rank(); ++e) dims.push_back({out.dim(e), static_cast<size_t>(e) == d});
    return OffsetText("i", std::move(dims));
  };
  std::string text;
  for (size_t d = 0; d < labels.size(); ++d) {
    const size_t first = labels.find(labels[d]);
    if (first == d) continue;
    absl::StrAppend(&text, text.empty() ? "" : " || ", coordinate(d), " != ", coordinate(first));
  }
  return text;
}

absl::StatusOr<KernelPlan> CreateEinsum(const KernelContext& c) {
  const int operands = c.node().num_inputs();
  std::vector<int> ranks;
  for (int k = 0; k < operands; ++k) ranks.push_back(c.input_shape(k).rank());
  MF_ASSIGN_OR_RETURN(const EinsumTerms terms,
                      EinsumTermsOf(c.attr<std::string>("equation"), ranks));
  const Summed summed = SummedOf(c, terms);
  const std::string value_type = CudaValueType(c.output_dtype(0));
  std::string product = OperandText(c, terms, summed, 0);
  if (operands == 2) absl::StrAppend(&product, " * ", OperandText(c, terms, summed, 1));
  std::string value = absl::StrCat("einsum::Sum<", value_type, ", ", summed.terms,
                                   ">([&](auto s) { return ", product, "; })");
  const std::string off_diagonal = OffDiagonalText(c.output_shape(0), terms.output);
  if (!off_diagonal.empty()) {
    value = absl::StrCat(off_diagonal, " ? ", value_type, "(0) : ", value);
  }
  KernelPlan plan = MakeIndexed(c, value, {.includes = {"einsum.cuh"}});
  const double flops = static_cast<double>(operands) *
                       static_cast<double>(c.output_shape(0).num_elements()) *
                       static_cast<double>(summed.terms);
  plan.flops = static_cast<int64_t>(std::min(flops, 9e18));
  return plan;
}

}  // namespace

void RegisterEinsumCuda(KernelRegistry& kernels) { kernels.Register("Einsum", kGpu, CreateEinsum); }

}  // namespace mirrorflow
