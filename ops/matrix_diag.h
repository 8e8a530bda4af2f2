// SPDX-License-Identifier: Apache-2.0
//
// Ops that build matrices from diagonals, read and set diagonals, and extract bands. The last two
// dimensions of a tensor are a matrix; the leading dimensions are a batch of matrices.
//
// Diagonal 0 is the main diagonal; diagonal k is above it if k > 0 and below it if k < 0. Diagonals
// k[0] to k[1] are stored in a tensor [..., k[1]-k[0]+1, length of the longest], the uppermost
// first. `align` determines how shorter diagonals are padded: RIGHT_LEFT aligns those above the
// main diagonal to the right and those below it to the left. For a single diagonal, the tensor has
// no diagonal dimension.
#ifndef MIRRORFLOW_OPS_MATRIX_DIAG_H_
#define MIRRORFLOW_OPS_MATRIX_DIAG_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/graph/scope.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

// A range of diagonals, inclusive at both ends.
struct DiagonalBand {
  int64_t lower = 0;
  int64_t upper = 0;

  bool single() const { return lower == upper; }
  // Return the length of a matrix's diagonal k, and the row and column where it begins.
  static int64_t Length(int64_t k, int64_t rows, int64_t columns);
  static int64_t FirstRow(int64_t k) { return k < 0 ? -k : 0; }
  static int64_t FirstColumn(int64_t k) { return k > 0 ? k : 0; }
  // Returns the length of the longest diagonal.
  int64_t MaxLength(int64_t rows, int64_t columns) const;
};
// Reads a band from the elements of operand `k`. Returns InvalidArgument unless `k` has one
// element, or two in ascending order.
absl::StatusOr<DiagonalBand> ReadBand(absl::Span<const int64_t> k);
// Returns true if `align` aligns diagonal k to the left.
bool IsLeftAligned(absl::string_view align, int64_t k);

namespace ops {

struct MatrixDiagOptions {
  std::string align = "RIGHT_LEFT";  // or LEFT_RIGHT, LEFT_LEFT, RIGHT_RIGHT
};

// MatrixDiag: a square matrix with `diagonal` [...,N] as its main diagonal and zeros elsewhere.
// Gradient: MatrixDiagPart.
Output MatrixDiag(const Scope& scope, Output diagonal);
// MatrixDiagV3: a matrix with the given diagonals, and with `padding_value`, a scalar, elsewhere.
// Operands: k, num_rows and num_cols, int32, must be known when the step is compiled; a size of -1
//           means the smallest possible size.
Output MatrixDiagV3(const Scope& scope, Output diagonal, Output k, Output num_rows, Output num_cols,
                    Output padding_value, const MatrixDiagOptions& options = {});

// MatrixDiagPart: the main diagonal of each matrix.
Output MatrixDiagPart(const Scope& scope, Output input);
// MatrixDiagPartV3: the diagonals `k`, which must be known when the step is compiled; shorter
// diagonals are padded with `padding_value`.
Output MatrixDiagPartV3(const Scope& scope, Output input, Output k, Output padding_value,
                        const MatrixDiagOptions& options = {});

// MatrixSetDiag: the input with its main diagonal replaced by `diagonal`; V3 replaces the diagonals
// `k`, which must be known when the step is compiled.
// Errors:   InvalidArgument if the diagonals do not have the shape of those in the input.
Output MatrixSetDiag(const Scope& scope, Output input, Output diagonal);
Output MatrixSetDiagV3(const Scope& scope, Output input, Output diagonal, Output k,
                       const MatrixDiagOptions& options = {});

// MatrixBandPart: the input with zeros outside `num_lower` diagonals below the main one and
// `num_upper` above it; a negative count keeps all diagonals on that side. Both counts must be
// known when the step is compiled.
Output MatrixBandPart(const Scope& scope, Output input, Output num_lower, Output num_upper);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_MATRIX_DIAG_H_
