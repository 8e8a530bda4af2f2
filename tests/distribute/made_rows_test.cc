// SPDX-License-Identifier: Apache-2.0
//
// If a value takes its row count from a sharded value, as the result of OnesLike does, it is
// sharded like that value, and its sums are partial. LocalPart, variables synchronised on read, and
// fetches make this visible.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow_debug.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

Output Number(const Scope& s, double value) { return ops::ScalarConst(s, DT_FLOAT, value); }

Output RowsOf(const Scope& s, Output x) {
  return ops::StridedSlice(s, ops::Shape(s, x), ops::VectorConst(s, {0}), ops::VectorConst(s, {1}),
                           ops::VectorConst(s, {1}));
}

Output RangeOfRows(const Scope& s, Output x) {
  const auto number = [&](double value) { return ops::ScalarConst(s, DT_INT32, value); };
  return ops::Range(s, number(0), ops::Reshape(s, RowsOf(s, x), Shape({})), number(1));
}

// Makes a value from x [rows, 2]. In the sum of its elements, each row of x contributes `row`.
struct Maker {
  const char* name;
  double row;
  std::function<Output(const Scope& s, Output x)> make;
};

const std::vector<Maker>& Makers() {
  static const auto& makers = *new std::vector<Maker>{
      {"OnesLike", 2, [](const Scope& s, Output x) { return ops::OnesLike(s, x); }},
      {"ZerosLike", 2,
       [](const Scope& s, Output x) { return ops::AddV2(s, ops::ZerosLike(s, x), Number(s, 1)); }},
      {"OnesLikeOfIntegers", 2,
       [](const Scope& s, Output x) { return ops::OnesLike(s, ops::Cast(s, x, DT_INT32)); }},
      {"OnesLikeOfComputedRows", 1,
       [](const Scope& s, Output x) { return ops::OnesLike(s, ops::Sum(s, x, {1})); }},
      {"OnesLikeOfOnesLike", 2,
       [](const Scope& s, Output x) { return ops::OnesLike(s, ops::OnesLike(s, x)); }},
      {"Fill", 2,
       [](const Scope& s, Output x) { return ops::Fill(s, ops::Shape(s, x), Number(s, 1)); }},
      {"FillOfComputedShape", 3,
       [](const Scope& s, Output x) {
         const Output shape = ops::ConcatV2(s, {RowsOf(s, x), ops::VectorConst(s, {3})}, 0);
         return ops::Fill(s, shape, Number(s, 1));
       }},
      {"FillOfSize", 2,
       [](const Scope& s, Output x) {
         return ops::Fill(s, ops::Reshape(s, ops::Size(s, x), Shape({1})), Number(s, 1));
       }},
      {"FillOfSeveralRowsEach", 4,
       [](const Scope& s, Output x) {
         const Output rows = ops::Mul(s, RowsOf(s, x), ops::VectorConst(s, {4}));
         return ops::Fill(s, rows, Number(s, 1));
       }},
      {"FillAlongColumns", 3,
       [](const Scope& s, Output x) {
         const Output shape = ops::ConcatV2(s, {ops::VectorConst(s, {3}), RowsOf(s, x)}, 0);
         return ops::Fill(s, shape, Number(s, 1));
       }},
      {"BroadcastTo", 2,
       [](const Scope& s, Output x) {
         return ops::BroadcastTo(s, Number(s, 1), ops::Shape(s, x));
       }},
      {"Tile", 1,
       [](const Scope& s, Output x) {
         return ops::Tile(s, ops::Reshape(s, Number(s, 1), Shape({1})), RowsOf(s, x));
       }},
      {"Range", 1, [](const Scope& s, Output x) { return ops::OnesLike(s, RangeOfRows(s, x)); }},
      {"RandomUniform", 2,
       [](const Scope& s, Output x) {
         const Output random = ops::RandomUniform(s, ops::Shape(s, x), DT_FLOAT);
         return ops::AddV2(s, ops::Floor(s, random), Number(s, 1));
       }},
      {"ArithmeticOnMadeRows", 2,
       [](const Scope& s, Output x) {
         const Output ones = ops::Fill(s, ops::Shape(s, x), Number(s, 1));
         return ops::Sub(s, ops::Mul(s, ones, Number(s, 3)), Number(s, 2));
       }},
      {"InABranch", 2,
       [](const Scope& s, Output x) {
         const auto make = [](const Scope& s, absl::Span<const Output> in) {
           return std::vector<Output>{ops::Fill(s, ops::Shape(s, in[0]), Number(s, 1))};
         };
         const Output is_positive = ops::Greater(s, ops::Sum(s, ops::Abs(s, x)), Number(s, -1));
         return ops::If(s, is_positive, {x}, make, make)[0];
       }},
  };
  return makers;
}

