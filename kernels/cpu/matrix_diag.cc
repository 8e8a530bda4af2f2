// SPDX-License-Identifier: Apache-2.0
//
// Diagonals of matrices on the CPU. The elements of a diagonal are one row and one column apart.
#include "ops/matrix_diag.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/status.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

// Describes a batch of matrices, and the layout of the separate tensor that holds the diagonals in
// `band`.
struct Diagonals {
  int64_t batch, rows, columns;
  DiagonalBand band;
  int64_t max_length;
  std::string align = "RIGHT_LEFT";

  int64_t matrix_size() const { return rows * columns; }
  int64_t diagonals_size() const { return (band.upper - band.lower + 1) * max_length; }
  // Returns whether some diagonal is shorter than the longest and has padding.
  bool padded() const {
    for (int64_t k = band.lower; k <= band.upper; ++k) {
      if (DiagonalBand::Length(k, rows, columns) < max_length) return true;
    }
    return false;
  }
};

// Reads the diagonals that input `k` selects. Ops without such an input use the main diagonal.
absl::StatusOr<Diagonals> DiagonalsOf(const KernelContext& c, const Shape& matrix, int k) {
  Diagonals d = {.batch = matrix.num_elements_before(matrix.rank() - 2),
                 .rows = matrix.dim(matrix.rank() - 2),
                 .columns = matrix.dim(matrix.rank() - 1)};
  if (c.node().has_attr("align")) {
    d.align = c.attr<std::string>("align");
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, c.integers(k));
    MF_ASSIGN_OR_RETURN(d.band, ReadBand(numbers));
  }
  d.max_length = d.band.MaxLength(d.rows, d.columns);
  return d;
}

// Returns one move per diagonal, from input `input`. The moves write a matrix if `into_matrix` is
// true, and otherwise read one.
std::vector<Move> Moves(const Diagonals& d, DataType dtype, int input, bool into_matrix) {
  std::vector<Move> moves;
  for (int64_t k = d.band.lower; k <= d.band.upper; ++k) {
    const int64_t length = DiagonalBand::Length(k, d.rows, d.columns);
    const int64_t gap = IsLeftAligned(d.align, k) ? 0 : d.max_length - length;
    const int64_t in_diagonals = (d.band.upper - k) * d.max_length + gap;
    const int64_t in_matrix = DiagonalBand::FirstRow(k) * d.columns + DiagonalBand::FirstColumn(k);
    if (into_matrix) {
      const StridedCopy copy(
          dtype, {{d.batch, d.diagonals_size(), d.matrix_size()}, {length, 1, d.columns + 1}},
          in_diagonals, in_matrix);
      moves.push_back({input, 0, copy});
    } else {
      const StridedCopy copy(
          dtype, {{d.batch, d.matrix_size(), d.diagonals_size()}, {length, d.columns + 1, 1}},
          in_matrix, in_diagonals);
      moves.push_back({input, 0, copy});
    }
  }
  return moves;
}

// If `fill` is true, first sets all of output 0 to the scalar in input `input`, or to zeros if that
// input does not exist. Then performs the moves.
absl::StatusOr<KernelPlan> FillAndMove(const KernelContext& c, int input, bool fill,
                                       std::vector<Move> moves) {
  const DataType dtype = c.output_dtype(0);
  const Shape& out = c.output_shape(0);
  if (!fill) return CopyKernel(dtype, std::move(moves));
  if (input >= c.node().num_inputs()) {
    return CopyKernel(dtype, std::move(moves), BytesOf(dtype, out));
  }
  moves.insert(moves.begin(), {input, 0, StridedCopy(dtype, {{out.num_elements(), 0, 1}})});
  return CopyKernel(dtype, std::move(moves));
}

absl::StatusOr<KernelPlan> CreateDiag(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Diagonals d, DiagonalsOf(c, c.output_shape(0), 1));
  return FillAndMove(c, 4, true, Moves(d, c.output_dtype(0), 0, /*into_matrix=*/true));
}

absl::StatusOr<KernelPlan> CreatePart(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Diagonals d, DiagonalsOf(c, c.input_shape(0), 1));
  return FillAndMove(c, 2, d.padded(), Moves(d, c.output_dtype(0), 0, /*into_matrix=*/false));
}

absl::StatusOr<KernelPlan> CreateSet(const KernelContext& c) {
  const DataType dtype = c.output_dtype(0);
  MF_ASSIGN_OR_RETURN(const Diagonals d, DiagonalsOf(c, c.output_shape(0), 2));
  std::vector<Move> moves = Moves(d, dtype, 1, /*into_matrix=*/true);
  const StridedCopy all(dtype, {{c.output_shape(0).num_elements(), 1, 1}});
  moves.insert(moves.begin(), {0, 0, all});
  return CopyKernel(dtype, std::move(moves));
}

absl::StatusOr<KernelPlan> CreateBandPart(const KernelContext& c) {
  const DataType dtype = c.output_dtype(0);
  const Shape& shape = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> lower, c.integers(1));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> upper, c.integers(2));
  const int64_t batch = shape.num_elements_before(shape.rank() - 2);
  const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
  std::vector<Move> moves;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t first = lower[0] < 0 ? 0 : std::max<int64_t>(0, r - lower[0]);
    const int64_t last = upper[0] < 0 ? columns : std::min(columns, r + upper[0] + 1);
    if (first >= last) continue;
    const int64_t from = r * columns + first, size = rows * columns;
    moves.push_back(
        {0, 0, StridedCopy(dtype, {{batch, size, size}, {last - first, 1, 1}}, from, from)});
  }
  return CopyKernel(dtype, std::move(moves), BytesOf(dtype, shape));
}

}  // namespace

void RegisterMatrixDiagCpu(KernelRegistry& kernels) {
  kernels.Register("MatrixDiag", "CPU", CreateDiag);
  kernels.Register("MatrixDiagV3", "CPU", CreateDiag);
  kernels.Register("MatrixDiagPart", "CPU", CreatePart);
  kernels.Register("MatrixDiagPartV3", "CPU", CreatePart);
  kernels.Register("MatrixSetDiag", "CPU", CreateSet);
  kernels.Register("MatrixSetDiagV3", "CPU", CreateSet);
  kernels.Register("MatrixBandPart", "CPU", CreateBandPart);
}

}  // namespace mirrorflow
