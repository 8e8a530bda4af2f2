// SPDX-License-Identifier: Apache-2.0
//
// Diagonals of matrices: ops that build matrices from diagonals, read or set diagonals, or keep the
// band around the main diagonal.
#include "ops/matrix_diag.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/moves.h"

namespace mirrorflow {
namespace {

struct Matrices {
  int64_t batch, rows, columns;
};

Matrices MatricesOf(const Shape& shape) {
  const int rank = shape.rank();
  return {shape.num_elements_before(rank - 2), shape.dim(rank - 2), shape.dim(rank - 1)};
}

// The diagonals that the node reads or writes.
struct Band {
  DiagonalBand band;
  int64_t length;         // of the longest diagonal
  std::string diagonals;  // `Diagonals<…>` of move.cuh
};

// Reads the diagonals that operand `k` selects. Ops without such an operand use the main diagonal.
absl::StatusOr<Band> BandOf(const KernelContext& c, const Matrices& m, int k) {
  Band band;
  std::string align = "RIGHT_LEFT";
  if (c.node().has_attr("align")) {
    align = c.attr<std::string>("align");
    MF_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, c.integers(k));
    MF_ASSIGN_OR_RETURN(band.band, ReadBand(numbers));
  }
  band.length = band.band.MaxLength(m.rows, m.columns);
  band.diagonals = absl::StrCat("Diagonals<", m.rows, ", ", m.columns, ", ", band.band.lower, ", ",
                                band.band.upper, ", ", IsLeftAligned(align, 1) ? "true" : "false",
                                ", ", IsLeftAligned(align, -1) ? "true" : "false", ">");
  return band;
}

// Returns the expression for matrix element `i`: the element of operand `diagonal` if that operand
// holds it, otherwise `otherwise`.
absl::StatusOr<std::string> FromDiagonals(const KernelContext& c, int k, absl::string_view diagonal,
                                          absl::string_view otherwise) {
  const Matrices m = MatricesOf(c.output_shape(0));
  MF_ASSIGN_OR_RETURN(const Band band, BandOf(c, m, k));
  const std::vector<std::string> at = CoordinateTexts("i", {m.batch, m.rows, m.columns});
  const std::string coordinates = absl::StrCat("(", at[1], ", ", at[2], ")");
  return absl::StrCat(band.diagonals, "::Has", coordinates, " ? ", diagonal, "[", at[0], " * ",
                      band.diagonals, "::kSize + ", band.diagonals, "::At", coordinates,
                      "] : ", otherwise);
}

// Returns the expression for the scalar in input `input`, or for zero if the node has no such
// input.
std::string PaddingText(const KernelContext& c, int input) {
  return input < c.node().num_inputs() ? absl::StrCat("a", input, "[0]")
                                       : ZeroText(c.output_dtype(0));
}

absl::StatusOr<KernelPlan> CreateDiag(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const std::string element, FromDiagonals(c, 1, "a0", PaddingText(c, 4)));
  return MoveKernel(c, element);
}

absl::StatusOr<KernelPlan> CreateSet(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const std::string element, FromDiagonals(c, 2, "a1", "a0[i]"));
  return MoveKernel(c, element, {.in_place = {{0, 0}}});
}

absl::StatusOr<KernelPlan> CreatePart(const KernelContext& c) {
  const Matrices m = MatricesOf(c.input_shape(0));
  MF_ASSIGN_OR_RETURN(const Band band, BandOf(c, m, 1));
  const std::vector<std::string> at =
      CoordinateTexts("i", {m.batch, band.band.upper - band.band.lower + 1, band.length});
  const std::string index = absl::StrCat(band.diagonals, "::InMatrix(", at[1], ", ", at[2], ")");
  return MoveKernel(c, absl::StrCat(index, " >= 0 ? a0[static_cast<int64>", at[0], " * ",
                                    m.rows * m.columns, " + ", index, "] : ", PaddingText(c, 2)));
}

absl::StatusOr<KernelPlan> CreateBandPart(const KernelContext& c) {
  const Matrices m = MatricesOf(c.output_shape(0));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> lower, c.integers(1));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> upper, c.integers(2));
  const std::vector<std::string> at = CoordinateTexts("i", {m.batch, m.rows, m.columns});
  std::string inside = "true";
  if (lower[0] >= 0) {
    absl::StrAppend(&inside, " && static_cast<int64>", at[1], " - ", at[2], " <= ", lower[0]);
  }
  if (upper[0] >= 0) {
    absl::StrAppend(&inside, " && static_cast<int64>", at[2], " - ", at[1], " <= ", upper[0]);
  }
  return MoveKernel(c, absl::StrCat(inside, " ? a0[i] : ", ZeroText(c.output_dtype(0))),
                    {.in_place = {{0, 0}}});
}

}  // namespace

void RegisterMatrixDiagCuda(KernelRegistry& kernels) {
  kernels.Register("MatrixBandPart", kGpu, CreateBandPart);
  kernels.Register("MatrixDiag", kGpu, CreateDiag);
  kernels.Register("MatrixDiagPart", kGpu, CreatePart);
  kernels.Register("MatrixDiagPartV3", kGpu, CreatePart);
  kernels.Register("MatrixDiagV3", kGpu, CreateDiag);
  kernels.Register("MatrixSetDiag", kGpu, CreateSet);
  kernels.Register("MatrixSetDiagV3", kGpu, CreateSet);
}

}  // namespace mirrorflow
