// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mirrorflow {
namespace {

using Dim = StridedCopy::Dim;

// Elements are copied as unsigned integers of the same size, regardless of their dtype.
using Bits8 [[gnu::may_alias]] = uint8_t;
using Bits16 [[gnu::may_alias]] = uint16_t;
using Bits32 [[gnu::may_alias]] = uint32_t;
using Bits64 [[gnu::may_alias]] = uint64_t;
struct [[gnu::may_alias]] Bits128 {
  uint64_t low, high;
};

// Calls inner(in, out) for each combination of outer loop indices, with the addresses where the
// inner loop begins.
template <typename T, typename Inner>
void ForEachRun(absl::Span<const Dim> outer, const T* in, T* out, const Inner& inner) {
  if (outer.empty()) return inner(in, out);
  const Dim d = outer.front();
  for (int64_t i = 0; i < d.size; ++i) {
    ForEachRun(outer.subspan(1), in + i * d.in_stride, out + i * d.out_stride, inner);
  }
}

// Sets out[c * t + r] = in[r * s + c]. Works in square tiles, so that each cache line is read or
// written completely before it is evicted: lines at large strides evict one another.
template <typename T>
void TransposeRun(int64_t rows, int64_t s, int64_t columns, int64_t t, const T* __restrict in,
                  T* __restrict out) {
  constexpr int64_t kSquare = 16;
  const int64_t whole_rows = rows / kSquare * kSquare;
  const int64_t whole_columns = columns / kSquare * kSquare;
  for (int64_t r0 = 0; r0 < whole_rows; r0 += kSquare) {
    for (int64_t c0 = 0; c0 < whole_columns; c0 += kSquare) {
      T square[kSquare][kSquare];
      for (int64_t r = 0; r < kSquare; ++r) {
        for (int64_t c = 0; c < kSquare; ++c) square[r][c] = in[(r0 + r) * s + c0 + c];
      }
      for (int64_t c = 0; c < kSquare; ++c) {
        for (int64_t r = 0; r < kSquare; ++r) out[(c0 + c) * t + r0 + r] = square[r][c];
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      out[c * t + r] = in[r * s + c];
    }
  }
}

}  // namespace

StridedCopy::StridedCopy(DataType dtype, absl::Span<const Dim> dims, int64_t in_offset,
                         int64_t out_offset)
    : element_bytes_(DataTypeSize(dtype)), in_offset_(in_offset), out_offset_(out_offset) {
  for (const Dim& d : dims) {
    empty_ = empty_ || d.size == 0;
    if (d.size == 1) continue;
    if (!dims_.empty() && dims_.back().in_stride == d.size * d.in_stride &&
        dims_.back().out_stride == d.size * d.out_stride) {
      dims_.back() = {dims_.back().size * d.size, d.in_stride, d.out_stride};
    } else {
      dims_.push_back(d);
    }
  }
  if (dims_.empty()) dims_.push_back({1, 1, 1});
  // The last loop writes contiguously. If another loop reads contiguously, move it
  // next to the last.
  if (dims_.back().out_stride != 1) return;
  if (dims_.back().in_stride == 0 || dims_.back().in_stride == 1) return;
  for (size_t i = 0; i + 1 < dims_.size(); ++i) {
    if (dims_[i].in_stride != 1) continue;
    std::rotate(dims_.begin() + i, dims_.begin() + i + 1, dims_.end() - 1);
    transposes_ = true;
    return;
  }
}

template <typename T>
void StridedCopy::RunAs(const std::byte* in_bytes, std::byte* out_bytes) const {
  const T* in = reinterpret_cast<const T*>(in_bytes) + in_offset_;
  T* out = reinterpret_cast<T*>(out_bytes) + out_offset_;
  const absl::Span<const Dim> outer = absl::MakeSpan(dims_).first(dims_.size() - 1);
  const Dim run = dims_.back();
  if (transposes_) {
    const Dim column = outer.back();
    ForEachRun(outer.first(outer.size() - 1), in, out, [=](const T* from, T* to) {
      TransposeRun(run.size, run.in_stride, column.size, column.out_stride, from, to);
    });
  } else if (run.in_stride == 1 && run.out_stride == 1) {
    ForEachRun(outer, in, out, [=](const T* from, T* to) {
      std::memcpy(static_cast<void*>(to), from, run.size * sizeof(T));
    });
  } else if (run.in_stride == 0 && run.out_stride == 1) {
    ForEachRun(outer, in, out, [=](const T* from, T* to) { std::fill_n(to, run.size, *from); });
  } else {
    ForEachRun(outer, in, out, [=](const T* __restrict from, T* __restrict to) {
      for (int64_t i = 0; i < run.size; ++i) to[i * run.out_stride] = from[i * run.in_stride];
    });
  }
}

void StridedCopy::Run(const std::byte* in, std::byte* out) const {
  const auto bytes = static_cast<int64_t>(element_bytes_);
  if (empty_ || in + in_offset_ * bytes == out + out_offset_ * bytes) return;
  switch (element_bytes_) {
    case 1:
      return RunAs<Bits8>(in, out);
    case 2:
      return RunAs<Bits16>(in, out);
    case 4:
      return RunAs<Bits32>(in, out);
    case 8:
      return RunAs<Bits64>(in, out);
    case 16:
      return RunAs<Bits128>(in, out);
  }
}

int64_t BytesOf(DataType dtype, const Shape& shape) {
  return shape.num_elements() * static_cast<int64_t>(DataTypeSize(dtype));
}

absl::StatusOr<KernelPlan> CopyKernel(DataType dtype, std::vector<Move> moves, int64_t zero_bytes) {
  if (DataTypeSize(dtype) == 0) return UnsupportedDataType(dtype);
  return KernelPlan{
      .kernel = MakeKernel([moves = std::move(moves), zero_bytes](const KernelArgs& args) {
        if (zero_bytes > 0) std::memset(args.output<std::byte>(0), 0, zero_bytes);
        for (const Move& move : moves) {
          move.copy.Run(args.input<std::byte>(move.input), args.output<std::byte>(move.output));
        }
      })};
}

absl::StatusOr<KernelPlan> ConstantKernel(std::vector<Tensor> values) {
  return KernelPlan{.kernel = MakeKernel([values = std::move(values)](const KernelArgs& args) {
                      for (size_t i = 0; i < values.size(); ++i) {
                        if (values[i].bytes() == 0) continue;
                        std::memcpy(args.output<std::byte>(static_cast<int>(i)), values[i].raw(),
                                    values[i].bytes());
                      }
                    })};
}

}  // namespace mirrorflow
