// SPDX-License-Identifier: Apache-2.0
//
// Attention and its gradient on the CPU, in query-by-key tiles that stay in the cache. The full
// weight matrix is never stored.
// Source: Dao et al., "FlashAttention", 2022, algorithms 1 and 4.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "Eigen/Core"
#include "kernels/cpu/softmax_rows.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

constexpr int64_t kTileQueries = 64;
constexpr int64_t kTileKeys = 128;

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Rows = Eigen::Map<Matrix<T>>;
// Matrices whose rows begin `step` elements apart.
using Step = Eigen::OuterStride<>;
template <typename T>
using SpacedRows = Eigen::Map<Matrix<T>, Eigen::Unaligned, Step>;
template <typename T>
using ConstSpacedRows = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Step>;

struct Problem {
  int64_t batch, heads, queries, keys, depth, value_depth;
  double scale;
  bool causal;
  bool heads_inside;                  // if true, the rows of one head are not adjacent
  std::array<int64_t, 4> mask_steps;  // 0 where the mask is broadcast

  // Reads the sizes of a node whose q is input `first`.
  Problem(const KernelContext& c, int first)
      : batch(c.input_shape(first).dim(0)),
        heads(c.input_shape(first).dim(c.attr<bool>("heads_inside") ? 2 : 1)),
        queries(c.input_shape(first).dim(c.attr<bool>("heads_inside") ? 1 : 2)),
        keys(c.input_shape(first + 1).dim(c.attr<bool>("heads_inside") ? 1 : 2)),
        depth(c.input_shape(first).dim(3)),
        value_depth(c.input_shape(first + 2).dim(3)),
        scale(c.attr<float>("scale")),
        causal(c.attr<bool>("causal")),
        heads_inside(c.attr<bool>("heads_inside")),
        mask_steps{} {
    if (c.attr<int64_t>("num_masks") == 0) return;
    const Shape& mask = c.input_shape(c.node().num_inputs() - 1);
    int64_t step = 1;
    for (int d = mask.rank() - 1; d >= 0; --d) {
      mask_steps[d + 4 - mask.rank()] = mask.dim(d) == 1 ? 0 : step;
      step *= mask.dim(d);
    }
  }
  // Returns the stride between consecutive rows of one head, for rows of `columns` elements.
  int64_t RowStep(int64_t columns) const { return heads_inside ? heads * columns : columns; }
  // Returns the offset of the first row of a head in an operand with `rows` rows of `columns`
  // elements per head. `head` counts the heads of all examples.
  int64_t HeadOffset(int64_t head, int64_t rows, int64_t columns) const {
    if (!heads_inside) return head * rows * columns;
    return (head / heads * rows * heads + head % heads) * columns;
  }
  // Returns the FLOPs of products with `numbers` multiply-adds per visible query-key pair.
  int64_t Flops(int64_t numbers) const {
    const double pairs = static_cast<double>(batch * heads) * queries * keys / (causal ? 2 : 1);
    return static_cast<int64_t>(std::min(2 * pairs * static_cast<double>(numbers), 9e18));
  }
  // Returns the index after the last key that is visible to any query before `end_of_queries`.
  int64_t EndOfKeys(int64_t end_of_queries) const {
    return causal ? std::min(keys, end_of_queries) : keys;
  }
};

// A block of queries and a block of keys of one head, given by their first indices and counts.
struct Tile {
  int64_t query, queries, key, keys;
};

// Computes scores = scale * q · kᵀ + mask, with -infinity where a key is not visible. `q` and `k`
// point to the head's first rows, and `mask`, which may be null, to the mask value of the head's
// first query-key pair.
template <typename T>
void MakeScores(const Problem& p, const Tile& t, const T* q, const T* k, const T* mask, T* scores) {
  Rows<T> s(scores, t.queries, t.keys);
  const int64_t step = p.RowStep(p.depth);
  s.noalias() = ConstSpacedRows<T>(q + t.query * step, t.queries, p.depth, Step(step)) *
                ConstSpacedRows<T>(k + t.key * step, t.keys, p.depth, Step(step)).transpose();
  const T scale = static_cast<T>(p.scale);
  for (int64_t r = 0; r < t.queries; ++r) {
    T* const row = scores + r * t.keys;
    for (int64_t c = 0; c < t.keys; ++c) row[c] *= scale;
    if (mask != nullptr) {
      const T* const add = mask + (t.query + r) * p.mask_steps[2] + t.key * p.mask_steps[3];
      for (int64_t c = 0; c < t.keys; ++c) row[c] += add[c * p.mask_steps[3]];
    }
    const int64_t seen =
        p.causal ? std::clamp<int64_t>(t.query + r + 1 - t.key, 0, t.keys) : t.keys;
    std::fill(row + seen, row + t.keys, -std::numeric_limits<T>::infinity());
  }
}

