// SPDX-License-Identifier: Apache-2.0
//
// Concat, ConcatV2, ConcatOffset, Pack, Split, SplitV and Unpack: ops that join rows from pieces or
// cut rows into pieces.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/moves.h"

namespace mirrorflow {
namespace {

// The maximum number of pieces per launch. The work per element grows with the number of pieces.
constexpr size_t kPiecesOfStage = 8;

struct Piece {
  int operand;
  int64_t size;  // elements per row
};

// Generates statements that return text(operand, subscript) for the piece that contains column `c`,
// where `subscript` is the element's subscript in that piece. The pieces have `width` columns in
// total.
template <typename Text>
std::string ByPiece(absl::Span<const Piece> pieces, int64_t width, const Text& text) {
  std::string all;
  int64_t begin = 0;
  for (const Piece& piece : pieces) {
    const bool last = begin + piece.size == width;
    if (!last) absl::StrAppend(&all, "if (c < ", begin + piece.size, ") ");
    absl::StrAppend(&all, "return ",
                    text(piece.operand, absl::StrCat("[(i / ", width, ") * ", piece.size,
                                                     " + (c - ", begin, ")]")),
                    ";\n");
    begin += piece.size;
  }
  return all;
}

// Makes a kernel that copies between `rows` rows of operand `whole` and their consecutive pieces.
// It reads the pieces if `join` is true, and writes them otherwise.
absl::StatusOr<KernelPlan> MovePieces(const KernelContext& c, absl::string_view whole,
                                      DataType dtype, int64_t rows, std::vector<Piece> pieces,
                                      bool join) {
  MF_RETURN_IF_ERROR(CheckMovable(dtype));
  std::erase_if(pieces, [](const Piece& piece) { return piece.size == 0; });
  int64_t row = 0, begin = 0;
  for (const Piece& piece : pieces) row += piece.size;
  std::vector<CudaStage> stages;
  for (size_t k = 0; k < pieces.size(); k += kPiecesOfStage) {
    const auto some = absl::MakeConstSpan(pieces).subspan(k, kPiecesOfStage);
    int64_t width = 0;
    for (const Piece& piece : some) width += piece.size;
    const int64_t n = rows * width;
    const std::string column = absl::StrCat("const auto c = i % ", width, ";\n");
    const std::string element =
        absl::StrCat(whole, "[", OffsetText("i", {{rows, row}, {width, 1}}, begin), "]");
    std::string value, put;
    if (join) {
      value = absl::StrCat(column, ByPiece(some, width, [](int operand, const std::string& at) {
                             return absl::StrCat("a", operand, at);
                           }));
      put = absl::StrCat(element, " = v;\n");
    } else {
      value = absl::StrCat("return ", element, ";\n");
      put = absl::StrCat(column, ByPiece(some, width, [](int operand, const std::string& at) {
                           return absl::StrCat("void(z", operand, at, " = v)");
                         }));
    }
    stages.push_back({.body = absl::StrCat("Move<", n, ", ", CudaType(dtype), ">([&](auto i) {\n",
                                           value, "}, [&](auto i, auto v) {\n", put, "});"),
                      .grid = ElementwiseGrid(n)});
    begin += width;
  }
  return MakeCudaKernel(c, std::move(stages), {.includes = {"move.cuh"}});
}

absl::StatusOr<KernelPlan> JoinInputs(const KernelContext& c, int first, int n, int axis) {
  std::vector<Piece> pieces;
  for (int i = first; i < first + n; ++i) {
    pieces.push_back({i, c.input_shape(i).num_elements_from(axis)});
  }
  return MovePieces(c, "z0", c.output_dtype(0), c.output_shape(0).num_elements_before(axis),
                    std::move(pieces),
                    /*join=*/true);
}

absl::StatusOr<KernelPlan> CutIntoOutputs(const KernelContext& c, int value, int axis) {
  std::vector<Piece> pieces;
  for (int i = 0; i < c.node().num_outputs(); ++i) {
    pieces.push_back({i, c.output_shape(i).num_elements_from(axis)});
  }
  return MovePieces(c, absl::StrCat("a", value), c.input_dtype(value),
                    c.input_shape(value).num_elements_before(axis), std::move(pieces),
                    /*join=*/false);
}

// Creates the kernel of Concat, whose first input is the axis, or of ConcatV2, whose last input is
// the axis.
template <bool kAxisFirst>
absl::StatusOr<KernelPlan> CreateConcat(const KernelContext& c) {
  const int n = c.node().num_inputs() - 1;
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(kAxisFirst ? 0 : n, c.output_shape(0).rank()));
  return JoinInputs(c, kAxisFirst ? 1 : 0, n, axis);
}

absl::StatusOr<KernelPlan> CreatePack(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const int axis,
                      NormalizeAxis(c.attr<int64_t>("axis"), c.output_shape(0).rank()));
  return JoinInputs(c, 0, c.node().num_inputs(), axis);
}

template <int kValue, int kAxis>
absl::StatusOr<KernelPlan> CreateSplit(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(kAxis, c.input_shape(kValue).rank(), "split_dim"));
  return CutIntoOutputs(c, kValue, axis);
}

absl::StatusOr<KernelPlan> CreateUnpack(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const int axis,
                      NormalizeAxis(c.attr<int64_t>("axis"), c.input_shape(0).rank()));
  return CutIntoOutputs(c, 0, axis);
}

absl::StatusOr<KernelPlan> CreateConcatOffset(const KernelContext& c) {
  const int64_t rank = c.output_shape(0).dim(0);
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(0, static_cast<int>(rank), "concat_dim"));
  std::string body = absl::StrCat("ForEach<", rank, ">([&](auto i) {\n  int64 begin = 0;\n");
  for (int k = 0; k < c.node().num_outputs(); ++k) {
    const std::string shape = absl::StrCat("a", k + 1);
    absl::StrAppend(&body, "  z", k, "[i] = i == ", axis, " ? begin : 0;\n  begin += ", shape, "[",
                    axis, "];\n  if (i != ", axis, " && ", shape, "[i] != a1[i]) fail(", shape,
                    "[i]);\n");
  }
  return MakeCudaKernel(c, {{.body = absl::StrCat(body, "});"), .grid = ElementwiseGrid(rank)}},
                        {.error = absl::StrCat("shapes differ in a dimension other than ", axis,
                                               "; expected the first input's sizes, got")});
}

}  // namespace

void RegisterConcatCuda(KernelRegistry& kernels) {
  kernels.Register("Concat", kGpu, CreateConcat</*kAxisFirst=*/true>);
  kernels.Register("ConcatOffset", kGpu, CreateConcatOffset);
  kernels.Register("ConcatV2", kGpu, CreateConcat</*kAxisFirst=*/false>);
  kernels.Register("Pack", kGpu, CreatePack);
  kernels.Register("Split", kGpu, CreateSplit</*kValue=*/1, /*kAxis=*/0>);
  kernels.Register("SplitV", kGpu, CreateSplit</*kValue=*/0, /*kAxis=*/2>);
  kernels.Register("Unpack", kGpu, CreateUnpack);
}

}  // namespace mirrorflow
