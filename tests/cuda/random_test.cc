// SPDX-License-Identifier: Apache-2.0
//
// Tests that random ops draw the same numbers on a GPU as on the CPU (see
// tests/ops/random_test.cc), for every seed and step and for any rows of the global tensor. Also
// tests the only other op that reads StepParams.
#include "absl/strings/str_cat.h"
#include "framework/runtime/evaluate_node.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "ops/registry.h"
#include "tests/support/cpu_and_gpu_kernels.h"
#include "tests/support/run_on_device.h"

namespace mirrorflow {
namespace {

// A case without expected results, its node, and the shard to run.
struct Drawn {
  OpCase op_case;
  std::unique_ptr<CaseNode> node;
  ShardOptions shard;
};

Drawn Parse(const std::string& text) {
  const absl::StatusOr<std::vector<OpCase>> cases = ParseOpCases(text + "\n", "random_test");
  EXPECT_TRUE(cases.ok()) << cases.status();
  absl::StatusOr<CaseNode> node = MakeCaseNode(cases->at(0), AllOps());
  EXPECT_TRUE(node.ok()) << node.status();
  return {.op_case = cases->at(0), .node = std::make_unique<CaseNode>(*std::move(node))};
}

Tensor OnTheCpu(const Drawn& drawn) {
  const std::vector<Shape> global = drawn.node->OutputShapes();
  const auto results = EvaluateNode(
      *drawn.node->node, drawn.node->inputs,
      drawn.shard.output_shapes.empty() ? global : drawn.shard.output_shapes, CpuAndGpuKernels(),
      {.params = drawn.shard.params,
       .output_shardings = drawn.shard.output_shardings,
       .global_output_shapes =
           drawn.shard.output_shapes.empty() ? absl::Span<const Shape>() : absl::MakeSpan(global)});
  EXPECT_TRUE(results.ok()) << results.status();
  return results->at(0);
}

void ExpectTheNumbersOfTheCpu(const std::vector<Drawn>& all) {
  auto device = CreateCudaDevice(0, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  NodesOnDevice nodes(device->get(), &CpuAndGpuKernels());
  for (const Drawn& drawn : all) {
    const absl::StatusOr<int> number = nodes.Add(*drawn.node, drawn.shard);
    ASSERT_TRUE(number.ok()) << number.status();
  }
  const absl::Status finished = nodes.Finish();
  ASSERT_TRUE(finished.ok()) << finished;
  for (size_t i = 0; i < all.size(); ++i) {
    const absl::StatusOr<std::vector<Tensor>> got = nodes.Run(static_cast<int>(i));
    ASSERT_TRUE(got.ok()) << got.status();
    const Tensor want = OnTheCpu(all[i]);
    const Tolerance tolerance = ToleranceOf(*all[i].node->node, {}, {&want, 1});
    EXPECT_EQ(Difference(want, got->at(0), tolerance), "") << all[i].op_case.ToString();
  }
}

constexpr const char* kDistributions[] = {"RandomStandardNormal", "RandomUniform",
                                          "TruncatedNormal"};

TEST(CudaRandomTest, DependsOnSeedStepAndIterationLikeCpu) {
  std::vector<Drawn> all;
  for (const char* op : kDistributions) {
    for (const char* dtype : {"half", "bfloat16", "float", "double"}) {
      for (const char* seeds : {"", ", seed=7", ", seed2=9", ", seed=-1, seed2=3"}) {
        all.push_back(Parse(
            absl::StrCat("case ", op, " {T=int32, dtype=", dtype, seeds, "}\nin int32<1>{2100}")));
        all.back().shard.params = {.step = 3 + all.size(), .seed = 1ull << 63, .iteration = 5};
      }
    }
  }
  ExpectTheNumbersOfTheCpu(all);
}

// How a tensor is sharded. A row of 33 elements can begin at any element of a block. Each row of
// the axis corresponds to `factor` rows of the dimension.
struct Cut {
  Shape global;
  int dim;
  int64_t factor;
};

// Adds the case `text` for rows [3, 8) of 12, and for an empty shard.
void AddShards(const std::string& text, const Cut& cut, std::vector<Drawn>* all) {
  for (const int64_t rows : {5, 0}) {
    Shape local = cut.global;
    local.set_dim(cut.dim, rows * cut.factor);
    all->push_back(Parse(text));
    ShardOptions& shard = all->back().shard;
    shard.params.first_row[2] = 3;
    shard.output_shardings = {Sharded{/*axis=*/2, cut.dim, cut.factor}};
    shard.output_shapes = {local};
  }
}

TEST(CudaRandomTest, RowIsSameOnAnyReplica) {
  std::vector<Drawn> all;
  for (const Cut& cut :
       {Cut{{12, 11, 3}, 0, 1}, Cut{{24, 33}, 0, 2}, Cut{{5, 12, 7}, 1, 1}, Cut{{600, 12}, 1, 1}}) {
    std::string shape = absl::StrCat("in int32<", cut.global.rank(), ">{");
    for (int d = 0; d < cut.global.rank(); ++d) {
      absl::StrAppend(&shape, d > 0 ? ", " : "", cut.global.dim(d));
    }
    shape += "}";
    for (const char* dtype : {"half", "float", "double"}) {
      for (const char* op : kDistributions) {
        AddShards(absl::StrCat("case ", op, " {T=int32, dtype=", dtype, "}\n", shape), cut, &all);
      }
      for (const char* op :
           {"StatelessRandomNormal", "StatelessRandomUniform", "StatelessTruncatedNormal"}) {
        AddShards(absl::StrCat("case ", op, " {T=int32, Tseed=int64, dtype=", dtype, "}\n", shape,
                               "\nin int64<2>{12, -34}"),
                  cut, &all);
      }
    }
    for (const char* dtype : {"int32", "int64"}) {
      AddShards(
          absl::StrCat("case StatelessRandomUniformInt {T=int32, Tseed=int32, dtype=", dtype, "}\n",
                       shape, "\nin int32<2>{5, 6}\nin ", dtype, "<>{-10}\nin ", dtype, "<>{17}"),
          cut, &all);
    }
  }
  ExpectTheNumbersOfTheCpu(all);
}

TEST(CudaReplicaIndexTest, ReturnsIndexOfReplica) {
  std::vector<Drawn> all;
  all.push_back(Parse("case ReplicaIndex {}"));
  all.back().shard.params = {.step = 1, .seed = 2, .iteration = 3, .replica = 4};
  ExpectTheNumbersOfTheCpu(all);
}

}  // namespace
}  // namespace mirrorflow
