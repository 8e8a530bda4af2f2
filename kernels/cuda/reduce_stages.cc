// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/reduce_stages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

constexpr int64_t kBlockThreads = 256;
constexpr int64_t kWarp = 32;
// Enough for the largest GPUs, which have about 130 multiprocessors that run 8 such blocks each.
constexpr int64_t kManyBlocks = 1024;

int64_t CountOf(const std::vector<IndexDim>& dims) {
  int64_t count = 1;
  for (const IndexDim& dim : dims) count *= dim.size;
  return count;
}

// Returns how many results are adjacent in memory, or 0 if the elements of one result are adjacent.
int64_t KeptRun(const ReducedDims& dims) {
  int64_t run = 1;
  for (auto dim = dims.kept.rbegin(); dim != dims.kept.rend(); ++dim) {
    if (dim->size == 1) continue;
    if (dim->stride != run) break;
    run *= dim->size;
  }
  const bool elements = std::any_of(dims.reduced.begin(), dims.reduced.end(),
                                    [](IndexDim dim) { return dim.size > 1 && dim.stride == 1; });
  return elements ? 0 : run;
}

std::string Call(const std::string& op, int64_t results, int64_t count, const TeamShape& team,
                 int64_t chunk, absl::string_view value, absl::string_view finish) {
  return absl::StrCat("  Reduce<", op, ", ", results, ", ", count, ", ", team.ToString(), ", ",
                      chunk, ">(\n      [&](auto o, auto k) { ", value,
                      " },\n      [&](auto o, auto result) { ", finish, " });");
}

CudaStage StageOf(const ReducedDims& dims, const ReduceCode& code, const TeamShape& team,
                  const Parts& parts) {
  const std::string value =
      absl::StrCat("const auto i = ", OffsetText("o", dims.kept), " + ",
                   OffsetText("k", dims.reduced), "; return ", code.value, ";");
  return {
      .body = Call(code.op, dims.results(), dims.count(), team, parts.chunk, value, code.finish),
      .grid = {.x = team.BlocksFor(dims.results()),
               .y = static_cast<unsigned int>(parts.parts),
               .threads = team.threads()}};
}

}  // namespace

int64_t PowerOfTwoFor(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

int64_t ReducedDims::results() const { return CountOf(kept); }
int64_t ReducedDims::count() const { return CountOf(reduced); }

ReducedDims ReduceDims(const Shape& in, const std::vector<bool>& is_reduced) {
  const std::vector<int64_t> strides = in.Strides();
  ReducedDims dims;
  for (int d = 0; d < in.rank(); ++d) {
    (is_reduced[d] ? dims.reduced : dims.kept).push_back({in.dim(d), strides[d]});
  }
  return dims;
}

ReducedDims ReduceToChannels(const Shape& images, int channel_dim) {
  std::vector<bool> is_reduced(images.rank(), true);
  is_reduced[channel_dim] = false;
  return ReduceDims(images, is_reduced);
}

DataType SumType(DataType dtype) {
  if (IsFloating(dtype)) return dtype;
  return DataTypeSize(dtype) == 8 ? DT_UINT64 : DT_UINT32;
}

std::string TeamShape::ToString() const {
  return absl::StrCat(along, ", ", across, ", ", along_first ? "true" : "false");
}

unsigned int TeamShape::BlocksFor(int64_t results) const {
  return static_cast<unsigned int>(DivideUp(results, across));
}

TeamShape ChooseTeam(int64_t results, int64_t count, int64_t kept_run) {
  // Gives each thread enough elements to keep several loads in flight.
  int64_t along = PowerOfTwoFor(DivideUp(count, 4));
  if (kept_run > 0) {
    along = std::min(along, kBlockThreads / std::min(kWarp, PowerOfTwoFor(kept_run)));
  } else {
    // A single warp needs no barriers. A result gets a whole block if it has many elements, or if
    // the reduction has few results.
    const bool many = results * kWarp >= kManyBlocks * kBlockThreads;
    along = std::min(along, count <= 1024 && many ? kWarp : kBlockThreads);
  }
  return {.along = static_cast<int>(along),
          .across = static_cast<int>(kBlockThreads / along),
          .along_first = kept_run == 0};
}

TeamShape TeamForRows(int64_t rows, int64_t columns) {
  constexpr int64_t kWarpsThatFill = 1024;
  const bool many = rows >= kWarpsThatFill && columns <= 1024;
  const int64_t max_along = many ? kWarp : 1024;
  const int64_t along = std::min(PowerOfTwoFor((columns + 7) / 8), max_along);
  const int64_t across = std::max<int64_t>(256 / along, 1);
  return {
      .along = static_cast<int>(along), .across = static_cast<int>(across), .along_first = true};
}

Parts ChooseParts(const TeamShape& team, int64_t results, int64_t count) {
  constexpr int64_t kMinPerThread = 16;  // elements; fewer are not worth a second stage
  const int64_t blocks = team.BlocksFor(results);
  int64_t wanted = 1;
  if (blocks > 0 && 2 * blocks <= kManyBlocks) {
    wanted = std::clamp<int64_t>(count / (team.along * kMinPerThread), 1, kManyBlocks / blocks);
  }
  // Each part is a whole number of rounds over the threads, and no part is empty.
  const int64_t rounds = std::max<int64_t>(DivideUp(DivideUp(count, wanted), team.along), 1);
  const int64_t chunk = rounds * team.along;
  return {.parts = std::max<int64_t>(DivideUp(count, chunk), 1), .chunk = chunk};
}

std::string PartialsText(const ReduceCode& code, int64_t offset) {
  return absl::StrCat("reinterpret_cast<", code.op, "::Type*>(scratch + ", offset, ")");
}

CudaStage PartialStage(const ReducedDims& dims, const ReduceCode& code, const TeamShape& team,
                       const Parts& parts, absl::string_view partials) {
  const int64_t results = dims.results();
  ReduceCode partial = code;
  partial.finish = absl::StrCat(partials, "[blockIdx.y * ", results, " + o] = result;");
  return StageOf(dims, partial, team, parts);
}

CudaStage LastStage(int64_t results, int64_t parts, const ReduceCode& code, const TeamShape& team,
                    absl::string_view partials) {
  const std::string value = absl::StrCat("return ", partials, "[k * ", results, " + o];");
  return {.body = Call(code.op, results, parts, team, parts, value, code.finish),
          .grid = {.x = team.BlocksFor(results), .threads = team.threads()}};
}

std::vector<CudaStage> ReductionStages(const ReducedDims& dims, const ReduceCode& code,
                                       int64_t* scratch_bytes) {
  const int64_t results = dims.results(), count = dims.count();
  const TeamShape team = ChooseTeam(results, count, KeptRun(dims));
  const Parts parts = ChooseParts(team, results, count);
  if (parts.parts == 1) return {StageOf(dims, code, team, parts)};
  const std::string partials = PartialsText(code, *scratch_bytes);
  *scratch_bytes = DivideUp(*scratch_bytes + parts.parts * results * code.op_bytes, 64) * 64;
  const TeamShape last = ChooseTeam(results, parts.parts, results > 1 ? results : 0);
  return {PartialStage(dims, code, team, parts, partials),
          LastStage(results, parts.parts, code, last, partials)};
}

}  // namespace mirrorflow
