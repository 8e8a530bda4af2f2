// SPDX-License-Identifier: Apache-2.0
//
// MirrorPad and MirrorPadGrad on the CPU. Each element of the padded tensor mirrors one element of
// the inner tensor, whose offset is a sum with one term per dimension.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

// The terms of an offset in the inner tensor: terms[d][i] is the term for index i of dimension d in
// the padded tensor. A scalar is treated as a row of one element.
using OffsetTerms = std::vector<std::vector<int64_t>>;

absl::StatusOr<OffsetTerms> OffsetTermsOf(const KernelContext& c, const Shape& padded,
                                          const Shape& inner) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> paddings, c.integers(1));
  const int64_t offset = c.attr<std::string>("mode") == "REFLECT" ? 1 : 0;
  const std::vector<int64_t> strides = inner.Strides();
  if (padded.rank() == 0) return OffsetTerms{{0}};
  OffsetTerms terms(padded.rank());
  for (int d = 0; d < padded.rank(); ++d) {
    const int64_t size = inner.dim(d);
    for (int64_t i = 0; i < padded.dim(d); ++i) {
      int64_t at = i - paddings[2 * d];
      if (at < 0) at = offset - 1 - at;
      if (at >= size) at = 2 * size - 1 - offset - at;
      terms[d].push_back(at * strides[d]);
    }
  }
  return terms;
}

// Calls row(padded, inner) for each row of the padded tensor. `padded` is the row's offset, and
// `inner` the sum of the offset terms of its outer indices. Returns the offset of the next row.
template <typename Row>
int64_t ForEachRow(absl::Span<const std::vector<int64_t>> outer, int64_t length, int64_t padded,
                   int64_t inner, const Row& row) {
  if (outer.empty()) {
    row(padded, inner);
    return padded + length;
  }
  for (const int64_t term : outer[0]) {
    padded = ForEachRow(outer.subspan(1), length, padded, inner + term, row);
  }
  return padded;
}

absl::StatusOr<KernelPlan> CreateMirrorPad(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(OffsetTerms terms, OffsetTermsOf(c, c.output_shape(0), c.input_shape(0)));
  return ForElementSize(c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    auto kernel = MakeKernel([terms = std::move(terms)](const KernelArgs& args) {
      const auto outer = absl::MakeSpan(terms).first(terms.size() - 1);
      const absl::Span<const int64_t> row = terms.back();
      const T* in = args.input<T>(0);
      T* out = args.output<T>(0);
      ForEachRow(outer, row.size(), 0, 0, [&, row](int64_t to, int64_t from) {
        for (size_t i = 0; i < row.size(); ++i) out[to + i] = in[from + row[i]];
      });
    });
    return KernelPlan{.kernel = std::move(kernel)};
  });
}

absl::StatusOr<KernelPlan> CreateMirrorPadGrad(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(OffsetTerms terms, OffsetTermsOf(c, c.input_shape(0), c.output_shape(0)));
  const int64_t n = c.output_shape(0).num_elements();
  return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    auto kernel = MakeKernel([terms = std::move(terms), n](const KernelArgs& args) {
      const auto outer = absl::MakeSpan(terms).first(terms.size() - 1);
      const absl::Span<const int64_t> row = terms.back();
      const T* in = args.input<T>(0);
      T* out = args.output<T>(0);
      std::fill_n(out, n, T{0});
      ForEachRow(outer, row.size(), 0, 0, [&, row](int64_t from, int64_t to) {
        for (size_t i = 0; i < row.size(); ++i) {
          T& sum = out[to + row[i]];
          sum = static_cast<T>(Wrapping(sum) + Wrapping(in[from + i]));
        }
      });
    });
    return KernelPlan{.kernel = std::move(kernel)};
  });
}

}  // namespace

void RegisterMirrorPadCpu(KernelRegistry& kernels) {
  kernels.Register("MirrorPad", "CPU", CreateMirrorPad);
  kernels.Register("MirrorPadGrad", "CPU", CreateMirrorPadGrad);
}

}  // namespace mirrorflow
