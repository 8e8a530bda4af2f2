// SPDX-License-Identifier: Apache-2.0
#include "ops/matrix_diag.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/shape_values.h"
#include "ops/sharding_rules.h"
#include "ops/unary.h"

namespace mirrorflow {

int64_t DiagonalBand::Length(int64_t k, int64_t rows, int64_t columns) {
  return std::max<int64_t>(0, std::min(rows - FirstRow(k), columns - FirstColumn(k)));
}

int64_t DiagonalBand::MaxLength(int64_t rows, int64_t columns) const {
  return std::max<int64_t>(
      0, std::min(rows + std::min<int64_t>(upper, 0), columns - std::max<int64_t>(lower, 0)));
}

absl::StatusOr<DiagonalBand> ReadBand(absl::Span<const int64_t> k) {
  if ((k.size() == 1 || k.size() == 2) && k.front() <= k.back())
    return DiagonalBand{k[0], k.back()};
  return absl::InvalidArgumentError(
      absl::StrCat("k must be one integer, or a lower and an upper bound in ascending order; got [",
                   absl::StrJoin(k, ", "), "]"));
}

bool IsLeftAligned(absl::string_view align, int64_t k) {
  return (k >= 0 && absl::StartsWith(align, "LEFT")) || (k <= 0 && absl::EndsWith(align, "LEFT"));
}

namespace {

// Returns the band in operand i: the main diagonal if the operand does not exist, or nullopt if the
// operand is not yet known.
absl::StatusOr<std::optional<DiagonalBand>> BandInput(const ShapeContext& c, int i) {
  if (i >= c.num_inputs()) return std::optional<DiagonalBand>(DiagonalBand());
  if (c.input(i).unknown_rank()) return std::optional<DiagonalBand>();
  if (c.input(i).rank() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("k must be a scalar or a vector, got ", c.input(i).ToString()));
  }
  const Tensor* known = c.constant(i);
  if (known == nullptr) return std::optional<DiagonalBand>();
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> k, IntegersOf(*known));
  MF_ASSIGN_OR_RETURN(const DiagonalBand band, ReadBand(k));
  return std::optional<DiagonalBand>(band);
}

// Checks that every diagonal is inside the matrix. The main diagonal always is.
absl::Status CheckBand(const DiagonalBand& band, int64_t rows, int64_t columns) {
  for (const int64_t k : {band.lower, band.upper}) {
    const bool above = rows == kUnknownDim || k > -rows;
    const bool below = columns == kUnknownDim || k < columns;
    if (k == 0 || (above && below)) continue;
    return absl::InvalidArgumentError(absl::StrCat("diagonal ", k, " is outside the matrix of ",
                                                   rows, " rows and ", columns, " columns"));
  }
  return absl::OkStatus();
}

Shape BatchOf(const Shape& shape, int matrix_dims) {
  return Shape(shape.dims().subspan(0, shape.rank() - matrix_dims));
}

// Returns the number of rows (operand 2) or columns (operand 3), or -1 for the smallest possible
// number. Sets `chosen` to false if the operand is not yet known.
absl::StatusOr<int64_t> SizeOf(const ShapeContext& c, int i, int64_t smallest, bool* chosen) {
  *chosen = true;
  if (i >= c.num_inputs()) return -1;
  MF_ASSIGN_OR_RETURN(const std::optional<int64_t> size, IntegerInput(c, i));
  *chosen = size.has_value();
  if (size.value_or(-1) == -1 || *size >= smallest) return size.value_or(-1);
  return absl::InvalidArgumentError(absl::StrCat("the diagonals require at least ", smallest,
                                                 i == 2 ? " rows" : " columns", ", got ", *size));
}