// The softmax of each query in a tile, over the keys processed so far.
template <typename T>
class RunningSoftmax {
 public:
  RunningSoftmax() {
    largest_.fill(-std::numeric_limits<T>::infinity());
    sum_.fill(0);
  }

  // Turns scores into weights relative to the largest score so far, and rescales the accumulated
  // values to match.
  void Weigh(const Tile& t, T* scores, SpacedRows<T> values) {
    for (int64_t r = 0; r < t.queries; ++r) {
      RowMap<T> row(scores + r * t.keys, t.keys);
      const T before = largest_[r];
      largest_[r] = std::max(before, row.maxCoeff());
      row -= Pivot(r);
      const T shrink = ExpOfNonPositive(before - Pivot(r));
      sum_[r] *= shrink;
      if (shrink != 1) values.row(r) *= shrink;
    }
    ExpInPlace(scores, t.queries * t.keys);
    for (int64_t r = 0; r < t.queries; ++r) {
      sum_[r] += RowMap<T>(scores + r * t.keys, t.keys).sum();
    }
  }

  // Normalises the values and writes the logarithms of the sums. If all keys of a query are masked,
  // its results are NaN. If the head has no keys, the values stay 0.
  void Finish(bool has_keys, SpacedRows<T> values, T* log_sums) const {
    for (int64_t r = 0; r < values.rows(); ++r) {
      if (has_keys) values.row(r) *= 1 / sum_[r];
      constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
      log_sums[r] = has_keys && sum_[r] == 0 ? kNan : Pivot(r) + std::log(sum_[r]);
    }
  }

 private:
  // Returns the largest score so far. Returns 0 while no key is visible, because any finite number
  // will do.
  T Pivot(int64_t r) const {
    return largest_[r] == -std::numeric_limits<T>::infinity() ? 0 : largest_[r];
  }

  std::array<T, kTileQueries> largest_, sum_;
};

// Calls body(head, mask of the head) for each head of each example.
template <typename T, typename Body>
void ForEachHead(const Problem& p, const T* mask, Body body) {
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      body(b * p.heads + h,
           mask == nullptr ? mask : mask + b * p.mask_steps[0] + h * p.mask_steps[1]);
    }
  }
}

// Calls body(tile) for each key tile that is visible to the query tile starting at `query`.
template <typename Body>
void ForEachTileOfKeys(const Problem& p, int64_t query, Body body) {
  const int64_t queries = std::min(kTileQueries, p.queries - query);
  const int64_t end = p.EndOfKeys(query + queries);
  for (int64_t key = 0; key < end; key += kTileKeys) {
    body(Tile{query, queries, key, std::min(kTileKeys, end - key)});
  }
}

template <typename T>
KernelPlan Attention(const KernelContext& c) {
  const Problem p(c, 0);
  const bool has_mask = c.attr<int64_t>("num_masks") > 0;
  return {.kernel = MakeKernel([=](const KernelArgs& args) {
            T* const scores = args.scratch<T>();
            const T* const masks = has_mask ? args.input<T>(3) : nullptr;
            ForEachHead(p, masks, [&](int64_t head, const T* mask) {
              const T* const q = args.input<T>(0) + p.HeadOffset(head, p.queries, p.depth);
              const T* const k = args.input<T>(1) + p.HeadOffset(head, p.keys, p.depth);
              const T* const v = args.input<T>(2) + p.HeadOffset(head, p.keys, p.value_depth);
              T* const y = args.output<T>(0) + p.HeadOffset(head, p.queries, p.value_depth);
              const int64_t step = p.RowStep(p.value_depth);
              T* const log_sum = args.output<T>(1) + head * p.queries;
              for (int64_t query = 0; query < p.queries; query += kTileQueries) {
                const int64_t queries = std::min(kTileQueries, p.queries - query);
                SpacedRows<T> values(y + query * step, queries, p.value_depth, Step(step));
                values.setZero();
                RunningSoftmax<T> softmax;
                ForEachTileOfKeys(p, query, [&](const Tile& t) {
                  MakeScores(p, t, q, k, mask, scores);
                  softmax.Weigh(t, scores, values);
                  values.noalias() +=
                      Rows<T>(scores, queries, t.keys) *
                      ConstSpacedRows<T>(v + t.key * step, t.keys, p.value_depth, Step(step));
                });
                softmax.Finish(p.keys > 0, values, log_sum + query);
              }
            });
          }),
          .scratch_bytes = kTileQueries * kTileKeys * static_cast<int64_t>(sizeof(T)),
          .flops = p.Flops(p.depth + p.value_depth)};
}

// Operands, results and scratch of one head.
template <typename T>
struct HeadGradient {
  const T *dy, *q, *k, *v, *y, *log_sum, *mask;
  T *dq, *dk, *dv;
  T *weights, *dscores;  // scratch, one tile each

