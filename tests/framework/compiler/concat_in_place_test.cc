// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/concat_in_place.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/compiler/plan/assign_storage.h"
#include "framework/compiler/plan/check_plan.h"
#include "framework/compiler/plan/choose_kernels.h"
#include "framework/compiler/plan/emit_instructions.h"
#include "framework/compiler/plan/infer_local_shapes.h"
#include "framework/compiler/plan/plan_memory.h"
#include "framework/compiler/plan/schedule_nodes.h"
#include "gtest/gtest.h"
#include "tests/support/compilation.h"

namespace mirrorflow {
namespace {

struct Placement {
  std::string slices;  // `value in whole+offset`, and `/stride` if there are gaps between its rows
  int64_t arena_bytes = 0;
};

// Plans a step with a feed `x` of shape [2,4,4,2].
Placement Place(absl::string_view graph, const std::vector<std::string>& fetches) {
  const std::string text = absl::StrCat("x = Placeholder() {dtype=float, shape=<2,4,4,2>}\n",
                                        "first = Const() {dtype=int32, value=int32<>{0}}\n",
                                        "last = Const() {dtype=int32, value=int32<>{3}}\n", graph);
  auto step = ParseStep(text, {.feeds = {{"x", {2, 4, 4, 2}}}, .fetches = fetches});
  EXPECT_TRUE(step.ok()) << step.status();
  if (!step.ok()) return {};
  PlanState state((*step)->c, {}, DeviceTraits(), nullptr);
  absl::Status status =
      RunPasses(state, InferLocalShapes(), ChooseKernels(), ConcatInPlace(), ScheduleNodes(),
                AssignStorage(), EmitInstructions(), PlanMemory());
  EXPECT_TRUE(status.ok()) << status;
  status = CheckPlan::Check(*state.plan);
  EXPECT_TRUE(status.ok()) << status;
  Placement placement = {.arena_bytes = state.plan->arena_bytes};
  for (const ConcatSlice& placed : state.slices) {
    const InputSlice& slice = placed.slice;
    absl::StrAppend(&placement.slices, placement.slices.empty() ? "" : ", ",
                    placed.value().node->name(), " in ", placed.concat->name(), "+", slice.offset);
    if (slice.row_stride > 0) absl::StrAppend(&placement.slices, "/", slice.row_stride);
  }
  return placement;
}

// Each value that has the shape of `x` has 256 bytes, in rows of 8.
constexpr int64_t kBytes = 256;

TEST(ConcatInPlaceTest, AnyKernelWritesContiguousSlice) {
  const Placement placement = Place(R"(
a = Tanh(x) {T=float}
b = Neg(x) {T=float}
c = ConcatV2(a, b, first) {N=2, T=float, Tidx=int32}
)",
                                    {"c"});
  EXPECT_EQ(placement.slices, "a in c+0, b in c+256");
  EXPECT_EQ(placement.arena_bytes, 2 * kBytes);
}

TEST(ConcatInPlaceTest, PackAlongFirstDimensionIsContiguous) {
  const Placement placement = Place(R"(
a = Tanh(x) {T=float}
b = Neg(x) {T=float}
c = Pack(a, b) {N=2, T=float, axis=0}
)",
                                    {"c"});
  EXPECT_EQ(placement.slices, "a in c+0, b in c+256");
  EXPECT_EQ(placement.arena_bytes, 2 * kBytes);
}

// The kernel of Tanh writes contiguous rows, so the Concat copies them.
TEST(ConcatInPlaceTest, KernelThatSupportsStrideWritesRowsWithGaps) {
  const Placement placement = Place(R"(
a = Tanh(x) {T=float}
b = MaxPool(x) {T=float, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME"}
c = ConcatV2(a, b, last) {N=2, T=float, Tidx=int32}
)",
                                    {"c"});
  EXPECT_EQ(placement.slices, "b in c+8/16");
  EXPECT_EQ(placement.arena_bytes, 3 * kBytes);
}

TEST(ConcatInPlaceTest, ConcatInConcatIsSlice) {
  const Placement placement = Place(R"(
a = MaxPool(x) {T=float, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME"}
b = AvgPool(x) {T=float, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME"}
c = ConcatV2(a, x, last) {N=2, T=float, Tidx=int32}
d = ConcatV2(b, c, last) {N=2, T=float, Tidx=int32}
e = Pack(d) {N=1, T=float, axis=0}
)",
                                    {"e"});
  EXPECT_EQ(placement.slices, "d in e+0, b in d+0/24, c in d+8/24, a in c+0/24");
  EXPECT_EQ(placement.arena_bytes, 3 * kBytes);
}

TEST(ConcatInPlaceTest, ValueWithOtherUserIsCopied) {
  const Placement placement = Place(R"(
a = Tanh(x) {T=float}
b = Neg(x) {T=float}
view = Reshape(b, sizes) {T=float}
sizes = Const() {dtype=int32, value=int32<4>{2, 4, 4, 2}}
twice = Exp(x) {T=float}
fetched = Abs(x) {T=float}
c = ConcatV2(x, a, view, twice, twice, fetched, first) {N=6, T=float, Tidx=int32}
d = Neg(a) {T=float}
)",
                                    {"c", "d", "fetched"});
  EXPECT_EQ(placement.slices, "");
}

}  // namespace
}  // namespace mirrorflow
