// SPDX-License-Identifier: Apache-2.0
//
// Diagonals of matrices: made into a matrix, read, set; and the band around them. The last two
// dimensions are the matrix, those before count matrices.
//
// Diagonal k of a matrix is the main one for 0, above it for k > 0, below it for k < 0. Several of
// them, from k[0] to k[1], lie in a tensor [..., k[1]-k[0]+1, length of the longest], the uppermost
// first; shorter ones have padding, as `align` says: RIGHT_LEFT puts those above the main one to
// the right and those below it to the left. A single one has no dimension for the number.
#ifndef MIRRORFLOW_OPS_MATRIX_DIAG_H_
#define MIRRORFLOW_OPS_MATRIX_DIAG_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "framework/graph/scope.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {

void RegisterMatrixDiag(OpRegistry& ops);

// Which diagonals.
struct DiagonalBand {
  int64_t lower = 0;
  int64_t upper = 0;

  bool single() const { return lower == upper; }
  // How many elements diagonal k of a matrix has, and where in the matrix it begins.
  static int64_t Length(int64_t k, int64_t rows, int64_t columns);
  static int64_t FirstRow(int64_t k) { return k < 0 ? -k : 0; }
  static int64_t FirstColumn(int64_t k) { return k > 0 ? k : 0; }
  // That of the longest.
  int64_t MaxLength(int64_t rows, int64_t columns) const;
};
// From the elements of operand `k`; InvalidArgument if they are not one or two in order.
absl::StatusOr<DiagonalBand> ReadBand(absl::Span<const int64_t> k);
// Whether `align` puts diagonal k to the left.
bool IsLeftAligned(absl::string_view align, int64_t k);

namespace ops {

struct MatrixDiagOptions {
  std::string align = "RIGHT_LEFT";  // or LEFT_RIGHT, LEFT_LEFT, RIGHT_RIGHT
};

// MatrixDiag: a square matrix with `diagonal` [...,N] as its main one, zeros elsewhere.
// Gradient: MatrixDiagPart.
Output MatrixDiag(const Scope& scope, Output diagonal);
// MatrixDiagV3: a matrix with these diagonals and `padding_value`, a scalar, elsewhere.
// Operands: k, num_rows and num_cols are constants when a plan is made; a size of -1 is the
//           smallest that fits.
Output MatrixDiagV3(const Scope& scope, Output diagonal, Output k, Output num_rows, Output num_cols,
                    Output padding_value, const MatrixDiagOptions& options = {});

// MatrixDiagPart: the main diagonals.
Output MatrixDiagPart(const Scope& scope, Output input);
// MatrixDiagPartV3: diagonals k, shorter ones padded with `padding_value`.
Output MatrixDiagPartV3(const Scope& scope, Output input, Output k, Output padding_value,
                        const MatrixDiagOptions& options = {});

// MatrixSetDiag: the input with another main diagonal; V3 with other diagonals k.
Output MatrixSetDiag(const Scope& scope, Output input, Output diagonal);
Output MatrixSetDiagV3(const Scope& scope, Output input, Output diagonal, Output k,
                       const MatrixDiagOptions& options = {});

// MatrixBandPart: the input, zero outside `num_lower` diagonals below the main one and `num_upper`
// above it; a negative number keeps them all. Both are constants when a plan is made.
Output MatrixBandPart(const Scope& scope, Output input, Output num_lower, Output num_upper);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_MATRIX_DIAG_H_
