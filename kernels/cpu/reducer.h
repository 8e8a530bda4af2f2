// SPDX-License-Identifier: Apache-2.0
//
// Reductions on the CPU. ReductionPlan() creates the kernel of a reduction such as SumOf.
//
// Adjacent dimensions that are both reduced or both kept are merged. The innermost dimension
// selects the loop: if it is reduced, each result combines contiguous segments; if it is kept, a
// tile of adjacent results combines rows of the same width. Segments and rows are combined
// pairwise, by halves, so that the error of a float sum grows with the logarithm of the count. The
// order depends only on the shape.
#ifndef MIRRORFLOW_KERNELS_CPU_REDUCER_H_
#define MIRRORFLOW_KERNELS_CPU_REDUCER_H_

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {

// Base of the reductions below. They compute in type A. Take() transforms each element before it is
// combined.
template <typename A>
struct OfElements {
  static constexpr bool kTakeIsIdentity = true;
  static A Take(A x) { return x; }
};

template <typename A>
struct SumOf : OfElements<A> {
  static A Identity() { return A(0); }
  static A Combine(A a, A b) { return static_cast<A>(Wrapping(a) + Wrapping(b)); }
};

template <typename A>
struct ProdOf : OfElements<A> {
  static A Identity() { return A(1); }
  static A Combine(A a, A b) { return static_cast<A>(Wrapping(a) * Wrapping(b)); }
};

template <typename A>
struct MaxOf : OfElements<A> {
  static A Identity() {
    using Limits = std::numeric_limits<A>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  static A Combine(A a, A b) { return a > b || a != a ? a : b; }  // a NaN wins
};

template <typename A>
struct MinOf : OfElements<A> {
  static A Identity() {
    using Limits = std::numeric_limits<A>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  static A Combine(A a, A b) { return a < b || a != a ? a : b; }
};

template <typename A>
struct AllOf : OfElements<A> {
  static A Identity() { return true; }
  static A Combine(A a, A b) { return a & b; }
};

template <typename A>
struct AnyOf : OfElements<A> {
  static A Identity() { return false; }
  static A Combine(A a, A b) { return a | b; }
};

template <typename A>
struct SumOfSquares : SumOf<A> {
  static constexpr bool kTakeIsIdentity = false;
  static A Take(A x) { return static_cast<A>(Wrapping(x) * Wrapping(x)); }
};

// The dimensions of the input, merged to alternate between kept and reduced.
struct ReductionDims {
  struct Dim {
    int64_t size;
    int64_t stride;  // in elements of the input
  };
  std::vector<Dim> kept, reduced;  // innermost first, without `inner`
  int64_t inner = 1;
  bool inner_is_reduced = true;
  // If the inner dimension is kept: the results along it that the kernel computes. The input begins
  // with the first of them.
  int64_t columns = 1;
};

inline ReductionDims CollapseDims(const Shape& in, const std::vector<bool>& is_reduced) {
  ReductionDims dims;
  int64_t stride = 1;
  bool first = true, last_is_reduced = false;
  for (int i = in.rank() - 1; i >= 0; --i) {
    const int64_t n = in.dim(i);
    if (n == 1) continue;
    std::vector<ReductionDims::Dim>& group = is_reduced[i] ? dims.reduced : dims.kept;
    if (first) {
      dims.inner = n;
      dims.inner_is_reduced = is_reduced[i];
    } else if (last_is_reduced != is_reduced[i]) {
      group.push_back({n, stride});
    } else if (stride == dims.inner) {
      dims.inner *= n;
    } else {
      group.back().size *= n;
    }
    first = false;
    last_is_reduced = is_reduced[i];
    stride *= n;
  }
  dims.columns = dims.inner;
  return dims;
}

// Returns the offset of element `index` in the space that `dims` span.
inline int64_t OffsetOf(const std::vector<ReductionDims::Dim>& dims, int64_t index) {
  int64_t offset = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool last = d + 1 == dims.size();
    offset += (last ? index : index % dims[d].size) * dims[d].stride;
    if (!last) index /= dims[d].size;
  }
  return offset;
}

inline int64_t CountOf(const std::vector<ReductionDims::Dim>& dims) {
  int64_t count = 1;
  for (const ReductionDims::Dim& dim : dims) count *= dim.size;
  return count;
}

// Lanes in the reduction of a segment, and results per tile.
inline constexpr int64_t kReductionLanes = 32;
inline constexpr int64_t kReductionTile = 256;
// Up to this many elements or rows are combined in order. Longer segments and larger groups of rows
// are split into halves.
inline constexpr int64_t kReductionSegmentBlock = 4096;
inline constexpr int64_t kReductionRowBlock = 64;

template <typename T, typename A, typename Op>
class Reducer {
 public:
  explicit Reducer(ReductionDims dims) : dims_(std::move(dims)), kept_(CountOf(dims_.kept)) {
    // Short contiguous rows are processed several at a time, as one wide row.
    if (!dims_.inner_is_reduced && !dims_.reduced.empty() &&
        dims_.reduced[0].stride == dims_.inner) {
      ReductionDims::Dim& rows = dims_.reduced[0];
      fold_ = std::min(rows.size, std::max<int64_t>(1, kReductionTile / dims_.inner));
      while (rows.size % fold_ != 0) --fold_;
      rows.size /= fold_;
      rows.stride *= fold_;
    }
    rows_ = CountOf(dims_.reduced);
  }

  // Sets each element of `out` to finish(r), where r is its reduction.
  template <typename R, typename Finish>
  void Run(const T* in, R* out, Finish finish) const {
    for (int64_t k = 0; k < kept_; ++k) {
      const T* x = in + OffsetOf(dims_.kept, k);
      if (dims_.inner_is_reduced) {
        out[k] = finish(Segments(x, 0, rows_));
        continue;
      }
      for (int64_t j = 0; j < dims_.columns; j += kReductionTile) {
        const int64_t width = std::min(kReductionTile, dims_.columns - j);
        std::array<A, kReductionTile> tile;
        Rows(x + j, 0, rows_, width, tile.data());
        for (int64_t f = 1; f < fold_; ++f) {
          for (int64_t i = 0; i < width; ++i) {
            tile[i] = Op::Combine(tile[i], tile[f * width + i]);
          }
        }
        for (int64_t i = 0; i < width; ++i) out[k * dims_.columns + j + i] = finish(tile[i]);
      }
    }
  }

 private:
  // Returns the reduction of segments [begin, end).
  A Segments(const T* x, int64_t begin, int64_t end) const {
    if (end - begin == 1) return Segment(x + OffsetOf(dims_.reduced, begin), dims_.inner);
    if (begin == end) return Op::Identity();
    const int64_t middle = begin + (end - begin) / 2;
    return Op::Combine(Segments(x, begin, middle), Segments(x, middle, end));
  }

  static A Segment(const T* x, int64_t n) {
    if (n > kReductionSegmentBlock) {
      const int64_t half = (n / 2 + kReductionLanes - 1) / kReductionLanes * kReductionLanes;
      return Op::Combine(Segment(x, half), Segment(x + half, n - half));
    }
    A result = Op::Identity();
    int64_t i = 0;
    if (n >= 2 * kReductionLanes) {
      std::array<A, kReductionLanes> lane;
      for (int64_t l = 0; l < kReductionLanes; ++l) lane[l] = Op::Take(static_cast<A>(x[l]));
      for (i = kReductionLanes; i + kReductionLanes <= n; i += kReductionLanes) {
        for (int64_t l = 0; l < kReductionLanes; ++l)
          lane[l] = Op::Combine(lane[l], Op::Take(static_cast<A>(x[i + l])));
      }
      for (int64_t width = kReductionLanes / 2; width > 0; width /= 2) {
        for (int64_t l = 0; l < width; ++l) lane[l] = Op::Combine(lane[l], lane[l + width]);
      }
      result = lane[0];
    }
    for (; i < n; ++i) result = Op::Combine(result, Op::Take(static_cast<A>(x[i])));
    return result;
  }

  // Sets tile[f * width + i] to the reduction of element i of the f-th row of each of the groups
  // [begin, end), which consist of fold_ rows.
  void Rows(const T* x, int64_t begin, int64_t end, int64_t width, A* tile) const {
    if (end - begin > kReductionRowBlock) {
      const int64_t middle = begin + (end - begin) / 2;
      std::array<A, kReductionTile> other;
      Rows(x, begin, middle, width, tile);
      Rows(x, middle, end, width, other.data());
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < fold_ * width; ++i) tile[i] = Op::Combine(tile[i], other[i]);
      return;
    }
    std::fill_n(tile, fold_ * width, Op::Identity());
    // Whole rows are contiguous, so that the group is one wide row.
    const bool is_contiguous = width == dims_.inner;
    const int64_t segments = is_contiguous ? 1 : fold_,
                  length = is_contiguous ? fold_ * width : width;
    for (int64_t r = begin; r < end; ++r) {
      const T* const group = x + OffsetOf(dims_.reduced, r);
      for (int64_t s = 0; s < segments; ++s) {
        const T* const row = group + s * dims_.inner;
        A* const to = tile + s * length;
        MF_INDEPENDENT_ITERATIONS
        for (int64_t i = 0; i < length; ++i) {
          to[i] = Op::Combine(to[i], Op::Take(static_cast<A>(row[i])));
        }
      }
    }
  }

  ReductionDims dims_;
  int64_t kept_;
  int64_t rows_;
  int64_t fold_ = 1;  // number of rows side by side in a tile
};

// The dimensions and sizes of one reduction.
struct ReductionOperands {
  ReductionDims dims;
  int64_t in_size;
  int64_t out_size;  // of all results
};

inline ReductionOperands ReduceAll(const Shape& in) {
  return {CollapseDims(in, std::vector<bool>(in.rank(), true)), in.num_elements(), 1};
}

template <typename T, typename A, template <typename> typename Op, typename Finish>
KernelPlan ReductionPlan(const ReductionOperands& operands, Finish finish) {
  if (operands.in_size == 0) {
    return {.kernel = MakeKernel([n = operands.out_size, finish](const KernelArgs& args) {
              std::fill_n(args.output<T>(0), n, finish(Op<A>::Identity()));
            })};
  }
  if (operands.in_size == operands.out_size && Op<A>::kTakeIsIdentity) {
    return {.kernel = MakeKernel([n = operands.in_size](const KernelArgs& args) {
              std::memmove(args.output<T>(0), args.input<T>(0), n * sizeof(T));
            }),
            .in_place = {{0, 0}}};
  }
  return {.kernel = MakeKernel([reducer = Reducer<T, A, Op<A>>(operands.dims), finish](
                                   const KernelArgs& args, Lane&) {
            reducer.Run(args.input<T>(0), args.output<T>(0), finish);
            return absl::OkStatus();
          })};
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_REDUCER_H_
