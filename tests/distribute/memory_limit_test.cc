// SPDX-License-Identifier: Apache-2.0
//
// A session stays within `max_bytes`: it computes how much memory a step needs before it allocates
// any. If the system refuses memory anyway, the run fails, and the next run is not affected.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "framework/graph/text_form.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/registry.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

Graph Parsed(const char* text) {
  absl::StatusOr<Graph> graph = ParseGraph(text, AllOps());
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

// Fetches `fetches` once in a session that is limited to `max_bytes`.
absl::Status RunWith(const Graph& graph, const std::vector<std::string>& fetches, int replicas,
                     int64_t max_bytes) {
  const auto session =
      CreateTestSession(graph, {.replicas = replicas, .session = {.max_bytes = max_bytes}});
  if (!session.ok()) return session.status();
  std::vector<Output> outputs;
  for (const std::string& name : fetches) outputs.push_back(graph.FindNode(name)->output(0));
  return (*session)->Run({}, outputs).status();
}

void ExpectTooMuch(const absl::Status& status, const char* what, const char* numbers) {
  EXPECT_THAT(status, IsError(absl::StatusCode::kResourceExhausted, what, numbers));
}

TEST(MemoryLimitTest, VariablesOfAllReplicasCountTowardsLimit) {
  const Graph graph = Parsed(R"(
      small = VarHandleOp() {dtype=float, shape=<1024>}
      large = VarHandleOp() {dtype=float, shape=<1048576>}
      c = Const() {dtype=float, value=float<>{1}}
  )");
  EXPECT_TRUE(RunWith(graph, {"c"}, 1, 5 * kMiB).ok());
  ExpectTooMuch(RunWith(graph, {"c"}, 2, 5 * kMiB), "variable 'large' with 4194304 bytes",
                "5242880 bytes, got 8396800");
  EXPECT_TRUE(RunWith(graph, {"c"}, 2, 9 * kMiB).ok());
}

// A graph of a few bytes needs 4 TiB. The error is the same for a limit that exceeds the memory of
// any machine.
TEST(MemoryLimitTest, StepValuesAreCountedBeforeAllocation) {
  const Graph graph = Parsed(R"(
      shape = Const() {dtype=int64, value=int64<2>{1048576, 1048576}}
      one = Const() {dtype=float, value=float<>{1}}
      filled = Fill(shape, one) {T=float, index_type=int64}
      axes = Const() {dtype=int32, value=int32<2>{0, 1}}
      y = Sum(filled, axes) {T=float, Tidx=int32}
  )");
  for (const int replicas : {1, 2}) {
    for (const int64_t limit : {kMiB, 1024 * 1024 * kMiB}) {
      ExpectTooMuch(RunWith(graph, {"y"}, replicas, limit), "Fill(filled) with 4398046511104 bytes",
                    "at most");
    }
  }
}

TEST(MemoryLimitTest, CopiesOfFetchesCountTowardsLimit) {
  const Graph graph = Parsed(R"(
      v = VarHandleOp() {dtype=float, shape=<262144>}
      r0 = ReadVariableOp(v) {dtype=float}
      r1 = ReadVariableOp(v) {dtype=float}
      r2 = ReadVariableOp(v) {dtype=float}
  )");
  EXPECT_NE(RunWith(graph, {"r0"}, 1, 2 * kMiB).code(), absl::StatusCode::kResourceExhausted);
  ExpectTooMuch(RunWith(graph, {"r0", "r1", "r2"}, 1, 2 * kMiB), "its fetches need", "2097152");
}

// Limits the address space of the process, while in scope, to its current size plus `more` bytes.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(int64_t more) {
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    long pages = 0;
    std::FILE* const file = std::fopen("/proc/self/statm", "re");
    EXPECT_TRUE(file != nullptr && std::fscanf(file, "%ld", &pages) == 1);
    if (file != nullptr) std::fclose(file);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + more);
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_;
};

TEST(MemoryLimitTest, StepRunsAgainAfterAllocationOfItsOutputsFails) {
  const Graph graph = Parsed(R"(
      shape = Const() {dtype=int32, value=int32<2>{4096, 4096}}
      x = Placeholder() {dtype=float, shape=<>}
      y = Fill(shape, x) {T=float, index_type=int32}
  )");
  const auto session = CreateTestSession(graph, {});
  ASSERT_TRUE(session.ok()) << session.status();
  auto step =
      (*session)->Prepare({graph.FindNode("x")->output(0)}, {graph.FindNode("y")->output(0)});
  ASSERT_TRUE(step.ok()) << step.status();
  // The step cannot reuse the memory of outputs that the caller keeps.
  const auto kept = step->Run({Tensor::Scalar(1.0f)});
  ASSERT_TRUE(kept.ok()) << kept.status();
  {
    const AddressSpaceLimit limit(16 * kMiB);
    EXPECT_EQ(step->Run({Tensor::Scalar(2.0f)}).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
  const auto last = step->Run({Tensor::Scalar(3.0f)});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ((*last)[0].dtype(), DT_FLOAT);
  EXPECT_EQ((*last)[0].shape(), Shape({4096, 4096}));
  EXPECT_EQ((*last)[0].flat<float>()[4096 * 4096 - 1], 3.0f);
  EXPECT_EQ((*kept)[0].flat<float>()[0], 1.0f);
}

}  // namespace
}  // namespace mirrorflow