absl::Status DiagShape(ShapeContext& c) {  // for MatrixDiag and MatrixDiagV3
  if (c.num_inputs() > 4) MF_RETURN_IF_ERROR(c.WithRank(4, 0).status());
  MF_ASSIGN_OR_RETURN(const std::optional<DiagonalBand> band, BandInput(c, 1));
  if (!band.has_value()) return absl::OkStatus();
  const int diagonal_dims = band->single() ? 1 : 2;
  MF_ASSIGN_OR_RETURN(const Shape diagonal, c.WithRankAtLeast(0, diagonal_dims));
  if (diagonal.unknown_rank()) return absl::OkStatus();
  Shape output = BatchOf(diagonal, diagonal_dims);
  const int64_t number = diagonal.dim(output.rank()), length = diagonal.dim(diagonal.rank() - 1);
  if (!band->single() && number != kUnknownDim && number != band->upper - band->lower + 1) {
    return absl::InvalidArgumentError(absl::StrCat("diagonal must hold ",
                                                   band->upper - band->lower + 1,
                                                   " diagonals, got ", diagonal.ToString()));
  }
  int64_t rows = kUnknownDim, columns = kUnknownDim;
  if (length != kUnknownDim) {
    const int64_t min_rows = length - std::min<int64_t>(band->upper, 0);
    const int64_t min_columns = length + std::max<int64_t>(band->lower, 0);
    bool rows_chosen, columns_chosen;
    MF_ASSIGN_OR_RETURN(rows, SizeOf(c, 2, min_rows, &rows_chosen));
    MF_ASSIGN_OR_RETURN(columns, SizeOf(c, 3, min_columns, &columns_chosen));
    if (rows_chosen && columns_chosen) {
      if (rows == -1 && columns == -1) {
        rows = columns = std::max(min_rows, min_columns);
      } else if (rows == -1) {
        rows = min_rows;
      } else if (columns == -1) {
        columns = min_columns;
      }
      if (rows != min_rows && columns != min_columns) {
        return absl::InvalidArgumentError(absl::StrCat(
            "diagonals of length ", length, " do not fill a matrix of ", rows, " rows and ",
            columns, " columns; expected ", min_rows, " or ", min_columns));
      }
      MF_RETURN_IF_ERROR(CheckBand(*band, rows, columns));
    } else {
      rows = columns = kUnknownDim;
    }
  }
  output.AddDim(rows);
  output.AddDim(columns);
  return SetOutput(c, output);
}

// Returns the shape of the tensor that holds a matrix's diagonals.
absl::StatusOr<Shape> PartShapeOf(const Shape& input, const DiagonalBand& band) {
  const int64_t rows = input.dim(input.rank() - 2), columns = input.dim(input.rank() - 1);
  MF_RETURN_IF_ERROR(CheckBand(band, rows, columns));
  Shape output = BatchOf(input, 2);
  if (!band.single()) output.AddDim(band.upper - band.lower + 1);
  const bool known = rows != kUnknownDim && columns != kUnknownDim;
  output.AddDim(known ? band.MaxLength(rows, columns) : kUnknownDim);
  return output;
}

absl::Status PartShape(ShapeContext& c) {  // for MatrixDiagPart and MatrixDiagPartV3
  if (c.num_inputs() > 2) MF_RETURN_IF_ERROR(c.WithRank(2, 0).status());
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRankAtLeast(0, 2));
  MF_ASSIGN_OR_RETURN(const std::optional<DiagonalBand> band, BandInput(c, 1));
  if (input.unknown_rank() || !band.has_value()) return absl::OkStatus();
  return SetOutput(c, PartShapeOf(input, *band));
}

absl::Status SetShape(ShapeContext& c) {  // for MatrixSetDiag and MatrixSetDiagV3
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRankAtLeast(0, 2));
  MF_ASSIGN_OR_RETURN(const std::optional<DiagonalBand> band, BandInput(c, 2));
  c.set_output(0, input);
  if (input.unknown_rank() || !band.has_value()) return absl::OkStatus();
  MF_ASSIGN_OR_RETURN(const Shape expected, PartShapeOf(input, *band));
  return CheckShape(expected, c.input(1), "the diagonal does not fit the input ", input.ToString());
}

absl::Status BandPartShape(ShapeContext& c) {
  MF_ASSIGN_OR_RETURN(const Shape input, c.WithRankAtLeast(0, 2));
  c.set_output(0, input);
  for (int i = 1; i <= 2; ++i) {
    MF_RETURN_IF_ERROR(c.WithRank(i, 0).status());
    MF_ASSIGN_OR_RETURN(const std::optional<int64_t> number, IntegerInput(c, i));
    if (input.unknown_rank() || !number.has_value()) continue;
    const int64_t size = input.dim(input.rank() - 3 + i);
    if (size == kUnknownDim || *number <= size) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(c.node().op().inputs[i].name, " must be negative or at most ", size,
                     " for an input ", input.ToString(), ", got ", *number));
  }
  return absl::OkStatus();
}

