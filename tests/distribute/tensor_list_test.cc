// SPDX-License-Identifier: Apache-2.0
//
// Tensor lists behave as in the interpreter, which implements them as vectors. They are written in
// place and stay sharded, and unsupported uses are reported as errors.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/graph_file.h"
#include "framework/runtime/plan.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "ops/registry.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/loops.h"
#include "tests/support/reference_lists.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
using Outputs = std::vector<Output>;
using Args = absl::Span<const Output>;

class TensorListTest : public testing::Test {
 protected:
  // Expects the values that the interpreter computes, on 1 to 3 replicas.
  void ExpectAsInterpreted(const Outputs& fetches) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    auto reference =
        Interpreter::Create(graph_, TestKernels(), {.ops = &AllOps(), .run_list_op = RunListOp});
    ASSERT_TRUE(reference.ok()) << reference.status();
    std::vector<std::pair<Output, Tensor>> feeds;
    for (size_t i = 0; i < feeds_.size(); ++i) feeds.emplace_back(feeds_[i], values_[i]);
    const auto want = reference->Run(feeds, fetches, {}, {});
    ASSERT_TRUE(want.ok()) << want.status();
    for (const int replicas : {1, 2, 3}) {
      for (const bool queued : {false, true}) {
        SCOPED_TRACE(absl::StrCat(replicas, " replicas", queued ? ", queued" : ""));
        auto session = CreateTestSession(graph_, {.replicas = replicas, .queued = queued});
        ASSERT_TRUE(session.ok()) << session.status();
        auto step = (*session)->Prepare(feeds_, fetches, {});
        ASSERT_TRUE(step.ok()) << step.status();
        for (int run = 0; run < 2; ++run) {
          const auto got = step->Run(values_);
          ASSERT_TRUE(got.ok()) << got.status();
          for (size_t i = 0; i < fetches.size(); ++i) {
            EXPECT_EQ(Difference((*want)[i], (*got)[i], {.relative = 1e-12, .absolute = 1e-12}), "")
                << "fetch " << i;
          }
        }
      }
    }
  }

  // Prepares and runs the step. Returns the first error, or OK.
  absl::Status ErrorOf(const Outputs& fetches, SessionOptions options = {}) {
    if (!graph_.status().ok()) return graph_.status();
    auto session = CreateTestSession(graph_, {.session = std::move(options)});
    if (!session.ok()) return session.status();
    auto step = (*session)->Prepare(feeds_, fetches, {});
    if (!step.ok()) return step.status();
    return step->Run(values_).status();
  }

  Output Feed(const Shape& declared, const Tensor& value) {
    feeds_.push_back(ops::Placeholder(root_, value.dtype(), declared));
    values_.push_back(value);
    return feeds_.back();
  }
  Output Rows() { return Feed({kUnknownDim, 2}, RandomTensor(DT_DOUBLE, {6, 2}, &random_)); }

  // Builds a loop that applies `next` to the counter and the values `times` times.
  Outputs Repeat(int times, Outputs values, ops::FunctionBuilder next) {
    return CountedLoop(root_, times, std::move(values), next);
  }

  Random random_{11};
  Graph graph_;
  const Scope root_{&graph_};
  Outputs feeds_;
  std::vector<Tensor> values_;
};

TEST_F(TensorListTest, OpsMatchVectorOfTensors) {
  const Output x = Rows();
  Output list = ops::TensorListFromTensor(root_, ops::Pack(root_, {x, ops::Sin(root_, x), x}));
  list = ops::TensorListPushBack(root_, list, ops::Exp(root_, x));
  list = ops::TensorListSetItem(root_, list, Integer(root_, 1), ops::Neg(root_, x));
  const Output picked =
      ops::TensorListGather(root_, list, ops::VectorConst(root_, {3, 0, 3}), DT_DOUBLE);
  const Output scattered = ops::TensorListScatterIntoExistingList(
      root_, list, ops::Pack(root_, {x, x}), ops::VectorConst(root_, {2, 0}));
  const Outputs popped = ops::TensorListPopBack(root_, scattered, DT_DOUBLE);
  const Output longer = ops::TensorListResize(root_, popped[0], Integer(root_, 5));
  const Output shorter = ops::TensorListResize(root_, list, Integer(root_, 2));
  ExpectAsInterpreted({ops::TensorListStack(root_, list, DT_DOUBLE), picked, popped[1],
                       ops::TensorListStack(root_, longer, DT_DOUBLE),
                       ops::TensorListStack(root_, shorter, DT_DOUBLE),
                       ops::TensorListGetItem(root_, list, Integer(root_, 3), DT_DOUBLE),
                       ops::TensorListLength(root_, popped[0]),
                       ops::TensorListElementShape(root_, list)});
}

