// SPDX-License-Identifier: Apache-2.0
//
// Random ops on the CPU. Element i of the global tensor comes from block i/4 of the op's Philox
// stream (block i/2 for double), no matter which replica computes it. A replica that holds a shard
// of the rows starts at its first element.
//
// Elements are computed in chunks that begin at multiples of kChunk. A vector therefore holds the
// same elements, rounded the same way, no matter where the rows are split.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "Eigen/Core"
#include "absl/base/casts.h"
#include "framework/core/hash.h"
#include "kernels/cpu/philox.h"
#include "kernels/cpu/reduced_precision.h"
#include "kernels/cpu/shard_rows.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

constexpr int kChunk = 64;  // elements, a multiple of 4

// The finaliser of SplitMix64: every bit of the result depends on every bit of x.
// Source: Steele, Lea and Flood, OOPSLA 2014.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Uses 24 bits, because every multiple of 2^-24 in [0, 1) is a float.
float ToUniform(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}

// Uses 52 bits, as the mantissa of a number in [1, 2).
double ToUniform(uint64_t word) {
  return absl::bit_cast<double>(uint64_t{0x3FF} << 52 | word >> 12) - 1;
}

// Each distribution's Fill() computes a chunk: elements [first, first + kChunk) of the global
// tensor, where `first` is a multiple of kChunk. Each value of `draw` selects a separate stream.

// Draws uniform numbers in [0, 1).
template <typename T>
struct Uniform {
  static void Fill(uint64_t key, uint64_t first, uint32_t draw, T* out) {
    using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    constexpr int kPerBlock = 16 / sizeof(T);
    constexpr int kBlocks = kChunk / kPerBlock;
    const uint64_t first_block = first / kPerBlock;
    PhiloxBlocks<kBlocks> blocks;
    for (int b = 0; b < kBlocks; ++b) {
      blocks.word[0][b] = static_cast<uint32_t>(first_block + b);
      blocks.word[1][b] = static_cast<uint32_t>((first_block + b) >> 32);
      blocks.word[2][b] = draw;
      blocks.word[3][b] = 0;
    }
    Philox4x32(key, blocks);
    for (int b = 0; b < kBlocks; ++b) {
      for (int i = 0; i < kPerBlock; ++i) {
        if constexpr (kPerBlock == 4) {
          out[4 * b + i] = ToUniform(Word{blocks.word[i][b]});
        } else {
          out[2 * b + i] = ToUniform(Word{blocks.word[2 * i + 1][b]} << 32 | blocks.word[2 * i][b]);
        }
      }
    }
  }
};

// Computes the sine and cosine of `turns` full turns, in [0, 1), without branches. Uses nested
// Taylor series around the nearest quarter turn.
template <typename T>
void SinCosOfTurns(T turns, T& sine, T& cosine) {
  constexpr int kTerms = sizeof(T) == 4 ? 5 : 9;  // the first omitted term rounds away
  const T quarter = std::floor(4 * turns + T(0.5));
  const T angle = (turns - quarter / 4) * (2 * std::numbers::pi_v<T>);
  const T square = angle * angle;
  T s = 1, c = 1;
  for (int k = kTerms; k > 0; --k) {
    s = 1 - s * square * T(1.0 / ((2 * k) * (2 * k + 1)));
    c = 1 - c * square * T(1.0 / ((2 * k - 1) * (2 * k)));
  }
  s *= angle;
  const int q = static_cast<int>(quarter);
  const T a = q & 1 ? c : s, b = q & 1 ? s : c;
  sine = q & 2 ? -a : a;
  cosine = (q + 1) & 2 ? -b : b;
}

// Draws normal numbers by the Box-Muller method: two uniform numbers give a radius and an angle.
template <typename T>
struct Normal {
  static void Fill(uint64_t key, uint64_t first, uint32_t draw, T* out) {
    constexpr int kPairs = kChunk / 2;
    T uniform[kChunk];
    Uniform<T>::Fill(key, first, draw, uniform);
    Eigen::Array<T, kPairs, 1> radius;
    // 1 - u is in (0, 1], where the logarithm is finite.
    for (int i = 0; i < kPairs; ++i) radius[i] = 1 - uniform[2 * i];
    radius = (T(-2) * radius.log()).sqrt();
    for (int i = 0; i < kPairs; ++i) {
      T sine, cosine;
      SinCosOfTurns(uniform[2 * i + 1], sine, cosine);
      out[2 * i] = radius[i] * cosine;
      out[2 * i + 1] = radius[i] * sine;
    }
  }
};