  HeadGradient(const Problem& p, const KernelArgs& args, int64_t head, const T* mask)
      : dy(args.input<T>(0) + p.HeadOffset(head, p.queries, p.value_depth)),
        q(args.input<T>(1) + p.HeadOffset(head, p.queries, p.depth)),
        k(args.input<T>(2) + p.HeadOffset(head, p.keys, p.depth)),
        v(args.input<T>(3) + p.HeadOffset(head, p.keys, p.value_depth)),
        y(args.input<T>(4) + p.HeadOffset(head, p.queries, p.value_depth)),
        log_sum(args.input<T>(5) + head * p.queries),
        mask(mask),
        dq(args.output<T>(0) + p.HeadOffset(head, p.queries, p.depth)),
        dk(args.output<T>(1) + p.HeadOffset(head, p.keys, p.depth)),
        dv(args.output<T>(2) + p.HeadOffset(head, p.keys, p.value_depth)),
        weights(args.scratch<T>()),
        dscores(weights + kTileQueries * kTileKeys) {}

  void Clear(const Problem& p) const {
    const Step step(p.RowStep(p.depth)), value_step(p.RowStep(p.value_depth));
    SpacedRows<T>(dq, p.queries, p.depth, step).setZero();
    SpacedRows<T>(dk, p.keys, p.depth, step).setZero();
    SpacedRows<T>(dv, p.keys, p.value_depth, value_step).setZero();
  }

  // Adds the contribution of a tile to dq, dk and dv.
  void AddTile(const Problem& p, const Tile& t) const {
    MakeScores(p, t, q, k, mask, weights);
    Rows<T> w(weights, t.queries, t.keys), ds(dscores, t.queries, t.keys);
    const int64_t step = p.RowStep(p.depth), value_step = p.RowStep(p.value_depth);
    const auto rows = [&](const T* from, int64_t first, int64_t count) {
      return ConstSpacedRows<T>(from + first * step, count, p.depth, Step(step));
    };
    const auto value_rows = [&](const T* from, int64_t first, int64_t count) {
      return ConstSpacedRows<T>(from + first * value_step, count, p.value_depth, Step(value_step));
    };
    const auto k_rows = rows(k, t.key, t.keys), q_rows = rows(q, t.query, t.queries);
    const auto dy_rows = value_rows(dy, t.query, t.queries),
               y_rows = value_rows(y, t.query, t.queries);
    const auto v_rows = value_rows(v, t.key, t.keys);
    for (int64_t r = 0; r < t.queries; ++r) w.row(r).array() -= log_sum[t.query + r];
    ExpInPlace(weights, t.queries * t.keys);
    SpacedRows<T>(dv + t.key * value_step, t.keys, p.value_depth, Step(value_step)).noalias() +=
        w.transpose() * dy_rows;
    ds.noalias() = dy_rows * v_rows.transpose();
    const T scale = static_cast<T>(p.scale);
    for (int64_t r = 0; r < t.queries; ++r) {
      const T product = dy_rows.row(r).dot(y_rows.row(r));
      ds.row(r).array() = (ds.row(r).array() - product) * w.row(r).array() * scale;
    }
    SpacedRows<T>(dq + t.query * step, t.queries, p.depth, Step(step)).noalias() += ds * k_rows;
    SpacedRows<T>(dk + t.key * step, t.keys, p.depth, Step(step)).noalias() +=
        ds.transpose() * q_rows;
  }
};

template <typename T>
KernelPlan AttentionGrad(const KernelContext& c) {
  const Problem p(c, 1);
  const bool has_mask = c.attr<int64_t>("num_masks") > 0;
  return {.kernel = MakeKernel([=](const KernelArgs& args) {
            const T* const masks = has_mask ? args.input<T>(6) : nullptr;
            ForEachHead(p, masks, [&](int64_t head, const T* mask) {
              const HeadGradient<T> gradient(p, args, head, mask);
              gradient.Clear(p);
              for (int64_t query = 0; query < p.queries; query += kTileQueries) {
                ForEachTileOfKeys(p, query, [&](const Tile& t) { gradient.AddTile(p, t); });
              }
            });
          }),
          .scratch_bytes = 2 * kTileQueries * kTileKeys * static_cast<int64_t>(sizeof(T)),
          .flops = p.Flops(3 * p.depth + 2 * p.value_depth)};
}

}  // namespace

void RegisterAttentionCpu(KernelRegistry& kernels) {
  kernels.Register("ScaledDotProductAttention", "CPU", [](const KernelContext& c) {
    return ForFloatingType(c, [&]<typename T>(TypeTag<T>) { return Attention<T>(c); });
  });
  kernels.Register("ScaledDotProductAttentionGrad", "CPU", [](const KernelContext& c) {
    return ForFloatingType(c, [&]<typename T>(TypeTag<T>) { return AttentionGrad<T>(c); });
  });
}

}  // namespace mirrorflow