// Returns letters for the first `batch` dimensions of `shape`, which are the batch of matrices, and
// dots for the remaining dimensions.
std::string BatchTerm(const Shape& shape, int batch) {
  return LettersFor(shape).substr(0, batch) + std::string(shape.rank() - batch, '.');
}

// The rule for all of these ops: only batch dimensions can be sharded.
absl::StatusOr<ShardingRule> BatchSharding(const ShardContext& c, int batch,
                                           std::vector<int> moved) {
  std::vector<std::string> terms;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const bool is_batch = c.input(i).rank() >= batch && !c.node().is_static_input(i);
    terms.push_back(is_batch ? BatchTerm(c.input(i), batch) : DotsFor(c.input(i)));
  }
  return MoveSharding(c,
                      absl::StrCat(absl::StrJoin(terms, ","), "->", BatchTerm(c.output(0), batch)),
                      std::move(moved));
}

absl::StatusOr<ShardingRule> DiagSharding(const ShardContext& c) {
  std::vector<int> moved = {0};
  if (c.num_inputs() > 4) moved.push_back(4);
  return BatchSharding(c, c.output(0).rank() - 2, std::move(moved));
}
absl::StatusOr<ShardingRule> PartSharding(const ShardContext& c) {
  std::vector<int> moved = {0};
  if (c.num_inputs() > 2) moved.push_back(2);
  return BatchSharding(c, c.input(0).rank() - 2, std::move(moved));
}
absl::StatusOr<ShardingRule> SetSharding(const ShardContext& c) {
  return BatchSharding(c, c.input(0).rank() - 2, {0, 1});
}
absl::StatusOr<ShardingRule> BandPartSharding(const ShardContext& c) {
  return BatchSharding(c, c.input(0).rank() - 2, {0});
}

// --- gradients -------------------------------------------------------------------------------

Output Zero(const GradContext& c) { return ops::ScalarConst(c.scope, c.dy[0].dtype(), 0); }

ops::MatrixDiagOptions Options(const GradContext& c) {
  return {.align = c.op.attr<std::string>("align")};
}

absl::StatusOr<std::vector<Output>> DiagGrad(const GradContext& c) {
  return std::vector<Output>{ops::MatrixDiagPart(c.scope, c.dy[0])};
}

absl::StatusOr<std::vector<Output>> DiagV3Grad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output diagonal = c.op.input(0), k = c.op.input(1), dy = c.dy[0];
  const Output padding =
      ops::Sum(s, ops::MatrixSetDiagV3(s, dy, ops::ZerosLike(s, diagonal), k, Options(c)));
  return std::vector<Output>{ops::MatrixDiagPartV3(s, dy, k, Zero(c), Options(c)), Output(),
                             Output(), Output(), padding};
}

absl::StatusOr<std::vector<Output>> PartGrad(const GradContext& c) {
  const Output zeros = ops::ZerosLike(c.scope, c.op.input(0));
  return std::vector<Output>{ops::MatrixSetDiag(c.scope, zeros, c.dy[0])};
}

// The elements of dy outside the matrix contribute to the gradient of the padding value.
absl::StatusOr<std::vector<Output>> PartV3Grad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output k = c.op.input(1), dy = c.dy[0];
  const Output zeros = ops::ZerosLike(s, c.op.input(0));
  const Output dx = ops::MatrixSetDiagV3(s, zeros, dy, k, Options(c));
  const Output inside = ops::MatrixDiagPartV3(s, dx, k, Zero(c), Options(c));
  return std::vector<Output>{dx, Output(), ops::Sum(s, ops::Sub(s, dy, inside))};
}

absl::StatusOr<std::vector<Output>> SetGrad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output zeros = ops::ZerosLike(s, c.op.input(1));
  return std::vector<Output>{ops::MatrixSetDiag(s, c.dy[0], zeros),
                             ops::MatrixDiagPart(s, c.dy[0])};
}

absl::StatusOr<std::vector<Output>> SetV3Grad(const GradContext& c) {
  const Scope& s = c.scope;
  const Output k = c.op.input(2), zeros = ops::ZerosLike(s, c.op.input(1));
  return std::vector<Output>{ops::MatrixSetDiagV3(s, c.dy[0], zeros, k, Options(c)),
                             ops::MatrixDiagPartV3(s, c.dy[0], k, Zero(c), Options(c)), Output()};
}

absl::StatusOr<std::vector<Output>> BandPartGrad(const GradContext& c) {
  return std::vector<Output>{ops::MatrixBandPart(c.scope, c.dy[0], c.op.input(1), c.op.input(2)),
                             Output(), Output()};
}