std::unique_ptr<Strategy> Replicas(int count) {
  return MirroredStrategy::Create({.num_cpu_replicas = count,
                                   .pin_threads = false,
                                   .compile = {.verify = true, .check_plan = true}})
      .value();
}

// Returns row counts for `replicas` replicas, including uneven and empty ones. The first entry has
// a total of 5 rows.
std::vector<std::vector<int64_t>> RowSplits(size_t replicas) {
  const std::vector<std::vector<int64_t>> all = {{5},          {1},           {3, 2},    {0, 4},
                                                 {2, 2},       {2, 2, 1},     {1, 0, 3}, {0, 0, 7},
                                                 {2, 1, 1, 1}, {0, 300, 0, 1}};
  std::vector<std::vector<int64_t>> found;
  for (const auto& split : all) {
    if (split.size() == replicas) found.push_back(split);
  }
  return found;
}

Tensor Rows(const std::vector<int64_t>& split) {
  int64_t rows = 0;
  for (const int64_t count : split) rows += count;
  Tensor x = Tensor::Allocate(DT_FLOAT, Shape({rows, 2})).value();
  for (float& value : x.flat<float>()) value = 0.5f;
  return x;
}

std::vector<double> NumbersOf(const std::vector<Tensor>& scalars) {
  std::vector<double> numbers;
  for (const Tensor& t : scalars) numbers.push_back(t.scalar<float>());
  return numbers;
}

std::vector<double> Times(const std::vector<int64_t>& split, double factor) {
  std::vector<double> products;
  for (const int64_t count : split) products.push_back(static_cast<double>(count) * factor);
  return products;
}

class MadeRowsTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Replicas, MadeRowsTest, testing::Values(1, 2, 3, 4));

TEST_P(MadeRowsTest, LocalPartOfSumCountsRowsOfReplica) {
  for (const Maker& maker : Makers()) {
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
    const Output sum = ops::Sum(root, ops::Cast(root, maker.make(root, x), DT_FLOAT));
    const Output part = ops::LocalPart(root, sum);
    const auto strategy = Replicas(GetParam());
    const auto session = strategy->NewSession(graph);
    ASSERT_TRUE(session.ok()) << maker.name << ": " << session.status();
    Step step = (*session)->Prepare({x}, {part}).value();
    for (const std::vector<int64_t>& split : RowSplits(GetParam())) {
      const auto out = step.Run({Rows(split)}, {.replica_rows = split});
      ASSERT_TRUE(out.ok()) << maker.name << ": " << out.status();
      EXPECT_THAT(NumbersOf(step.PerReplica(0).value()), ElementsAreArray(Times(split, maker.row)))
          << maker.name << ", " << absl::StrJoin(split, " ");
    }
  }
}

// The graph accepts 3 rows only. MarkRows, which tries others, finds 9 elements where the result of
// the Reshape has 6.
TEST_P(MadeRowsTest, ShapesCanDependOnRowCount) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {-1, 1});
  const Output three = ops::Const(root, Tensor::Of<float>({3, 1}, {1, 2, 3}));
  const Output both = ops::ConcatV2(root, {x, three}, 0);
  const Output sum = ops::Sum(root, ops::Reshape(root, both, {6, 1, 1, 1}));
  const Output result = ops::AllReduce(root, ops::LocalPart(root, sum));
  const auto strategy = Replicas(GetParam());
  const auto session = strategy->NewSession(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto got = (*session)->Run({{x, Tensor::Of<float>({3, 1}, {4, 5, 6})}}, {result});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].scalar<float>(), 21);
}