// Draws normal numbers, and redraws each element beyond two standard deviations (one in 22).
template <typename T>
struct Truncated {
  static void Fill(uint64_t key, uint64_t first, uint32_t draw, T* out) {
    const auto beyond = [](T v) { return std::abs(v) > 2; };
    Normal<T>::Fill(key, first, draw, out);
    while (std::any_of(out, out + kChunk, beyond)) {
      T again[kChunk];
      Normal<T>::Fill(key, first, ++draw, again);
      for (int i = 0; i < kChunk; ++i) out[i] = beyond(out[i]) ? again[i] : out[i];
    }
  }
};

// Computes elements [first, first + n) of the global tensor.
template <typename Distribution, typename T>
void Generate(uint64_t key, uint64_t first, int64_t n, T* out) {
  while (n > 0) {
    const uint64_t skip = first % kChunk;
    const int64_t count = std::min(static_cast<int64_t>(kChunk - skip), n);
    T chunk[kChunk];
    Distribution::Fill(key, first - skip, /*draw=*/0, chunk);
    std::copy_n(chunk + skip, count, out);
    first += count;
    out += count;
    n -= count;
  }
}

// Computes the same elements as Generate(), rounded to half or bfloat16. Uniform numbers are
// rounded down, because the range excludes 1.
template <typename Distribution>
void GenerateReduced(DataType dtype, uint64_t key, uint64_t first, int64_t n, uint16_t* out) {
  const float steps = dtype == DT_HALF ? 0x1p11f : 0x1p8f;
  for (; n > 0; first += kChunk, out += kChunk, n -= kChunk) {
    float chunk[kChunk];
    const int64_t count = std::min<int64_t>(kChunk, n);
    Generate<Distribution>(key, first, count, chunk);
    if constexpr (std::is_same_v<Distribution, Uniform<float>>) {
      for (int i = 0; i < count; ++i) chunk[i] = std::floor(chunk[i] * steps) / steps;
    }
    RoundToReduced(dtype, chunk, out, count);
  }
}

template <template <typename> typename Distribution>
absl::StatusOr<KernelPlan> CreateRandom(const KernelContext& c) {
  const uint64_t op = StableHash(c.node().name());
  const auto seed = static_cast<uint64_t>(c.attr<int64_t>("seed"));
  const auto seed2 = static_cast<uint64_t>(c.attr<int64_t>("seed2"));
  const bool own_seed = seed != 0 || seed2 != 0;
  const DataType dtype = c.output_dtype(0);
  // `T` is the storage type of the elements.
  const auto plan = [&]<typename T>(TypeTag<T>, auto generate) {
    return KernelPlan{
        .kernel = MakeKernel([=, shard = RandomShard(c)](const KernelArgs& args) {
          const StepParams& params = args.params();
          const uint64_t root = own_seed ? Mix(seed) ^ seed2 : params.seed;
          const uint64_t key = Mix(Mix(Mix(root) ^ op) ^ params.step) ^ params.iteration;
          shard.ForEachRun(params, args.output<T>(0), [&](auto... run) { generate(key, run...); });
        })};
  };
  if (IsReducedFloat(dtype)) {
    return plan(TypeTag<uint16_t>(),
                [dtype](auto... args) { GenerateReduced<Distribution<float>>(dtype, args...); });
  }
  return ForType(FloatingTypes(), dtype, [&]<typename T>(TypeTag<T>) {
    return plan(TypeTag<T>(), [](auto... args) { Generate<Distribution<T>>(args...); });
  });
}

}  // namespace

void RegisterRandomCpu(KernelRegistry& kernels) {
  kernels.Register("RandomStandardNormal", "CPU", CreateRandom<Normal>);
  kernels.Register("RandomUniform", "CPU", CreateRandom<Uniform>);
  kernels.Register("TruncatedNormal", "CPU", CreateRandom<Truncated>);
}

}  // namespace mirrorflow
