// SPDX-License-Identifier: Apache-2.0
//
// Stateless random ops on the CPU, whose numbers match TensorFlow's bit for bit. A key and a
// counter identify a Philox stream. Elements are drawn in groups, each from its own position in the
// stream. A group is the output of one block, except for truncated normal numbers: they reserve
// further blocks for redrawing rejected elements.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cpu/philox.h"
#include "kernels/cpu/reduced_precision.h"
#include "kernels/cpu/shard_rows.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

// A key and the 128-bit counter of the first block.
struct Stream {
  uint64_t key;
  uint64_t low;
  uint64_t high;
};

// Returns the random words of blocks [first, first + kBlocks).
template <int kBlocks>
PhiloxBlocks<kBlocks> BlocksOf(const Stream& stream, uint64_t first) {
  PhiloxBlocks<kBlocks> blocks;
  for (int b = 0; b < kBlocks; ++b) {
    const uint64_t low = stream.low + first + b;
    const uint64_t high = stream.high + (low < stream.low ? 1 : 0);
    blocks.word[0][b] = static_cast<uint32_t>(low);
    blocks.word[1][b] = static_cast<uint32_t>(low >> 32);
    blocks.word[2][b] = static_cast<uint32_t>(high);
    blocks.word[3][b] = static_cast<uint32_t>(high >> 32);
  }
  Philox4x32(stream.key, blocks);
  return blocks;
}