TEST_F(TensorListTest, ListPassesThroughLoopsAndBranches) {
  const Output x = Rows();
  const Output empty = ops::EmptyTensorList(root_, DT_DOUBLE, Shape::UnknownRank());
  // Each iteration pushes an element, and then either pops it or pushes another element.
  const Outputs pushed = Repeat(5, {x, empty}, [](const Scope& s, Args in) {
    const Output h = ops::Sin(s, in[1]);
    const Output list = ops::TensorListPushBack(s, in[2], h);
    const Output odd = ops::FloorMod(s, in[0], Integer(s, 2));
    const Outputs either = ops::If(
        s, odd, {list, h},
        [](const Scope& s, Args in) {
          return Outputs{ops::TensorListPopBack(s, in[0], DT_DOUBLE)[0]};
        },
        [](const Scope& s, Args in) {
          return Outputs{ops::TensorListPushBack(s, in[0], ops::Neg(s, in[1]))};
        });
    return Outputs{ops::Exp(s, h), either[0]};
  });
  // Pops all elements.
  const Output first = ops::ZerosLike(root_, x);
  const Outputs popped = Repeat(6, {first, pushed[1]}, [](const Scope& s, Args in) {
    const Outputs pop = ops::TensorListPopBack(s, in[2], DT_DOUBLE);
    const Output half = ops::ScalarConst(s, DT_DOUBLE, 0.5);
    return Outputs{ops::AddV2(s, ops::Mul(s, in[1], half), pop[1]), pop[0]};
  });
  ExpectAsInterpreted({popped[0], ops::TensorListLength(root_, popped[1]),
                       ops::TensorListLength(root_, pushed[1])});
}

TEST_F(TensorListTest, ListPassesThroughNestedLoops) {
  const Output x = Rows();
  const Output empty = ops::EmptyTensorList(root_, DT_DOUBLE, {kUnknownDim, 2});
  const Output kept =
      ops::TensorListReserve(root_, DT_DOUBLE, ops::VectorConst(root_, {-1, 2}), Integer(root_, 3));
  const Outputs out = Repeat(3, {x, empty, kept}, [](const Scope& s, Args in) {
    Outputs inner = ops::While(
        s, {Integer(s, 0), in[1], in[2]},
        [](const Scope& s, Args in) { return Outputs{ops::Less(s, in[0], Integer(s, 2))}; },
        [](const Scope& s, Args in) {
          const Output h = ops::Cos(s, in[1]);
          return Outputs{ops::AddV2(s, in[0], Integer(s, 1)), h,
                         ops::TensorListPushBack(s, in[2], h)};
        });
    return Outputs{inner[1], inner[2], ops::TensorListSetItem(s, in[3], in[0], inner[1])};
  });
  const Outputs last = ops::TensorListPopBack(root_, out[1], DT_DOUBLE);
  ExpectAsInterpreted({out[0], last[1], ops::TensorListLength(root_, out[1]),
                       ops::TensorListStack(root_, out[2], DT_DOUBLE),
                       ops::TensorListStack(root_, out[1], DT_DOUBLE, {.num_elements = 6})});
}

TEST_F(TensorListTest, AccessToMissingElementFailsStep) {
  const Output x = Rows();
  const Output index = Feed({}, Tensor::Scalar<int32_t>(2));
  const Output two = ops::TensorListFromTensor(root_, ops::Pack(root_, {x, x}));
  const Output empty = ops::EmptyTensorList(root_, DT_DOUBLE, {6, 2}, {.max_num_elements = 1});
  const Output none = ops::TensorListPopBack(root_.WithName("none"), empty, DT_DOUBLE)[1];
  const Output get = ops::TensorListGetItem(root_.WithName("get"), two, index, DT_DOUBLE);
  const Output set = ops::TensorListSetItem(root_.WithName("set"), two, index, x);
  const Output full = ops::TensorListPushBack(root_, empty, x);
  const Output over = ops::TensorListPushBack(root_.WithName("over"), full, x);
  EXPECT_THAT(ErrorOf({get}), IsError(kInvalid, "get/"));
  EXPECT_THAT(ErrorOf({ops::TensorListStack(root_, set, DT_DOUBLE)}), IsError(kInvalid, "set/"));
  EXPECT_THAT(ErrorOf({none}), IsError(kInvalid, "none/"));
  EXPECT_THAT(ErrorOf({ops::TensorListStack(root_, over, DT_DOUBLE)}),
              IsError(kInvalid, "PushBack(over):", "full"));
  // A popped element is also missing, although its row still exists.
  const Outputs popped = Repeat(1, {full}, [](const Scope& s, Args in) {
    return Outputs{ops::TensorListPopBack(s, in[1], DT_DOUBLE)[0]};
  });
  const Output gone =
      ops::TensorListGetItem(root_.WithName("gone"), popped[0], Integer(root_, 0), DT_DOUBLE);
  EXPECT_THAT(ErrorOf({gone}), IsError(kInvalid, "gone/"));
}