TEST_P(MadeRowsTest, OnReadVariableAddsRowsOfReplica) {
  for (const Maker& maker : Makers()) {
    const auto strategy = Replicas(GetParam());
    const auto mirrored = strategy->scope();
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
    const Variable seen =
        CreateVariable(root, "seen", {}, initializers::Zeros(), DT_FLOAT,
                       {.trainable = false, .synchronization = VariableSynchronization::kOnRead});
    const Operation add = ops::AssignAddVariableOp(
        root, seen.handle, ops::Sum(root, ops::Cast(root, maker.make(root, x), DT_FLOAT)));
    const auto session = strategy->NewSession(graph);
    ASSERT_TRUE(session.ok()) << maker.name << ": " << session.status();
    Step step = (*session)->Prepare({x}, {}, {add}).value();
    const std::vector<int64_t> split = RowSplits(GetParam())[0];
    const auto out = step.Run({Rows(split)}, {.replica_rows = split});
    ASSERT_TRUE(out.ok()) << maker.name << ": " << out.status();
    std::vector<Tensor> parts;
    for (int r = 0; r < GetParam(); ++r) {
      parts.push_back((*session)->ReadVariable("seen", r).value());
    }
    EXPECT_THAT(NumbersOf(parts), ElementsAreArray(Times(split, maker.row))) << maker.name;
  }
}

TEST_P(MadeRowsTest, FetchIsShardedLikeValue) {
  for (const Maker& maker : Makers()) {
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
    const Output made = maker.make(root, x);
    const auto strategy = Replicas(GetParam());
    const auto session = strategy->NewSession(graph);
    ASSERT_TRUE(session.ok()) << maker.name << ": " << session.status();
    Step step = (*session)->Prepare({x}, {made}).value();
    for (const std::vector<int64_t>& split : RowSplits(GetParam())) {
      const auto out = step.Run({Rows(split)}, {.replica_rows = split});
      ASSERT_TRUE(out.ok()) << maker.name << ": " << out.status();
      std::vector<double> elements;
      const std::vector<Tensor> own = step.PerReplica(0).value();
      for (const Tensor& part : own) {
        elements.push_back(static_cast<double>(part.num_elements()));
      }
      EXPECT_THAT(elements, ElementsAreArray(Times(split, maker.row))) << maker.name;
      if ((*out)[0].dtype() == DT_FLOAT) {
        EXPECT_THAT((*out)[0].flat<float>(), Each(1));
      }
    }
  }
}

// Shape and Size describe the global value. A literal row count is also global.
TEST_P(MadeRowsTest, GlobalValuesAreOnFirstReplica) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const std::vector<int64_t> split = RowSplits(GetParam())[0];
  const int64_t rows = 5;
  const std::pair<Output, double> values[] = {
      {ops::Cast(root, ops::Size(root, x), DT_FLOAT), 10},
      {ops::Sum(root, ops::Cast(root, ops::Shape(root, x), DT_FLOAT)), 7},
      {ops::Sum(root, ops::Fill(root, ops::VectorConst(root, {rows}), Number(root, 1))), 5},
      {ops::Cast(root, ops::Size(root, ops::OnesLike(root, x)), DT_FLOAT), 10},
  };
  std::vector<Output> parts;
  for (const auto& [value, whole] : values) parts.push_back(ops::LocalPart(root, value));
  const auto strategy = Replicas(GetParam());
  const auto session = strategy->NewSession(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = (*session)->Prepare({x}, parts).value();
  ASSERT_TRUE(step.Run({Rows(split)}, {.replica_rows = split}).ok());
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<double> expected(GetParam(), 0);
    expected[0] = values[i].second;
    EXPECT_THAT(NumbersOf(step.PerReplica(static_cast<int>(i)).value()), ElementsAreArray(expected))
        << i;
  }
}