uint64_t Wide(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

// Returns the stream for two seeds. Scrambles the seeds, so that similar seeds give unrelated
// streams.
Stream StreamOf(int64_t seed0, int64_t seed1) {
  const Stream seeds{.key = Wide(0x3ec8f720, 0x02461e29),
                     .low = static_cast<uint64_t>(seed0),
                     .high = static_cast<uint64_t>(seed1)};
  const PhiloxBlocks<1> mixed = BlocksOf<1>(seeds, 0);
  return {.key = Wide(mixed.word[0][0], mixed.word[1][0]),
          .low = 0,
          .high = Wide(mixed.word[2][0], mixed.word[3][0])};
}

// --- Distributions ---------------------------------------------------------------------------
// Each distribution turns the words w of one block into 16 / sizeof(T) elements. The float
// distributions are also used for half and bfloat16.

// Draws uniform numbers in [0, 1): the low bits of a word as a binary fraction, with as many bits
// as the dtype's mantissa.
struct Uniform {
  int bits;
  void operator()(const uint32_t (&w)[4], float* out) const {
    const float unit = std::ldexp(1.0f, -bits);
    const uint32_t mask = (uint32_t{1} << bits) - 1;
    for (int i = 0; i < 4; ++i) out[i] = static_cast<float>(static_cast<int>(w[i] & mask)) * unit;
  }
  void operator()(const uint32_t (&w)[4], double* out) const {
    for (int i = 0; i < 2; ++i) {
      out[i] = static_cast<double>(Wide(w[2 * i + 1], w[2 * i] & 0xfffff)) * 0x1p-52;
    }
  }
};

// Draws normal numbers by the Box-Muller method. Uses the C library's functions, because others
// round the last bits differently.
struct Normal {
  template <typename T>
  void operator()(const uint32_t (&w)[4], T* out) const {
    T uniform[16 / sizeof(T)];
    Uniform{.bits = 23}(w, uniform);
    for (size_t i = 0; i < std::size(uniform); i += 2) {
      const T radius = std::sqrt(T(-2) * std::log(std::max(uniform[i], T(1e-7))));
      const T angle = static_cast<T>(2 * std::numbers::pi * uniform[i + 1]);
      out[i] = std::sin(angle) * radius;
      out[i + 1] = std::cos(angle) * radius;
    }
  }
};

// Draws integers in [low, low + range), as unsigned numbers. A range of 0 stands for all values of
// U.
template <typename U>
struct UniformInteger {
  U low = 0;
  U range = 0;
  void operator()(const uint32_t (&w)[4], U* out) const {
    for (size_t i = 0; i < 16 / sizeof(U); ++i) {
      U bits;
      if constexpr (sizeof(U) == 4) {
        bits = w[i];
      } else {
        bits = Wide(w[2 * i], w[2 * i + 1]);
      }
      out[i] = range == 0 ? bits : low + bits % range;
    }
  }
};

// --- Elements [first, first + n) of the global tensor ------------------------------------------

template <typename T, typename MakeBlock>
void Generate(const MakeBlock& make, const Stream& stream, uint64_t first, int64_t n, T* out) {
  constexpr int kBlocks = 16, kPerBlock = 16 / sizeof(T), kChunk = kBlocks * kPerBlock;
  while (n > 0) {
    const uint64_t block = first / kPerBlock, skip = first % kPerBlock;
    const PhiloxBlocks<kBlocks> words = BlocksOf<kBlocks>(stream, block);
    T chunk[kChunk];
    const int64_t count = std::min<int64_t>(kChunk - skip, n);
    for (int b = 0; b * kPerBlock < static_cast<int64_t>(skip) + count; ++b) {
      make({words.word[0][b], words.word[1][b], words.word[2][b], words.word[3][b]},
           chunk + b * kPerBlock);
    }
    std::copy_n(chunk + skip, count, out);
    first += count;
    out += count;
    n -= count;
  }
}

// Draws normal numbers within two standard deviations. Each element reserves enough words to ensure
// that a group never reads the words of the next group.
struct Truncated {};
constexpr uint64_t kReservedWords = 256;

template <typename T>
void Generate(const Truncated&, const Stream& stream, uint64_t first, int64_t n, T* out) {
  constexpr int kPerGroup = 16 / sizeof(T), kPerBlock = kPerGroup;
  constexpr uint64_t kBlocksPerGroup = kPerGroup * kReservedWords / 4;
  while (n > 0) {
    const uint64_t group = first / kPerGroup, skip = first % kPerGroup;
    T kept[kPerGroup + kPerBlock];
    int found = 0;
    for (uint64_t block = group * kBlocksPerGroup; found < kPerGroup; ++block) {
      const PhiloxBlocks<1> words = BlocksOf<1>(stream, block);
      T drawn[kPerBlock];
      Normal()({words.word[0][0], words.word[1][0], words.word[2][0], words.word[3][0]}, drawn);
      for (const T number : drawn) {
        if (std::abs(number) < 2) kept[found++] = number;
      }
    }
    const int64_t count = std::min<int64_t>(kPerGroup - skip, n);
    std::copy_n(kept + skip, count, out);
    first += count;
    out += count;
    n -= count;
  }
}

// Computes the same elements as Generate(), rounded to half or bfloat16.
template <typename Distribution>
void GenerateReduced(DataType dtype, const Distribution& distribution, const Stream& stream,
                     uint64_t first, int64_t n, uint16_t* out) {
  constexpr int64_t kChunk = 64;
  for (; n > 0; first += kChunk, out += kChunk, n -= kChunk) {
    float chunk[kChunk];
    const int64_t count = std::min(kChunk, n);
    Generate(distribution, stream, first, count, chunk);
    RoundToReduced(dtype, chunk, out, count);
  }
}

// --- Operands --------------------------------------------------------------------------------

constexpr int32_t kPhilox = 1, kAutomatic = 3;

// Reads the stream that an op draws from. The stream's operands are either two seeds, or a key, a
// counter and an algorithm. The op's other operands begin at next().
class StreamOperands {
 public:
  explicit StreamOperands(const KernelContext& c)
      : by_seeds_(c.node().input_index("seed") >= 0), seed_dtype_(c.input_dtype(1)) {}

  int next() const { return by_seeds_ ? 2 : 4; }
  bool fails_on_data() const { return !by_seeds_; }

  absl::Status Read(const KernelArgs& args, Stream* stream) const {
    if (by_seeds_) {
      *stream = ReadSeeds(args, 1, seed_dtype_);
      return absl::OkStatus();
    }
    const int32_t algorithm = *args.input<int32_t>(3);
    if (algorithm != kPhilox && algorithm != kAutomatic) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown algorithm; expected 1 (Philox) or 3 (automatic), got ", algorithm));
    }
    const uint64_t* counter = args.input<uint64_t>(2);
    *stream = {.key = *args.input<uint64_t>(1), .low = counter[0], .high = counter[1]};
    return absl::OkStatus();
  }

  static Stream ReadSeeds(const KernelArgs& args, int input, DataType dtype) {
    if (dtype == DT_INT32) {
      const int32_t* seeds = args.input<int32_t>(input);
      return StreamOf(seeds[0], seeds[1]);
    }
    const int64_t* seeds = args.input<int64_t>(input);
    return StreamOf(seeds[0], seeds[1]);
  }

 private:
  bool by_seeds_;
  DataType seed_dtype_;
};

// Returns a kernel that stores its elements as T. `choose` reads the distribution's operands,
// starting at a given index, and `generate` computes the elements.
template <typename T, typename Choose, typename Generator>
KernelPlan Plan(const KernelContext& c, Choose choose, Generator generate, bool can_fail = false) {
  const StreamOperands operands(c);
  return {.kernel = MakeKernel([=, shard = RandomShard(c)](const KernelArgs& args, Lane&) {
            Stream stream;
            MF_RETURN_IF_ERROR(operands.Read(args, &stream));
            MF_ASSIGN_OR_RETURN(const auto distribution, choose(args, operands.next()));
            shard.ForEachRun(args.params(), args.output<T>(0),
                             [&](auto... run) { generate(distribution, stream, run...); });
            return absl::OkStatus();
          }),
          .fails_on_data = can_fail || operands.fails_on_data()};
}

