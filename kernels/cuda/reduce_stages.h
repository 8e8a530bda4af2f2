// SPDX-License-Identifier: Apache-2.0
//
// The stages that run Reduce of code/reduce.cuh for a given shape.
#ifndef MIRRORFLOW_KERNELS_CUDA_REDUCE_STAGES_H_
#define MIRRORFLOW_KERNELS_CUDA_REDUCE_STAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/core/dtype.h"
#include "framework/core/shape.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/libraries/code_text.h"

namespace mirrorflow {

// The dimensions of a reduction, outermost first. `kept` indexes the results, and `reduced` the
// elements of one result.
struct ReducedDims {
  std::vector<IndexDim> kept, reduced;

  int64_t results() const;
  int64_t count() const;  // elements per result
};
ReducedDims ReduceDims(const Shape& in, const std::vector<bool>& is_reduced);
// Returns the dimensions for a reduction of images to their channels.
ReducedDims ReduceToChannels(const Shape& images, int channel_dim);

// The threads of a block: `along` threads share a result or a row, and `across` results or rows
// share a block. With along_first, neighbouring threads work on the same result.
struct TeamShape {
  int along;
  int across;
  bool along_first;

  std::string ToString() const;  // as template arguments
  unsigned int threads() const { return static_cast<unsigned int>(along * across); }
  unsigned int BlocksFor(int64_t results) const;
};
// Returns the team for `results` results of `count` elements each. `kept_run` is the number of
// results that are adjacent in memory, or 0 if the elements of one result are adjacent.
TeamShape ChooseTeam(int64_t results, int64_t count, int64_t kept_run);

// Returns the team for rows whose threads read the whole row.
TeamShape TeamForRows(int64_t rows, int64_t columns);

// The division of elements into `parts` parts of `chunk` elements each (the last may be shorter),
// which creates enough blocks to fill a GPU.
struct Parts {
  int64_t parts;
  int64_t chunk;
};
Parts ChooseParts(const TeamShape& team, int64_t results, int64_t count);

// The code of a reduction.
struct ReduceCode {
  std::string op;     // an operation of code/reduce.cuh, such as `Sum<float>`
  int64_t op_bytes;   // size of its Type
  std::string value;  // value of element `i`, the k-th of result `o`, such as `Load(a0[i])`
  // Statements that one thread runs for each `o` and its `result`.
  std::string finish;
};

// Returns the stages of a reduction; the kernel must include "reduce.cuh". If a reduction has few
// results, the first stage writes partial results to scratch memory, starting at offset
// `*scratch_bytes`, and `*scratch_bytes` grows accordingly.
std::vector<CudaStage> ReductionStages(const ReducedDims& dims, const ReduceCode& code,
                                       int64_t* scratch_bytes);

// Returns only the first of two stages: it sets partials[part * results + o] to result o over the
// elements of that part. `partials` is the expression of a pointer to the operation's Type.
CudaStage PartialStage(const ReducedDims& dims, const ReduceCode& code, const TeamShape& team,
                       const Parts& parts, absl::string_view partials);
// Returns only the second stage, which combines the results of `parts` parts.
CudaStage LastStage(int64_t results, int64_t parts, const ReduceCode& code, const TeamShape& team,
                    absl::string_view partials);
// Returns the expression of a pointer to the operation's Type, at byte `offset` of the scratch
// memory.
std::string PartialsText(const ReduceCode& code, int64_t offset);

// Returns the dtype that is used to compute sums and products of elements of `dtype`. For integers
// it is unsigned, so that results wrap around, and has at least 32 bits, as shuffles require.
DataType SumType(DataType dtype);

int64_t PowerOfTwoFor(int64_t n);  // the smallest power of two that is at least n

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_REDUCE_STAGES_H_
