// SPDX-License-Identifier: Apache-2.0
//
// Reductions on the CPU. Neighbouring dimensions that are both reduced or both kept are one
// dimension. What is innermost decides how: if it is reduced, each result is made of contiguous
// segments; if it is kept, a tile of neighbouring results is made of rows of as many elements.
// Segments and rows are combined by halves, pairwise, so that the error of a float sum grows with
// the logarithm of the count; the order depends on the shape alone.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// What a reduction is: A is the type that it computes in.
template <typename A>
struct SumOf {
  static A Identity() { return A(0); }
  static A Combine(A a, A b) { return static_cast<A>(Wrapping(a) + Wrapping(b)); }
};

template <typename A>
struct ProdOf {
  static A Identity() { return A(1); }
  static A Combine(A a, A b) { return static_cast<A>(Wrapping(a) * Wrapping(b)); }
};

template <typename A>
struct MaxOf {
  static A Identity() {
    using Limits = std::numeric_limits<A>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  static A Combine(A a, A b) { return a > b || a != a ? a : b; }  // a NaN wins
};

template <typename A>
struct MinOf {
  static A Identity() {
    using Limits = std::numeric_limits<A>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  static A Combine(A a, A b) { return a < b || a != a ? a : b; }
};

template <typename A>
struct AllOf {
  static A Identity() { return true; }
  static A Combine(A a, A b) { return a & b; }
};

template <typename A>
struct AnyOf {
  static A Identity() { return false; }
  static A Combine(A a, A b) { return a | b; }
};

// The input as kept and reduced dimensions in turn.
struct Dims {
  struct Dim {
    int64_t size;
    int64_t stride;  // in elements of the input
  };
  std::vector<Dim> kept, reduced;  // innermost first; the innermost one of all left out
  int64_t inner = 1;
  bool inner_is_reduced = true;
};

Dims CollapseDims(const Shape& in, const std::vector<bool>& is_reduced) {
  Dims dims;
  int64_t stride = 1;
  bool first = true, last_is_reduced = false;
  for (int i = in.rank() - 1; i >= 0; --i) {
    const int64_t n = in.dim(i);
    if (n == 1) continue;
    std::vector<Dims::Dim>& group = is_reduced[i] ? dims.reduced : dims.kept;
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
  return dims;
}

// Where element number `index` of the space spanned by `dims` begins.
int64_t OffsetOf(const std::vector<Dims::Dim>& dims, int64_t index) {
  int64_t offset = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool last = d + 1 == dims.size();
    offset += (last ? index : index % dims[d].size) * dims[d].stride;
    if (!last) index /= dims[d].size;
  }
  return offset;
}

int64_t CountOf(const std::vector<Dims::Dim>& dims) {
  int64_t count = 1;
  for (const Dims::Dim& dim : dims) count *= dim.size;
  return count;
}

// Lanes of a segment's reduction, and the results of a tile.
constexpr int64_t kLanes = 32;
constexpr int64_t kTile = 256;
// So many elements or rows are combined in order; more by halves.
constexpr int64_t kSegmentBlock = 4096;
constexpr int64_t kRowBlock = 64;

template <typename T, typename A, typename Op>
class Reducer {
 public:
  explicit Reducer(Dims dims) : dims_(std::move(dims)), kept_(CountOf(dims_.kept)) {
    // Short rows that follow each other are taken several at once, as a wide one.
    if (!dims_.inner_is_reduced && !dims_.reduced.empty() &&
        dims_.reduced[0].stride == dims_.inner) {
      Dims::Dim& rows = dims_.reduced[0];
      fold_ = std::min(rows.size, std::max<int64_t>(1, kTile / dims_.inner));
      while (rows.size % fold_ != 0) --fold_;
      rows.size /= fold_;
      rows.stride *= fold_;
    }
    rows_ = CountOf(dims_.reduced);
  }

  // Calls finish(A) for each result.
  template <typename R, typename Finish>
  void Run(const T* in, R* out, Finish finish) const {
    for (int64_t k = 0; k < kept_; ++k) {
      const T* x = in + OffsetOf(dims_.kept, k);
      if (dims_.inner_is_reduced) {
        out[k] = finish(Segments(x, 0, rows_));
        continue;
      }
      for (int64_t j = 0; j < dims_.inner; j += kTile) {
        const int64_t width = std::min(kTile, dims_.inner - j);
        std::array<A, kTile> tile;
        Rows(x + j, 0, rows_, fold_ * width, tile.data());
        for (int64_t f = 1; f < fold_; ++f) {
          for (int64_t i = 0; i < width; ++i) {
            tile[i] = Op::Combine(tile[i], tile[f * width + i]);
          }
        }
        for (int64_t i = 0; i < width; ++i) out[k * dims_.inner + j + i] = finish(tile[i]);
      }
    }
  }

 private:
  // The reduction of segments [begin, end).
  A Segments(const T* x, int64_t begin, int64_t end) const {
    if (end - begin == 1) return Segment(x + OffsetOf(dims_.reduced, begin), dims_.inner);
    if (begin == end) return Op::Identity();
    const int64_t middle = begin + (end - begin) / 2;
    return Op::Combine(Segments(x, begin, middle), Segments(x, middle, end));
  }