TEST_F(TensorListTest, UnboundedListLengthIsReported) {
  const Output x = Rows();
  const Output empty = ops::EmptyTensorList(root_.WithName("list"), DT_DOUBLE, {kUnknownDim, 2});
  const Outputs endless = ops::While(
      root_, {x, empty},
      [](const Scope& s, Args in) {
        return Outputs{ops::Less(s, ops::Sum(s, in[0], {0, 1}), ops::ScalarConst(s, DT_DOUBLE, 9))};
      },
      [](const Scope& s, Args in) {
        return Outputs{ops::Exp(s, in[0]), ops::TensorListPushBack(s, in[1], in[0])};
      });
  const Output last = ops::TensorListPopBack(root_, endless[1], DT_DOUBLE)[1];
  EXPECT_THAT(ErrorOf({last}), IsError(absl::StatusCode::kUnimplemented, "EmptyTensorList(list)",
                                       "maximum_iterations"));
}

TEST_F(TensorListTest, ListCountsTowardsMemoryLimitBeforeAllocation) {
  const Output x = Rows();
  const Output huge = ops::EmptyTensorList(root_, DT_DOUBLE, {kUnknownDim, 2},
                                           {.max_num_elements = (int64_t{1} << 31) - 1});
  const Output list = ops::TensorListPushBack(root_, huge, x);
  const Output item = ops::TensorListGetItem(root_, list, Integer(root_, 0), DT_DOUBLE);
  SessionOptions options;
  options.max_bytes = 1 << 20;
  EXPECT_THAT(ErrorOf({item}, options), IsError(absl::StatusCode::kResourceExhausted, "memory"));
}

TEST_F(TensorListTest, FetchedListAndMixedElementShapesAreRejected) {
  const Output x = Rows();
  const Output list = ops::TensorListFromTensor(root_, x);
  EXPECT_THAT(ErrorOf({list}), IsError(absl::StatusCode::kUnimplemented, "is a list", "a tensor"));
  Graph graph;
  const Scope root(&graph);
  const Output rows = ops::Placeholder(root, DT_DOUBLE, {6, 2});
  const Output pair = ops::TensorListFromTensor(root, rows);
  ops::TensorListSetItem(root, pair, Integer(root, 0), ops::Placeholder(root, DT_DOUBLE, {3}));
  EXPECT_THAT(graph.status(),
              IsError(absl::StatusCode::kInvalidArgument, "expected [2]", "got [3]"));
}

// --- In place --------------------------------------------------------------------------------

