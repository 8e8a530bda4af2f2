// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/reduce.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

constexpr int64_t kBlockThreads = 256;
constexpr int64_t kWarp = 32;
// Enough for the largest GPUs: some 130 processors of 8 such blocks each.
constexpr int64_t kManyBlocks = 1024;

int64_t CountOf(const std::vector<IndexDim>& dims) {
  int64_t count = 1;
  for (const IndexDim& dim : dims) count *= dim.size;
  return count;
}

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many results lie next to each other in memory; 0 if elements of one do.
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

}  // namespace

int64_t PowerOfTwoFor(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

int64_t ReducedDims::results() const { return CountOf(kept); }
int64_t ReducedDims::count() const { return CountOf(reduced); }

ReducedDims ReduceDims(const Shape& in, const std::vector<bool>& is_reduced) {
  const std::vector<int64_t> strides = Strides(in);
  ReducedDims dims;
  for (int d = 0; d < in.rank(); ++d) {
    (is_reduced[d] ? dims.reduced : dims.kept).push_back({in.dim(d), strides[d]});
  }
  return dims;
}

ReducedDims ReduceAllDims(const Shape& in) {
  return ReduceDims(in, std::vector<bool>(in.rank(), true));
}

ReducedDims ReduceToChannels(const Shape& images, int channel_dim) {
  std::vector<bool> is_reduced(images.rank(), true);
  is_reduced[channel_dim] = false;
  return ReduceDims(images, is_reduced);
}

std::string TeamShape::ToString() const {
  return absl::StrCat(along, ", ", across, ", ", along_first ? "true" : "false");
}

unsigned int TeamShape::BlocksFor(int64_t results) const {
  return static_cast<unsigned int>(DivideUp(results, across));
}

TeamShape ChooseTeam(int64_t results, int64_t count, int64_t kept_run) {
  // A thread has some loads under way at a time.
  int64_t along = PowerOfTwoFor(DivideUp(count, 4));
  if (kept_run > 0) {
    along = std::min(along, kBlockThreads / std::min(kWarp, PowerOfTwoFor(kept_run)));
  } else {
    // The threads of a warp need not wait for others; they do where there is little else to do.
    const bool many = results * kWarp >= kManyBlocks * kBlockThreads;
    along = std::min(along, count <= 1024 && many ? kWarp : kBlockThreads);
  }
  return {.along = static_cast<int>(along),
          .across = static_cast<int>(kBlockThreads / along),
          .along_first = kept_run == 0};
}

int64_t ChooseParts(const TeamShape& team, int64_t results, int64_t count) {
  constexpr int64_t kLeastOfThread = 16;  // elements: less is not worth a second stage
  const int64_t blocks = team.BlocksFor(results);
  if (blocks == 0 || 2 * blocks > kManyBlocks) return 1;
  return std::clamp<int64_t>(count / (team.along * kLeastOfThread), 1, kManyBlocks / blocks);
}

std::vector<CudaStage> ReductionStages(const ReducedDims& dims, const ReduceCode& reduction,
                                       int64_t* scratch_bytes) {
  const int64_t results = dims.results(), count = dims.count();
  const std::string value =
      absl::StrCat("const auto i = ", OffsetText("o", dims.kept), " + ",
                   OffsetText("k", dims.reduced), "; return ", reduction.value, ";");
  const TeamShape team = ChooseTeam(results, count, KeptRun(dims));
  const int64_t wanted = ChooseParts(team, results, count);
  // Whole rounds of the threads, and no part without elements.
  const int64_t chunk =
      std::max<int64_t>(DivideUp(DivideUp(count, wanted), team.along) * team.along, 1);
  const int64_t parts = std::max<int64_t>(DivideUp(count, chunk), 1);
  const CudaGrid grid = {.x = team.BlocksFor(results),
                         .y = static_cast<unsigned int>(parts),
                         .threads = team.threads()};
  if (parts == 1) {
    return {{Call(reduction.op, results, count, team, chunk, value, reduction.finish), grid}};
  }
  const std::string partial =
      absl::StrCat("reinterpret_cast<", reduction.op, "::Type*>(scratch + ", *scratch_bytes, ")");
  *scratch_bytes = DivideUp(*scratch_bytes + parts * results * reduction.op_bytes, 64) * 64;
  const TeamShape last = ChooseTeam(results, parts, results > 1 ? results : 0);
  const std::string at = absl::StrCat("[k * ", results, " + o]");
  return {{Call(reduction.op, results, count, team, chunk, value,
                absl::StrCat(partial, "[blockIdx.y * ", results, " + o] = result;")),
           grid},
          {Call(reduction.op, results, parts, last, parts,
                absl::StrCat("return ", partial, at, ";"), reduction.finish),
           {.x = last.BlocksFor(results), .threads = last.threads()}}};
}

}  // namespace mirrorflow