// --- Factories -------------------------------------------------------------------------------

int MantissaBits(DataType dtype) {
  if (dtype == DT_HALF) return 10;
  return dtype == DT_BFLOAT16 ? 7 : 23;
}

template <typename Distribution>
absl::StatusOr<KernelPlan> CreateFloating(const KernelContext& c) {
  const DataType dtype = c.output_dtype(0);
  Distribution distribution;
  if constexpr (std::is_same_v<Distribution, Uniform>) distribution.bits = MantissaBits(dtype);
  const auto choose = [distribution](const KernelArgs&, int) {
    return absl::StatusOr<Distribution>(distribution);
  };
  if (IsReducedFloat(dtype)) {
    return Plan<uint16_t>(c, choose,
                          [dtype](const auto&... run) { GenerateReduced(dtype, run...); });
  }
  return ForType(FloatingTypes(), dtype, [&]<typename T>(TypeTag<T>) {
    return Plan<T>(c, choose, [](const auto&... run) { Generate(run...); });
  });
}

// Creates a kernel for uniform integers in [minval, maxval).
absl::StatusOr<KernelPlan> CreateUniformInt(const KernelContext& c) {
  return ForType(TypeList<int32_t, int64_t>(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    using U = std::make_unsigned_t<T>;
    const bool empty = c.global_output_shape(0).num_elements() == 0;
    const auto choose = [empty](const KernelArgs& args,
                                int operand) -> absl::StatusOr<UniformInteger<U>> {
      const T low = *args.input<T>(operand), high = *args.input<T>(operand + 1);
      if (low >= high && !empty) {
        return absl::InvalidArgumentError(
            absl::StrCat("minval must be below maxval, got ", low, " and ", high));
      }
      return UniformInteger<U>{.low = static_cast<U>(low),
                               .range = static_cast<U>(static_cast<U>(high) - static_cast<U>(low))};
    };
    return Plan<U>(
        c, choose, [](const auto&... run) { Generate(run...); }, /*can_fail=*/true);
  });
}

absl::StatusOr<KernelPlan> CreateFullInt(const KernelContext& c) {
  const auto plan = [&]<typename U>(TypeTag<U>) {
    return Plan<U>(
        c,
        [](const KernelArgs&, int) {
          return absl::StatusOr<UniformInteger<U>>(UniformInteger<U>());
        },
        [](const auto&... run) { Generate(run...); });
  };
  if (DataTypeSize(c.output_dtype(0)) == 4) return plan(TypeTag<uint32_t>());
  return plan(TypeTag<uint64_t>());
}

absl::StatusOr<KernelPlan> CreateGetKeyCounter(const KernelContext& c) {
  const DataType dtype = c.input_dtype(0);
  return KernelPlan{.kernel = MakeKernel([dtype](const KernelArgs& args) {
                      const Stream stream = StreamOperands::ReadSeeds(args, 0, dtype);
                      *args.output<uint64_t>(0) = stream.key;
                      args.output<uint64_t>(1)[0] = stream.low;
                      args.output<uint64_t>(1)[1] = stream.high;
                    })};
}

absl::StatusOr<KernelPlan> CreateGetAlg(const KernelContext&) {
  return KernelPlan{
      .kernel = MakeKernel([](const KernelArgs& args) { *args.output<int32_t>(0) = kPhilox; })};
}

constexpr std::pair<const char*, KernelFactory> kRows[] = {
    {"StatelessRandomNormal", CreateFloating<Normal>},
    {"StatelessRandomUniform", CreateFloating<Uniform>},
    {"StatelessRandomUniformFullInt", CreateFullInt},
    {"StatelessRandomUniformInt", CreateUniformInt},
    {"StatelessTruncatedNormal", CreateFloating<Truncated>},
};

}  // namespace

void RegisterStatelessRandomCpu(KernelRegistry& kernels) {
  for (const auto& [op, create] : kRows) {
    kernels.Register(op, "CPU", create);
    kernels.Register(absl::StrCat(op, "V2"), "CPU", create);
  }
  kernels.Register("StatelessRandomGetAlg", "CPU", CreateGetAlg);
  kernels.Register("StatelessRandomGetKeyCounter", "CPU", CreateGetKeyCounter);
}

}  // namespace mirrorflow