// Some nodes accept only 5 rows, which is the row count of the feed x.
TEST(MadeRows, NodesThatAcceptOnlyFeedRowCountKeepSharding) {
  const auto table = [](const Scope& s, std::vector<int64_t> dims) {
    return ops::Fill(s, ops::VectorConst(s, dims), Number(s, 1));
  };
  const struct {
    const char* name;
    // Makes a value with as many rows as x.
    std::function<Output(const Scope& s, Output x, Output row)> make;
  } cases[] = {
      {"Reshape",
       [&](const Scope& s, Output x, Output) {
         return ops::Reshape(s, x, Shape({5, 2}));
       }},
      {"AddConstant",
       [&](const Scope& s, Output x, Output) {
         return ops::AddV2(s, x, table(s, {5, 2}));
       }},
      {"Concat",
       [&](const Scope& s, Output x, Output) {
         return ops::ConcatV2(s, {ops::Sum(s, x, {1}, {.keep_dims = true}), table(s, {5, 1})}, 1);
       }},
      {"OneRow", [&](const Scope& s, Output x, Output row) { return ops::Sub(s, x, row); }},
  };
  const std::vector<int64_t> split = {3, 2};
  for (const auto& c : cases) {
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
    const Output row = ops::Placeholder(root.WithName("row"), DT_FLOAT, {-1, 2});
    const Output made = c.make(root, x, row);
    // Takes as many rows of the table as x has. The table has too few rows for a larger x.
    const Output begin = ops::VectorConst(root, {0});
    const Output first = ops::Slice(root, table(root, {8}), begin, RowsOf(root, x));
    const Output parts[] = {
        ops::LocalPart(root, ops::Sum(root, ops::OnesLike(root, x))),
        ops::LocalPart(root, ops::Sum(root, ops::OnesLike(root, made))),
        ops::LocalPart(root, ops::Sum(root, ops::Fill(root, RowsOf(root, made), Number(root, 1)))),
        ops::Sum(root, ops::Mul(root, ops::Sum(root, made, {1}), first))};
    const auto strategy = Replicas(2);
    const auto session = strategy->NewSession(graph);
    ASSERT_TRUE(session.ok()) << c.name << ": " << session.status();
    Step step = (*session)->Prepare({x, row}, parts).value();
    const auto out = step.Run({Rows(split), Rows({1})});
    ASSERT_TRUE(out.ok()) << c.name << ": " << out.status();
    EXPECT_THAT(NumbersOf(step.PerReplica(0).value()), ElementsAreArray({6, 4})) << c.name;
    EXPECT_THAT(NumbersOf(step.PerReplica(1).value()), ElementsAreArray({6, 4})) << c.name;
    EXPECT_THAT(NumbersOf(step.PerReplica(2).value()), ElementsAreArray({3, 2})) << c.name;
  }
}

// Feeds with different row counts are sharded along separate axes.
TEST(MadeRows, FollowAxisOfTheirFeed) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const Output y = ops::Placeholder(root.WithName("y"), DT_FLOAT, {-1, 2});
  std::vector<Output> parts;
  for (const Output& value : {x, y}) {
    const Output ones = ops::Fill(root, ops::Shape(root, value), Number(root, 1));
    parts.push_back(ops::LocalPart(root, ops::Sum(root, ones)));
  }
  const auto strategy = Replicas(2);
  const auto session = strategy->NewSession(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = (*session)->Prepare({x, y}, parts).value();
  ASSERT_TRUE(step.Run({Rows({5}), Rows({7})}).ok());
  EXPECT_THAT(NumbersOf(step.PerReplica(0).value()), ElementsAreArray({6, 4}));
  EXPECT_THAT(NumbersOf(step.PerReplica(1).value()), ElementsAreArray({8, 6}));
}

TEST(MadeRows, EmptyBatchHasNoParts) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const Output part = ops::LocalPart(root, ops::Sum(root, ops::OnesLike(root, x)));
  const auto strategy = Replicas(2);
  const auto session = strategy->NewSession(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  Step step = (*session)->Prepare({x}, {part}).value();
  ASSERT_TRUE(step.Run({Rows({0})}).ok());
  EXPECT_THAT(NumbersOf(step.PerReplica(0).value()), Each(0));
}

// If no result reveals the sharding, row counts still fold to constants, so counting rows needs no
// collective.
TEST(MadeRows, CountOfRowsNeedsNoCollective) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const Output count = ops::Sum(root, ops::OnesLike(root, x));
  const Output mean = ops::RealDiv(root, ops::Sum(root, x), count);
  const auto strategy = Replicas(2);
  const auto session = strategy->NewSession(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  const Step step = (*session)->Prepare({x}, {mean}).value();
  const auto plans = CompileStep(step, {Shape({6, 2})});
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ(plans->program->state.collectives.size(), 1u);
}

}  // namespace
}  // namespace mirrorflow