constexpr char kAlign[] =
    "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'";

}  // namespace

void RegisterMatrixDiag(OpRegistry& ops) {
  ops.Define("MatrixDiag")
      .Doc("square matrices with these main diagonals and zeros elsewhere")
      .Input("diagonal: T")
      .Output("output: T")
      .Attr("T: type")
      .Shape(DiagShape)
      .Sharding(DiagSharding)
      .Gradient(DiagGrad);
  ops.Define("MatrixDiagV3")
      .Doc("matrices with these diagonals and padding_value elsewhere")
      .Input("diagonal: T")
      .StaticInput("k: int32")
      .StaticInput("num_rows: int32")
      .StaticInput("num_cols: int32")
      .Input("padding_value: T")
      .Output("output: T")
      .Attr("T: type")
      .Attr(kAlign)
      .Shape(DiagShape)
      .Sharding(DiagSharding)
      .Gradient(DiagV3Grad);
  ops.Define("MatrixDiagPart")
      .Doc("the main diagonals of matrices")
      .Input("input: T")
      .Output("diagonal: T")
      .Attr("T: type")
      .Shape(PartShape)
      .Sharding(PartSharding)
      .Gradient(PartGrad);
  ops.Define("MatrixDiagPartV3")
      .Doc("diagonals k of matrices; shorter diagonals are padded with padding_value")
      .Input("input: T")
      .StaticInput("k: int32")
      .Input("padding_value: T")
      .Output("diagonal: T")
      .Attr("T: type")
      .Attr(kAlign)
      .Shape(PartShape)
      .Sharding(PartSharding)
      .Gradient(PartV3Grad);
  ops.Define("MatrixSetDiag")
      .Doc("the input with its main diagonal replaced")
      .Input("input: T")
      .Input("diagonal: T")
      .Output("output: T")
      .Attr("T: type")
      .Shape(SetShape)
      .Sharding(SetSharding)
      .Gradient(SetGrad);
  ops.Define("MatrixSetDiagV3")
      .Doc("the input with diagonals k replaced")
      .Input("input: T")
      .Input("diagonal: T")
      .StaticInput("k: int32")
      .Output("output: T")
      .Attr("T: type")
      .Attr(kAlign)
      .Shape(SetShape)
      .Sharding(SetSharding)
      .Gradient(SetV3Grad);
  ops.Define("MatrixBandPart")
      .Doc("the input with zeros outside a band around the main diagonal")
      .Input("input: T")
      .StaticInput("num_lower: Tindex")
      .StaticInput("num_upper: Tindex")
      .Output("band: T")
      .Attr("T: type")
      .Attr("Tindex: {int32, int64} = int64")
      .Shape(BandPartShape)
      .Sharding(BandPartSharding)
      .Gradient(BandPartGrad);
}

namespace ops {

Output MatrixDiag(const Scope& scope, Output diagonal) {
  return Apply(scope, "MatrixDiag", {diagonal});
}

Output MatrixDiagV3(const Scope& scope, Output diagonal, Output k, Output num_rows, Output num_cols,
                    Output padding_value, const MatrixDiagOptions& options) {
  return Build(scope, "MatrixDiagV3", {diagonal, k, num_rows, num_cols, padding_value})
      .Attr("align", options.align)
      .One();
}

Output MatrixDiagPart(const Scope& scope, Output input) {
  return Apply(scope, "MatrixDiagPart", {input});
}

Output MatrixDiagPartV3(const Scope& scope, Output input, Output k, Output padding_value,
                        const MatrixDiagOptions& options) {
  return Build(scope, "MatrixDiagPartV3", {input, k, padding_value})
      .Attr("align", options.align)
      .One();
}

Output MatrixSetDiag(const Scope& scope, Output input, Output diagonal) {
  return Apply(scope, "MatrixSetDiag", {input, diagonal});
}

Output MatrixSetDiagV3(const Scope& scope, Output input, Output diagonal, Output k,
                       const MatrixDiagOptions& options) {
  return Build(scope, "MatrixSetDiagV3", {input, diagonal, k}).Attr("align", options.align).One();
}

Output MatrixBandPart(const Scope& scope, Output input, Output num_lower, Output num_upper) {
  return Apply(scope, "MatrixBandPart", {input, num_lower, num_upper});
}

}  // namespace ops
}  // namespace mirrorflow
