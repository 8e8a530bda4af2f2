// SPDX-License-Identifier: Apache-2.0
//
// Einsum on the CPU, computed directly from its definition: a sum of products for each result
// element. Equations that are matrix products do not use this kernel, because a pass replaces them
// (ops/passes/lower_to_matmul.h).
#include "ops/einsum.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "framework/core/status.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

// The loop over one label: its size and its strides in the result and the operands.
struct Loop {
  int64_t size;
  std::array<int64_t, 3> step = {};
};

// Calls run(offsets) for each combination of loop indices, starting from the offsets `at`.
template <typename Run>
void ForEach(absl::Span<const Loop> loops, std::array<int64_t, 3> at, Run run) {
  if (loops.empty()) return run(at);
  for (int64_t i = 0; i < loops[0].size; ++i) {
    ForEach(loops.subspan(1), at, run);
    for (int k = 0; k < 3; ++k) at[k] += loops[0].step[k];
  }
}

struct Contraction {
  std::vector<Loop> kept;    // loops over the labels of the result
  std::vector<Loop> summed;  // loops over all other labels
  int64_t elements;          // element count of the result
};

Contraction ContractionOf(const KernelContext& c, const EinsumTerms& terms) {
  std::string labels = terms.output;
  for (const std::string& term : terms.inputs) labels += term;
  Contraction contraction{.elements = c.output_shape(0).num_elements()};
  for (size_t l = 0; l < labels.size(); ++l) {
    if (labels.find(labels[l]) != l) continue;
    Loop loop{.size = 1};
    // A dimension of size 1 broadcasts, so it adds no stride.
    auto add = [&](int k, const std::string& term, const Shape& shape) {
      int64_t stride = 1;
      for (int d = shape.rank() - 1; d >= 0; --d) {
        if (term[d] == labels[l] && shape.dim(d) != 1) {
          loop.size = shape.dim(d);
          loop.step[k] += stride;
        }
        stride *= shape.dim(d);
      }
    };
    add(0, terms.output, c.output_shape(0));
    for (size_t i = 0; i < terms.inputs.size(); ++i) {
      add(static_cast<int>(i) + 1, terms.inputs[i], c.input_shape(static_cast<int>(i)));
    }
    const bool is_kept = absl::StrContains(terms.output, labels[l]);
    (is_kept ? contraction.kept : contraction.summed).push_back(loop);
  }
  return contraction;
}

absl::StatusOr<KernelPlan> CreateEinsum(const KernelContext& c) {
  std::vector<int> ranks;
  for (int i = 0; i < c.node().num_inputs(); ++i) ranks.push_back(c.input_shape(i).rank());
  MF_ASSIGN_OR_RETURN(const EinsumTerms terms,
                      EinsumTermsOf(c.node().attr<std::string>("equation"), ranks));
  Contraction contraction = ContractionOf(c, terms);
  double flops = c.node().num_inputs();
  for (const auto* loops : {&contraction.kept, &contraction.summed}) {
    for (const Loop& loop : *loops) flops *= static_cast<double>(loop.size);
  }
  const bool has_second = c.node().num_inputs() == 2;
  absl::StatusOr<KernelPlan> plan =
      ForType(SignedTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
        using Element = decltype(Wrapping(T()));
        return KernelPlan{.kernel = MakeKernel([contraction = std::move(contraction),
                                                has_second](const KernelArgs& args) {
                            const Element* a = args.input<Element>(0);
                            const Element* b = has_second ? args.input<Element>(1) : nullptr;
                            Element* out = args.output<Element>(0);
                            // Elements off a diagonal stay 0.
                            std::fill_n(out, contraction.elements, Element());
                            ForEach(contraction.kept, {}, [&](const auto& at) {
                              Element sum = Element();
                              ForEach(contraction.summed, at, [&](const auto& term) {
                                sum += b != nullptr ? a[term[1]] * b[term[2]] : a[term[1]];
                              });
                              out[at[0]] = sum;
                            });
                          })};
      });
  if (plan.ok()) plan->flops = static_cast<int64_t>(std::min(flops, 9e18));
  return plan;
}

}  // namespace

void RegisterEinsumCpu(KernelRegistry& kernels) { kernels.Register("Einsum", "CPU", CreateEinsum); }

}  // namespace mirrorflow
