// SPDX-License-Identifier: Apache-2.0
//
// How kernels reduce: the stages that run Reduce of code/reduce.cuh on the shape at hand.
#ifndef MIRRORFLOW_KERNELS_CUDA_REDUCE_H_
#define MIRRORFLOW_KERNELS_CUDA_REDUCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/core/dtype.h"
#include "framework/core/shape.h"
#include "kernels/cuda/code_text.h"
#include "kernels/cuda/cuda_kernel.h"

namespace mirrorflow {

// The dimensions of what is reduced, the outermost first: those that results count through, and
// those that the elements of one result do.
struct ReducedDims {
  std::vector<IndexDim> kept, reduced;

  int64_t results() const;
  int64_t count() const;  // elements of a result
};
ReducedDims ReduceDims(const Shape& in, const std::vector<bool>& is_reduced);
// Of images, to their channels.
ReducedDims ReduceToChannels(const Shape& images, int channel_dim);

// How many threads share what lies along a result or a row, and how many of those a block has.
struct TeamShape {
  int along;
  int across;
  bool along_first;

  std::string ToString() const;  // as template arguments
  unsigned int threads() const { return static_cast<unsigned int>(along * across); }
  unsigned int BlocksFor(int64_t results) const;
};
// For `results` of `count` elements each. `kept_run`: so many results lie next to each other; 0 if
// the elements of a result do.
TeamShape ChooseTeam(int64_t results, int64_t count, int64_t kept_run);

// For rows that their threads read as a whole.
TeamShape TeamForRows(int64_t rows, int64_t columns);

// Elements cut into `parts` of `chunk` each, but for the last, so that they fill a GPU.
struct Parts {
  int64_t parts;
  int64_t chunk;
};
Parts ChooseParts(const TeamShape& team, int64_t results, int64_t count);

// What becomes of the elements.
struct ReduceCode {
  std::string op;     // of code/reduce.cuh: `Sum<float>`
  int64_t op_bytes;   // of its Type
  std::string value;  // of element `i`, the k-th of result `o`: `Load(a0[i])`
  // Statements for each `o` and its `result`; one thread runs them.
  std::string finish;
};

// The stages of a reduction of the kernel; they need "reduce.cuh". Where there are few results, the
// first one leaves partial ones in scratch, behind `*scratch_bytes`, which grows.
std::vector<CudaStage> ReductionStages(const ReducedDims& dims, const ReduceCode& code,
                                       int64_t* scratch_bytes);

// The first of two stages alone: partials[part * results + o] = result o of the elements of a part.
// `partials` is an expression, a pointer to the operation's Type.
CudaStage PartialStage(const ReducedDims& dims, const ReduceCode& code, const TeamShape& team,
                       const Parts& parts, absl::string_view partials);
// Such a pointer, into scratch from byte `offset` on.
std::string PartialsText(const ReduceCode& code, int64_t offset);

// What sums and products of such elements are taken in. Of integers without a sign: they wrap
// around, and shuffles take nothing smaller.
DataType SumType(DataType dtype);

int64_t PowerOfTwoFor(int64_t n);  // the smallest that is at least n

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_REDUCE_H_
