// SPDX-License-Identifier: Apache-2.0
//
// Random ops, both stateful (from the session's seed and step) and stateless. They draw the same
// numbers as the CPU kernels.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/hash.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/elementwise.h"

namespace mirrorflow {
namespace {

// The elements of global output 0 that this replica computes; see philox::Shard.
struct Shard {
  int64_t runs = 1;
  int64_t length;
  int64_t stride = 0;
  std::string first = "0";

  std::string ToString() const {
    return absl::StrCat("philox::Shard<", runs, ", ", length, ", ", stride, ">{", first, "}");
  }
  // Returns the grid for philox::Generate.
  CudaGrid Grid(DataType dtype) const {
    const int64_t group = 16 / std::max<int64_t>(DataTypeSize(dtype), 4);
    const int64_t groups = (length + group - 2) / group + 1;
    const CudaGrid grid;
    return {.x = static_cast<unsigned int>(
                std::max<int64_t>(1, DivideUp(runs * groups, grid.threads)))};
  }
};

Shard ShardOf(const KernelContext& c) {
  const Shape &local = c.output_shape(0), &global = c.global_output_shape(0);
  const Sharded* sharded = AsSharded(c.output_sharding(0));
  if (sharded == nullptr) return {.length = local.num_elements()};
  const int64_t row_size = local.num_elements_from(sharded->dim + 1);
  return {.runs = local.num_elements_before(sharded->dim),
          .length = local.dim(sharded->dim) * row_size,
          .stride = global.dim(sharded->dim) * row_size,
          .first = absl::StrCat("params->first_row[", sharded->axis, "] * ",
                                sharded->factor * row_size)};
}

// Distributions that both kinds of ops draw from, as their device code calls them.
constexpr char kNormal[] = "Normal", kUniform[] = "Uniform", kTruncated[] = "Truncated";

// ---- Stateful ops ----

// Creates a kernel that draws from a distribution of code/random.cuh.
template <const char* kDistribution>
absl::StatusOr<KernelPlan> CreateRandom(const KernelContext& c) {
  if (c.output_shape(0).num_elements() == 0) return MakeCudaKernel(c, {});
  const auto seed = static_cast<uint64_t>(c.attr<int64_t>("seed"));
  const auto seed2 = static_cast<uint64_t>(c.attr<int64_t>("seed2"));
  // The node's seeds replace the session's.
  const std::string root = seed != 0 || seed2 != 0
                               ? absl::StrCat("stateful::Mix(", seed, "ull) ^ ", seed2, "ull")
                               : "params->seed";
  const Shard shard = ShardOf(c);
  const DataType dtype = c.output_dtype(0);
  return MakeCudaKernel(
      c,
      {{.body = absl::StrCat("  stateful::Draw<stateful::", kDistribution, "<", CudaType(dtype),
                             ">>(", root, ", ", StableHash(c.node().name()),
                             "ull, *params,\n      ", shard.ToString(), ", z0);"),
        .grid = shard.Grid(dtype)}},
      {.includes = {"random.cuh"}});
}

// ---- Stateless ops ----

// Returns whether the node takes seeds. Otherwise it takes a key, a counter and an algorithm.
bool IsBySeeds(const KernelContext& c) { return c.node().input_index("seed") >= 0; }

constexpr char kBadAlgorithm[] = "unknown algorithm; expected 1 (Philox) or 3 (automatic), got";
constexpr char kBadLimits[] = "empty range [minval, maxval); expected maxval above minval, got";
constexpr char kBadEither[] =
    "unknown algorithm, or empty range [minval, maxval); expected 1 (Philox) or 3 (automatic), and "
    "maxval above minval, got";

// Makes a kernel that draws from `distribution`, which is defined in code/stateless_random.cuh and
// is followed by its operands. `check_limits` holds statements that call fail if the range is
// empty.
KernelPlan MakeStateless(const KernelContext& c, absl::string_view distribution,
                         absl::string_view check_limits = "") {
  const DataType dtype = c.output_dtype(0);
  std::string body(check_limits), spoil, error = check_limits.empty() ? "" : kBadLimits;
  if (IsBySeeds(c)) {
    absl::StrAppend(&body, "  const auto stream = stateless::StreamForBlock(a1);\n");
  } else {
    absl::StrAppend(&body,
                    "  const stateless::Stream stream = {*a1, a2[0], a2[1]};\n"
                    "  if (!stateless::IsKnown(*a3)) fail(*a3);\n");
    spoil = "    if (!stateless::IsKnown(*a3)) stateless::Spoil(values);\n";
    error = check_limits.empty() ? kBadAlgorithm : kBadEither;
  }
  const Shard shard = ShardOf(c);
  // A kernel that can fail also runs for an empty output.
  if (error.empty() && c.output_shape(0).num_elements() == 0) return MakeCudaKernel(c, {});
  absl::StrAppend(&body, "  philox::Generate(", shard.ToString(),
                  ", z0, [&](uint64 group, auto& values) {\n    stateless::", distribution,
                  "(stream, group, values);\n", spoil, "  });");
  return MakeCudaKernel(c, {{.body = std::move(body), .grid = shard.Grid(dtype)}},
                        {.includes = {"stateless_random.cuh"}, .error = std::move(error)});
}

std::string OfOutputType(const KernelContext& c, absl::string_view distribution) {
  return absl::StrCat(distribution, "<", CudaType(c.output_dtype(0)), ">");
}

template <const char* kDistribution>
absl::StatusOr<KernelPlan> CreateFloating(const KernelContext& c) {
  return MakeStateless(c, OfOutputType(c, kDistribution) + "()");
}

absl::StatusOr<KernelPlan> CreateFullInt(const KernelContext& c) {
  return MakeStateless(c, OfOutputType(c, "UniformInteger") + "{0, 0}");
}
absl::StatusOr<KernelPlan> CreateUniformInt(const KernelContext& c) {
  const int limits = IsBySeeds(c) ? 2 : 4;
  const std::string low = absl::StrCat("*a", limits), high = absl::StrCat("*a", limits + 1);
  const std::string distribution =
      absl::StrCat(OfOutputType(c, "UniformInteger"), "{", low, ", ", high, "}");
  // If the output is empty, the range may also be empty.
  if (c.global_output_shape(0).num_elements() == 0) return MakeStateless(c, distribution);
  return MakeStateless(c, distribution,
                       absl::StrCat("  if (", low, " >= ", high, ") fail(", high, ");\n"));
}

absl::StatusOr<KernelPlan> CreateGetKeyCounter(const KernelContext& c) {
  return MakeCudaKernel(c,
                        {{.body = "  const auto stream = stateless::StreamOf(a0[0], a0[1]);\n"
                                  "  z0[0] = stream.key;\n"
                                  "  z1[0] = stream.low;\n"
                                  "  z1[1] = stream.high;",
                          .grid = {.threads = 1}}},
                        {.includes = {"stateless_random.cuh"}});
}

absl::StatusOr<KernelPlan> CreateGetAlg(const KernelContext& c) {
  return MakeIndexed(c, "1");  // Philox
}

constexpr std::pair<const char*, KernelFactory> kStateless[] = {
    {"StatelessRandomNormal", CreateFloating<kNormal>},
    {"StatelessRandomUniform", CreateFloating<kUniform>},
    {"StatelessRandomUniformFullInt", CreateFullInt},
    {"StatelessRandomUniformInt", CreateUniformInt},
    {"StatelessTruncatedNormal", CreateFloating<kTruncated>},
};

}  // namespace

void RegisterRandomCuda(KernelRegistry& kernels) {
  kernels.Register("RandomStandardNormal", kGpu, CreateRandom<kNormal>);
  kernels.Register("RandomUniform", kGpu, CreateRandom<kUniform>);
  kernels.Register("TruncatedNormal", kGpu, CreateRandom<kTruncated>);
  for (const auto& [op, create] : kStateless) {
    kernels.Register(op, kGpu, create);
    kernels.Register(absl::StrCat(op, "V2"), kGpu, create);
  }
  kernels.Register("StatelessRandomGetAlg", kGpu, CreateGetAlg);
  kernels.Register("StatelessRandomGetKeyCounter", kGpu, CreateGetKeyCounter);
}

}  // namespace mirrorflow