TEST_F(TensorListTest, LoopWritesListInPlace) {
  const Output x = Rows();
  const Output read = ops::TensorListFromTensor(root_, ops::Pack(root_, {x, x, x, x}));
  const Output written =
      ops::TensorListReserve(root_, DT_DOUBLE, ops::VectorConst(root_, {6, 2}), Integer(root_, 4));
  const Output pushed = ops::EmptyTensorList(root_, DT_DOUBLE, {kUnknownDim, 2});
  const Outputs out = Repeat(4, {read, written, pushed}, [](const Scope& s, Args in) {
    const Output item = ops::TensorListGetItem(s, in[1], in[0], DT_DOUBLE);
    const Output set = ops::TensorListSetItem(s, in[2], in[0], ops::Sin(s, item));
    const Output before = ops::TensorListGetItem(s, in[2], in[0], DT_DOUBLE);  // before it is set
    return Outputs{in[1], set, ops::TensorListPushBack(s, in[3], ops::AddV2(s, item, before))};
  });
  const Outputs fetches = {ops::TensorListStack(root_, out[1], DT_DOUBLE),
                           ops::TensorListStack(root_, out[2], DT_DOUBLE, {.num_elements = 4})};
  ExpectAsInterpreted(fetches);
  auto session = CreateTestSession(graph_, {.replicas = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  auto step = (*session)->Prepare(feeds_, fetches, {});
  ASSERT_TRUE(step.ok()) << step.status();
  const auto plans = CompileStep(*step, {Shape({6, 2})});
  ASSERT_TRUE(plans.ok()) << plans.status();
  const Plan& plan = *plans->plans[0];
  ASSERT_EQ(plan.controls.size(), 1u);
  const Plan& body = *plan.controls[0].plans[1];
  int updates = 0;
  for (const Instruction& instruction : body.instructions) {
    if (instruction.node < 0 || body.node_ops[instruction.node] != "TensorScatterUpdate") continue;
    const Operand* operands = &body.operands[instruction.first_operand];
    const Operand &from = operands[0], &to = operands[instruction.num_inputs];
    EXPECT_EQ(from.region, to.region);
    EXPECT_EQ(from.offset, to.offset);
    EXPECT_GE(to.region, Plan::kFirstFeedRegion) << "the list is not in the loop value's memory";
    ++updates;
  }
  EXPECT_EQ(updates, 2);
}

// --- Analysis of list lengths -------------------------------------------------------------------

TEST_F(TensorListTest, ListPushedAfterFirstIterationIsNotAssumedEmpty) {
  const Output one = ops::EmptyTensorList(root_, DT_DOUBLE, {}, {.max_num_elements = 10});
  const Output other = ops::EmptyTensorList(root_, DT_DOUBLE, {}, {.max_num_elements = 10});
  const Output x = ops::ScalarConst(root_, DT_DOUBLE, -1);
  // An element that is pushed to `other` appears in `one` one iteration later.
  const Outputs out = Repeat(3, {one, other, x}, [](const Scope& s, Args in) {
    const Output pushed = ops::TensorListPushBack(s, in[1], ops::ScalarConst(s, DT_DOUBLE, 7));
    return Outputs{in[2], ops::TensorListPushBack(s, in[2], ops::ScalarConst(s, DT_DOUBLE, 3)),
                   ops::TensorListGetItem(s, pushed, Integer(s, 0), DT_DOUBLE)};
  });
  ExpectAsInterpreted({out[2]});
}

TEST_F(TensorListTest, CapacityCoversPushInConditionAfterLastIteration) {
  const Output x = Feed({}, Tensor::Scalar<double>(0.5));
  const Output empty = ops::EmptyTensorList(root_, DT_DOUBLE, {});
  const Outputs out = ops::While(
      root_, {Integer(root_, 0), x, empty},
      [](const Scope& s, Args in) {
        const Output longer = ops::TensorListPushBack(s, in[2], in[1]);
        const Output last = ops::TensorListPopBack(s, longer, DT_DOUBLE)[1];
        return Outputs{ops::LogicalAnd(s, ops::Less(s, in[0], Integer(s, 1)),
                                       ops::Less(s, last, ops::ScalarConst(s, DT_DOUBLE, 9)))};
      },
      [](const Scope& s, Args in) {
        return Outputs{ops::AddV2(s, in[0], Integer(s, 1)), ops::Exp(s, in[1]),
                       ops::TensorListPushBack(s, in[2], in[1])};
      });
  ExpectAsInterpreted(
      {out[1], ops::TensorListStack(root_, out[2], DT_DOUBLE, {.num_elements = 1})});
}

TEST_F(TensorListTest, CapacityCoversElementsPushedAndPoppedInBody) {
  const Output x = Rows();
  const Output empty = ops::EmptyTensorList(root_, DT_DOUBLE, Shape::UnknownRank());
  const Outputs out = Repeat(2, {x, empty}, [](const Scope& s, Args in) {
    const Output pushed = ops::TensorListPushBack(s, in[2], in[1]);
    const Outputs popped = ops::TensorListPopBack(s, pushed, DT_DOUBLE);
    return Outputs{ops::Sin(s, popped[1]), popped[0]};
  });
  ExpectAsInterpreted({out[0], ops::TensorListLength(root_, out[1])});
}

TEST_F(TensorListTest, BranchSeesElementsPushedToLocalList) {
  const Output yes = Feed({}, Tensor::Scalar<bool>(true));
  const Output row = Feed({kUnknownDim, 3}, RandomTensor(DT_DOUBLE, {6, 3}, &random_));
  const Output empty =
      ops::EmptyTensorList(root_, DT_DOUBLE, Shape::UnknownRank(), {.max_num_elements = 4});
  const Outputs out = ops::If(
      root_, yes, {empty, row},
      [](const Scope& s, Args in) {
        const Output pushed = ops::TensorListPushBack(s, in[0], in[1]);
        return Outputs{ops::TensorListStack(s, pushed, DT_DOUBLE)};
      },
      [](const Scope& s, Args in) { return Outputs{ops::ExpandDims(s, in[1], 0)}; });
  ExpectAsInterpreted({out[0]});
}

TEST_F(TensorListTest, AddNRejectsListsOfDifferentLengths) {
  const Output yes = Feed({}, Tensor::Scalar<bool>(true));
  const Output x = Rows();
  const auto pop = [](const Scope& s, Args in) {
    return Outputs{ops::TensorListPopBack(s, in[0], DT_DOUBLE)[0]};
  };
  const auto keep = [](const Scope& s, Args in) { return Outputs{in[0]}; };
  const Output three = ops::TensorListFromTensor(root_, ops::Pack(root_, {x, x, x}));
  const Output two = pop(root_, {three})[0];
  const Output popped = ops::If(root_, yes, {three}, pop, keep)[0];
  const Output kept = ops::If(root_, yes, {three}, keep, pop)[0];
  const auto sum = [&](const char* name, Args lists) {
    const Output all = ops::AddN(root_.WithName(name), lists);
    return ops::TensorListStack(root_, all, DT_DOUBLE, {.num_elements = 3});
  };
  EXPECT_THAT(ErrorOf({sum("fixed", {three, two})}), IsError(kInvalid, "fixed/"));
  EXPECT_THAT(ErrorOf({sum("varying", {three, popped})}), IsError(kInvalid, "varying/"));
  ExpectAsInterpreted({sum("same", {three, kept}), sum("itself", {kept, kept})});
}

// --- Graphs from other writers ------------------------------------------------------------------

TEST_F(TensorListTest, NonScalarMaxNumElementsIsRejected) {
  const Output list = ops::Build(root_, "EmptyTensorList")
                          .Input(ops::VectorConst(root_, {}))
                          .Input(ops::Const(root_, Tensor::Vector<int32_t>({})))
                          .Attr("element_dtype", DT_DOUBLE)
                          .One();
  const Output pushed = ops::TensorListPushBack(root_, list, Feed({}, Tensor::Scalar<double>(0.5)));
  EXPECT_THAT(ErrorOf({ops::TensorListGetItem(root_, pushed, Integer(root_, 0), DT_DOUBLE)}),
              IsError(kInvalid, "input 1", "rank 0"));
}

TEST_F(TensorListTest, StackOfMoreElementsThanCapacityIsReported) {
  const Output yes = Feed({}, Tensor::Scalar<bool>(true));
  const Output x = Rows();
  const Output three = ops::TensorListFromTensor(root_, ops::Pack(root_, {x, x, x}));
  const Output some = ops::If(
      root_, yes, {three},
      [](const Scope& s, Args in) {
        return Outputs{ops::TensorListPopBack(s, in[0], DT_DOUBLE)[0]};
      },
      [](const Scope& s, Args in) { return Outputs{in[0]}; })[0];
  const Output all =
      ops::TensorListStack(root_.WithName("all"), some, DT_DOUBLE, {.num_elements = 9});
  EXPECT_THAT(ErrorOf({all}), IsError(absl::StatusCode::kInvalidArgument, "TensorListStack(all)",
                                      "num_elements = 9", "capacity is 3"));
}

TEST_F(TensorListTest, BranchesWithDifferentElementDtypesAreReported) {
  const Output yes = Feed({}, Tensor::Scalar<bool>(true));
  const Output x = Rows();
  const Output list = ops::If(
      root_.WithName("mixed"), yes, {x},
      [](const Scope& s, Args in) { return Outputs{ops::TensorListFromTensor(s, in[0])}; },
      [](const Scope& s, Args in) {
        return Outputs{ops::TensorListFromTensor(s, ops::Cast(s, in[0], DT_FLOAT))};
      })[0];
  EXPECT_THAT(ErrorOf({ops::TensorListLength(root_, list)}),
              IsError(absl::StatusCode::kInvalidArgument, "If(mixed)", "same dtype"));
}

TEST_F(TensorListTest, WriterDoesNotWaitForEachOfManyReaders) {
  const Output list =
      ops::TensorListFromTensor(root_, Feed({40, 2}, RandomTensor(DT_DOUBLE, {40, 2}, &random_)));
  const Output first = ops::TensorListGetItem(root_, list, Integer(root_, 0), DT_DOUBLE);
  const Outputs out = Repeat(2, {list, first}, [](const Scope& s, Args in) {
    Outputs items;
    for (int i = 0; i < 40; ++i) {
      const Output sum = ops::AddV2(s, in[2], ops::ScalarConst(s, DT_DOUBLE, i));
      items.push_back(ops::Mul(s, sum, ops::TensorListGetItem(s, in[1], Integer(s, i), DT_DOUBLE)));
    }
    return Outputs{ops::TensorListSetItem(s, in[1], in[0], in[2]), ops::AddN(s, items)};
  });
  const Outputs fetches = {ops::TensorListStack(root_, out[0], DT_DOUBLE), out[1]};
  auto session = CreateTestSession(graph_, {.replicas = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  auto step = (*session)->Prepare(feeds_, fetches, {});
  ASSERT_TRUE(step.ok()) << step.status();
  const auto plans = CompileStep(*step, {Shape({40, 2})});
  ASSERT_TRUE(plans.ok()) << plans.status();
  const Compilation& c = plans->program->state;
  ASSERT_EQ(c.bodies.size(), 1u);
  int writers = 0;
  for (const Node* node : c.bodies.begin()->second.back()->graph.Nodes()) {
    if (node->op().name != "TensorScatterUpdate") continue;
    ++writers;
    EXPECT_LE(node->control_inputs().size(), 16u);
  }
  EXPECT_EQ(writers, 1);
}

// The following tests would take hours or never end if the compiler walked every path through the
// graph.

TEST_F(TensorListTest, ListPassedTwiceIntoNestedBranchesCompiles) {
  const Output yes = Feed({}, Tensor::Scalar<bool>(true));
  int depth = 40;
  const auto keep = [](const Scope& s, Args in) { return Outputs{in[1]}; };
  const std::function<Outputs(const Scope&, Args)> nest = [&](const Scope& s, Args in) {
    const Output sum = ops::AddN(s, {in[1], in[2]});
    if (--depth == 0) return Outputs{sum};
    return ops::If(s, in[0], {in[0], sum, sum}, nest, keep);
  };
  const Output list = ops::TensorListFromTensor(root_, Rows());
  const Output sum = ops::If(root_, yes, {yes, list, list}, nest, keep)[0];
  ExpectAsInterpreted({ops::TensorListStack(root_, sum, DT_DOUBLE)});
}

TEST_F(TensorListTest, AnalysisConvergesWhenBoundDependsOnPushedValues) {
  const Output empty = ops::EmptyTensorList(root_, DT_INT32, {}, {.max_num_elements = 3});
  const Outputs out = ops::While(
      root_, {Integer(root_, 0), empty},
      [](const Scope& s, Args in) {
        return Outputs{
            ops::Less(s, in[0], ops::TensorListGetItem(s, in[1], Integer(s, 0), DT_INT32))};
      },
      [](const Scope& s, Args in) {
        return Outputs{ops::AddV2(s, in[0], Integer(s, 1)),
                       ops::TensorListPushBack(s, in[1], Integer(s, 1))};
      });
  EXPECT_THAT(std::string(ErrorOf({out[0]}).message()), Not(HasSubstr("too long")));
}

TEST_F(TensorListTest, AnalysisGivesUpOnLargeNestedLoops) {
  int depth = 10;
  const std::function<Outputs(const Scope&, Args)> nest = [&](const Scope& s, Args in) {
    Outputs out = {ops::AddV2(s, in[0], Integer(s, 1)), in[1], in[2]};
    if (--depth == 0) {
      for (int i = 0; i < 30000; ++i) out[1] = ops::Sin(s, out[1]);
    } else {
      const Outputs inner = ops::While(
          s, {Integer(s, 0), in[1], ops::EmptyTensorList(s, DT_DOUBLE, Shape::UnknownRank())},
          [](const Scope& s, Args in) { return Outputs{ops::Less(s, in[0], Integer(s, 2))}; },
          nest);
      out[1] = inner[1];
    }
    out[2] = ops::TensorListPushBack(s, in[2], out[1]);
    return out;
  };
  const Outputs out = ops::While(
      root_,
      {Integer(root_, 0), Rows(), ops::EmptyTensorList(root_, DT_DOUBLE, Shape::UnknownRank())},
      [](const Scope& s, Args in) { return Outputs{ops::Less(s, in[0], Integer(s, 2))}; }, nest);
  EXPECT_THAT(ErrorOf({out[1]}), IsError(absl::StatusCode::kResourceExhausted, "too long"));
}

// --- Recurrent layers of Keras ------------------------------------------------------------------

TEST(RecurrentLayerTest, BatchStaysShardedAndGradientsAreReducedAfterLoops) {
  for (const char* name : {"keras_lstm_sgd", "keras_gru_adam", "keras_simple_rnn_rmsprop"}) {
    SCOPED_TRACE(name);
    const auto graph =
        ReadGraphFile(absl::StrCat("tests/references/training/", name, ".pb"), AllOps());
    ASSERT_TRUE(graph.ok()) << graph.status();
    auto session = CreateTestSession(*graph, {.replicas = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    const Outputs feeds = {graph->FindNode("step_inputs")->output(0),
                           graph->FindNode("step_labels")->output(0)};
    const Output loss = graph->FindNode("StatefulPartitionedCall")->output(0);
    auto step = (*session)->Prepare(feeds, {loss}, {{loss.node}});
    ASSERT_TRUE(step.ok()) << step.status();
    const auto plans = CompileStep(*step, {Shape({12, 6, 3}), Shape({12})});
    ASSERT_TRUE(plans.ok()) << plans.status();
    const Compilation& c = plans->program->state;
    EXPECT_EQ(c.bodies.size(), 2u);
    for (const auto& [id, bodies] : c.bodies) {
      for (const auto& body : bodies) {
        EXPECT_TRUE(body->collectives.empty()) << plans->program->ToString();
      }
    }
    for (const Node* node : c.collectives) {
      // Fused updates reduce their gradients themselves.
      EXPECT_TRUE(node->op().name == "AllReduce" || node->op().role == OpRole::kWrite)
          << OpAndName(*node);
    }
  }
}

// --- Optionals and nested lists -----------------------------------------------------------------

Output Optional(const Scope& s, const Output& value) {
  return ops::Build(s, ops::kOptionalFromValue).InputList({value}).Finish()->output(0);
}
Output None(const Scope& s) { return ops::Build(s, ops::kOptionalNone).Finish()->output(0); }
Output ValueOf(const Scope& s, const Output& optional, DataType dtype,
               const Shape& shape = Shape::UnknownRank()) {
  return ops::Build(s, ops::kOptionalGetValue)
      .Input(optional)
      .Attr("output_types", AttrList{dtype})
      .Attr("output_shapes", AttrList{shape})
      .Finish()
      ->output(0);
}
Output HasValue(const Scope& s, const Output& optional) {
  return ops::Build(s, ops::kOptionalHasValue).Input(optional).Finish()->output(0);
}

// The first optional holds a sum if the first branch runs, and rows otherwise.
TEST_F(TensorListTest, OptionalHoldsValueOfBranchThatRan) {
  const Output x = Rows();
  const Output first = Feed({}, Tensor::Scalar<bool>(false));
  const Outputs kept = ops::If(
      root_, first, {x},
      [](const Scope& s, Args in) {
        return Outputs{Optional(s, ops::Sum(s, in[0], {0, 1})), Optional(s, in[0])};
      },
      [](const Scope& s, Args in) {
        return Outputs{Optional(s, ops::Sin(s, in[0])), None(s)};
      });
  const Output result = ops::If(
      root_, first, {kept[0], kept[1]},
      [](const Scope& s, Args in) {
        return Outputs{ops::Mul(s, ValueOf(s, in[0], DT_DOUBLE, {}), ValueOf(s, in[1], DT_DOUBLE))};
      },
      [](const Scope& s, Args in) {
        return Outputs{ops::Neg(s, ValueOf(s, in[0], DT_DOUBLE, {kUnknownDim, 2}))};
      })[0];
  for (const bool runs_first : {false, true}) {
    values_[1] = Tensor::Scalar<bool>(runs_first);
    ExpectAsInterpreted({result, HasValue(root_, kept[0]), HasValue(root_, kept[1])});
  }
}

TEST_F(TensorListTest, GetValueOfEmptyOptionalFailsStep) {
  const Output x = Rows();
  const Output first = Feed({}, Tensor::Scalar<bool>(false));
  const Output kept = ops::If(
      root_, first, {x}, [](const Scope& s, Args in) { return Outputs{Optional(s, in[0])}; },
      [](const Scope& s, Args in) { return Outputs{None(s)}; })[0];
  EXPECT_THAT(ErrorOf({ValueOf(root_, kept, DT_DOUBLE)}), IsError(kInvalid, "[0, 1), got -1"));
  values_[1] = Tensor::Scalar<bool>(true);
  EXPECT_EQ(ErrorOf({ValueOf(root_, kept, DT_DOUBLE)}), absl::OkStatus());
}

TEST_F(TensorListTest, IndistinguishableKindsOfOptionalAreRejected) {
  const Output x = Rows();
  const Output kept = ops::If(
      root_, Feed({}, Tensor::Scalar<bool>(false)), {x},
      [](const Scope& s, Args in) { return Outputs{Optional(s, ops::Sum(s, in[0], {0}))}; },
      [](const Scope& s, Args in) { return Outputs{Optional(s, in[0])}; })[0];
  EXPECT_THAT(ErrorOf({ValueOf(root_, kept, DT_DOUBLE)}),
              IsError(absl::StatusCode::kUnimplemented, "output_shapes"));
  EXPECT_THAT(ErrorOf({ValueOf(root_, kept, DT_INT32)}),
              IsError(absl::StatusCode::kInvalidArgument, "attributes", "int32"));
}

TEST_F(TensorListTest, TooManyKindsOfOptionalAreRejected) {
  const Output first = Feed({}, Tensor::Scalar<bool>(false));
  Output kept = None(root_);
  for (int64_t size = 1; size <= 100; ++size) {
    kept = ops::If(
        root_, first, {kept}, [](const Scope& s, Args in) { return Outputs{in[0]}; },
        [size](const Scope& s, Args in) {
          return Outputs{Optional(s, ops::VectorConst(s, std::vector<int64_t>(size, 1)))};
        })[0];
  }
  EXPECT_THAT(ErrorOf({HasValue(root_, kept)}),
              IsError(absl::StatusCode::kUnimplemented, "64 kinds"));
}

// A list of lists of different lengths, popped in reverse order.
TEST_F(TensorListTest, NestedListsPassThroughLoops) {
  const Output x = Rows();
  const Output no_rows = ops::EmptyTensorList(root_, DT_DOUBLE, Shape::UnknownRank());
  const Output no_lists = ops::EmptyTensorList(root_, DT_VARIANT, Shape());
  const Output lists = Repeat(4, {x, no_rows, no_lists}, [](const Scope& s, Args in) {
    const Output h = ops::Sin(s, in[1]);
    const Output rows = ops::TensorListPushBack(s, in[2], h);
    return Outputs{h, rows, ops::TensorListPushBack(s, in[3], rows)};
  })[2];
  const Outputs sums = Repeat(3, {ops::ZerosLike(root_, x), lists}, [](const Scope& s, Args in) {
    const Outputs popped = ops::TensorListPopBack(s, in[2], DT_VARIANT);
    const Output last = ops::TensorListPopBack(s, popped[1], DT_DOUBLE)[1];
    const Output scale = ops::Cast(s, ops::TensorListLength(s, popped[1]), DT_DOUBLE);
    return Outputs{ops::AddV2(s, in[1], ops::Mul(s, last, scale)), popped[0]};
  });
  ExpectAsInterpreted({sums[0], ops::TensorListLength(root_, sums[1])});
}

TEST_F(TensorListTest, NestedListPoppedAsTensorIsRejected) {
  const Output x = Rows();
  const Output rows = ops::TensorListFromTensor(root_, ops::Pack(root_, {x, x}));
  Output lists = ops::EmptyTensorList(root_, DT_VARIANT, Shape());
  lists = ops::TensorListPushBack(root_, lists, rows);
  EXPECT_THAT(ErrorOf({ops::TensorListPopBack(root_, lists, DT_DOUBLE)[1]}),
              IsError(absl::StatusCode::kInvalidArgument, "element_dtype", "double"));
}

TEST_F(TensorListTest, TooDeeplyNestedListsAreRejected) {
  Output list = ops::EmptyTensorList(root_, DT_DOUBLE, Shape({2}));
  for (int depth = 0; depth < 100; ++depth) {
    list = ops::TensorListPushBack(root_, ops::EmptyTensorList(root_, DT_VARIANT, Shape()), list);
  }
  EXPECT_THAT(ErrorOf({ops::TensorListLength(root_, list)}),
              IsError(absl::StatusCode::kUnimplemented, "8 deep"));
}

}  // namespace
}  // namespace mirrorflow