  static A Segment(const T* x, int64_t n) {
    if (n > kSegmentBlock) {
      const int64_t half = (n / 2 + kLanes - 1) / kLanes * kLanes;
      return Op::Combine(Segment(x, half), Segment(x + half, n - half));
    }
    A result = Op::Identity();
    int64_t i = 0;
    if (n >= 2 * kLanes) {
      std::array<A, kLanes> lane;
      for (int64_t l = 0; l < kLanes; ++l) lane[l] = static_cast<A>(x[l]);
      for (i = kLanes; i + kLanes <= n; i += kLanes) {
        for (int64_t l = 0; l < kLanes; ++l)
          lane[l] = Op::Combine(lane[l], static_cast<A>(x[i + l]));
      }
      for (int64_t width = kLanes / 2; width > 0; width /= 2) {
        for (int64_t l = 0; l < width; ++l) lane[l] = Op::Combine(lane[l], lane[l + width]);
      }
      result = lane[0];
    }
    for (; i < n; ++i) result = Op::Combine(result, static_cast<A>(x[i]));
    return result;
  }

  // tile[i] = the reduction of element i of rows [begin, end), for i < width.
  void Rows(const T* x, int64_t begin, int64_t end, int64_t width, A* tile) const {
    if (end - begin > kRowBlock) {
      const int64_t middle = begin + (end - begin) / 2;
      std::array<A, kTile> other;
      Rows(x, begin, middle, width, tile);
      Rows(x, middle, end, width, other.data());
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < width; ++i) tile[i] = Op::Combine(tile[i], other[i]);
      return;
    }
    std::fill_n(tile, width, Op::Identity());
    for (int64_t r = begin; r < end; ++r) {
      const T* row = x + OffsetOf(dims_.reduced, r);
      MF_INDEPENDENT_ITERATIONS
      for (int64_t i = 0; i < width; ++i) tile[i] = Op::Combine(tile[i], static_cast<A>(row[i]));
    }
  }

  Dims dims_;
  int64_t kept_;
  int64_t rows_;
  int64_t fold_ = 1;  // rows that are side by side in a tile
};

// The operands of one reduction as the kernel's factory sees them.
struct Operands {
  Dims dims;
  int64_t in_size;
  int64_t out_size;
};

absl::StatusOr<Operands> OperandsOf(const KernelContext& c) {
  const Shape& in = c.input_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, IntegersOf(c.constant(1)));
  std::vector<bool> reduced(in.rank(), false);
  for (int64_t axis : axes) {
    MF_ASSIGN_OR_RETURN(const int d, NormalizeAxis(axis, in.rank()));
    reduced[d] = true;
  }
  return Operands{CollapseDims(in, reduced), in.num_elements(), c.output_shape(0).num_elements()};
}

template <typename T, typename A, template <typename> typename Op, typename Finish>
KernelPlan ReductionPlan(const Operands& operands, Finish finish) {
  if (operands.in_size == 0) {
    return {.kernel = MakeKernel([n = operands.out_size, finish](const KernelArgs& args, Lane&) {
              std::fill_n(args.output<T>(0), n, finish(Op<A>::Identity()));
              return absl::OkStatus();
            })};
  }
  if (operands.in_size == operands.out_size) {  // each element by itself
    return {.kernel = MakeKernel([n = operands.in_size](const KernelArgs& args, Lane&) {
              std::memmove(args.output<T>(0), args.input<T>(0), n * sizeof(T));
              return absl::OkStatus();
            }),
            .in_place = {{0, 0}}};
  }
  return {.kernel = MakeKernel([reducer = Reducer<T, A, Op<A>>(operands.dims), finish](
                                   const KernelArgs& args, Lane&) {
            reducer.Run(args.input<T>(0), args.output<T>(0), finish);
            return absl::OkStatus();
          })};
}

template <template <typename> typename Op, typename Types>
absl::StatusOr<KernelPlan> CreateReduction(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Operands operands, OperandsOf(c));
  return ForType(Types(), c.output_dtype(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ReductionPlan<T, T, Op>(operands, [](T result) { return result; });
  });
}

// The mean of nothing is 0/0; that of integers, which have no such value, is 0.
absl::StatusOr<KernelPlan> CreateMean(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Operands operands, OperandsOf(c));
  return ForType(NumericTypes(), c.output_dtype(0), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
    const int64_t count = operands.out_size > 0 ? operands.in_size / operands.out_size : 0;
    return ReductionPlan<T, A, SumOf>(operands, [count](A sum) {
      if (std::is_integral_v<T> && count == 0) return T(0);
      return static_cast<T>(sum / static_cast<A>(count));
    });
  });
}

}  // namespace

void RegisterReductionCpu(KernelRegistry& kernels) {
  kernels.Register("All", "CPU", CreateReduction<AllOf, BoolTypes>);
  kernels.Register("Any", "CPU", CreateReduction<AnyOf, BoolTypes>);
  kernels.Register("Max", "CPU", CreateReduction<MaxOf, NumericTypes>);
  kernels.Register("Mean", "CPU", CreateMean);
  kernels.Register("Min", "CPU", CreateReduction<MinOf, NumericTypes>);
  kernels.Register("Prod", "CPU", CreateReduction<ProdOf, NumericTypes>);
  kernels.Register("Sum", "CPU", CreateReduction<SumOf, NumericTypes>);
}

}  // namespace mirrorflow
