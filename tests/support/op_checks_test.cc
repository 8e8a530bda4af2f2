// SPDX-License-Identifier: Apache-2.0
//
// Tests that the op checks find bugs: each test plants a bug, in a copy of the registry or in its
// own kernels, and expects a failure.
#include "tests/support/op_checks.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/all/all_ops.h"
#include "ops/matmul.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

// The operands are 3 × 3, so swapping operands or gradients still gives valid shapes.
constexpr char kMatMul[] = R"(
case MatMul {T=float}
in float<3,3>{1, 2, 3, 4, 5, 6, 7, 8, 10}
in float<3,3>{1, 0, 2, -1, 3, 1, 0.5, 2, 1}
out float<3,3>{0.5, 12, 7, 2, 27, 19, 4, 44, 32}
)";

OpCase Parse(absl::string_view text) {
  const absl::StatusOr<std::vector<OpCase>> cases = ParseOpCases(text, "planted");
  MF_CHECK(cases.ok() && cases->size() == 1);
  return (*cases)[0];
}

// Runs a check on a case with the test's own registry and kernels.
class OpChecksTest : public ::testing::Test {
 protected:
  OpChecksTest() {
    RegisterAllOps(ops_);
    RegisterCpuKernels(kernels_);
  }
  // Redefining an op changes its entry in the registry.
  OpBuilder Change(absl::string_view op) { return ops_.Define(op); }

  std::string Values(absl::string_view text) { return Said(CheckValues, text); }
  std::string Gradient(absl::string_view text) { return Said(CheckGradient, text); }
  std::string Rule(absl::string_view text) { return Said(CheckShardingRule, text); }
  std::string Traits(absl::string_view text) { return Said(CheckTraits, text); }

  OpRegistry ops_;
  KernelRegistry kernels_;

 private:
  template <typename Fn>
  std::string Said(Fn check, absl::string_view text) {
    return check(Parse(text), ops_, kernels_).ToString();
  }
};

TEST_F(OpChecksTest, CorrectOpPassesAllChecks) {
  EXPECT_EQ(Values(kMatMul), "");
  EXPECT_EQ(Gradient(kMatMul), "");
  EXPECT_EQ(Rule(kMatMul), "");
}

// --- values ---

TEST_F(OpChecksTest, WrongValueIsReported) {
  std::string text = kMatMul;
  text.replace(text.find("44"), 2, "44.001");
  EXPECT_THAT(Values(text), HasSubstr("element 7: expected float<>{44.001"));
}

TEST_F(OpChecksTest, MissingErrorIsReported) {
  EXPECT_THAT(Values("case MatMul {T=float}\n"
                     "in float<1,1>{1}\n"
                     "in float<1,1>{1}\n"
                     "error\n"),
              HasSubstr("expected an error"));
  EXPECT_EQ(Values("case MatMul {T=float}\n"
                   "in float<1,2>{1, 1}\n"
                   "in float<1,1>{1}\n"
                   "error\n"),
            "");
}

TEST_F(OpChecksTest, ShapeFunctionThatNeedsRankIsReported) {
  Change("MatMul").Shape([](ShapeContext& c) -> absl::Status {
    if (c.input(0).unknown_rank()) return absl::InvalidArgumentError("what rank?");
    c.set_output(0, Shape({c.input(0).dim(0), c.input(1).dim(1)}));
    return absl::OkStatus();
  });
  EXPECT_THAT(Values(kMatMul), HasSubstr("knows nothing"));
}

TEST_F(OpChecksTest, ShapeFunctionThatGuessesShapeIsReported) {
  Change("MatMul").Shape([](ShapeContext& c) -> absl::Status {
    c.set_output(0, c.input(0).IsFullyDefined() ? c.input(0) : Shape({7, 7}));
    return absl::OkStatus();
  });
  EXPECT_THAT(Values(kMatMul), HasSubstr("not [7,7]"));
}

TEST_F(OpChecksTest, ConstantThatDiffersFromKernelIsReported) {
  Change("MatMul").Shape([](ShapeContext& c) -> absl::Status {
    c.set_output(0, c.input(0));
    if (c.constant(0) != nullptr) c.set_constant(0, *c.constant(0));
    return absl::OkStatus();
  });
  EXPECT_THAT(Values(kMatMul), HasSubstr("constant"));
}

// --- gradients ---

TEST_F(OpChecksTest, SwappedGradientsAreReported) {
  Change("MatMul").Gradient([](const GradContext& c) -> absl::StatusOr<std::vector<Output>> {
    return std::vector<Output>{ops::MatMul(c.scope, c.op.input(0), c.dy[0], {.transpose_a = true}),
                               ops::MatMul(c.scope, c.dy[0], c.op.input(1), {.transpose_b = true})};
  });
  EXPECT_THAT(Gradient(kMatMul), HasSubstr("gradient of operand 0"));
}

TEST_F(OpChecksTest, MissingGradientIsReported) {
  Change("MatMul").Gradient([](const GradContext& c) -> absl::StatusOr<std::vector<Output>> {
    return std::vector<Output>{ops::MatMul(c.scope, c.dy[0], c.op.input(1), {.transpose_b = true}),
                               Output()};
  });
  const std::string said = Gradient(kMatMul);
  EXPECT_THAT(said, HasSubstr("gradient of operand 1"));
  EXPECT_THAT(said, HasSubstr("got none"));
}

TEST_F(OpChecksTest, FailingGradientIsReported) {
  Change("MatMul").Gradient([](const GradContext&) -> absl::StatusOr<std::vector<Output>> {
    return absl::InternalError("no idea");
  });
  EXPECT_THAT(Gradient(kMatMul), HasSubstr("MatMul(node): no idea"));
}

// --- sharding rules ---

absl::StatusOr<ShardingRule> JointProduct(const ShardContext&) {
  return ShardingRule{.dims = "mk,kn->mn", .linearity = Linearity::kJoint};
}

TEST_F(OpChecksTest, ProductDeclaredJointlyLinearIsReported) {
  Change("MatMul").Sharding(JointProduct);
  EXPECT_THAT(Rule(kMatMul), HasSubstr("input(s) 0,1"));
}

TEST_F(OpChecksTest, WrongReductionIsReported) {
  Change("MatMul").Sharding([](const ShardContext&) -> absl::StatusOr<ShardingRule> {
    return ShardingRule{.dims = "mk,kn->mn", .contracted = Reduction::kMax};
  });
  EXPECT_THAT(Rule(kMatMul), HasSubstr("letter k"));
}

TEST_F(OpChecksTest, MisplacedLetterIsReported) {
  Change("MatMul").Sharding([](const ShardContext&) -> absl::StatusOr<ShardingRule> {
    return ShardingRule{.dims = "m.,.n->nm"};
  });
  EXPECT_THAT(Rule(kMatMul), HasSubstr("letter m"));
}

TEST_F(OpChecksTest, RuleThatDoesNotFitShapesIsReported) {
  Change("MatMul").Sharding([](const ShardContext&) -> absl::StatusOr<ShardingRule> {
    return ShardingRule{.dims = "m,n->mn"};
  });
  EXPECT_THAT(Rule(kMatMul), HasSubstr("shape [3,3]"));
}

TEST_F(OpChecksTest, WrongExpansionIsReported) {
  Change("MatMul")
      .Sharding([](const ShardContext&) -> absl::StatusOr<ShardingRule> {
        return ShardingRule{.dims = "mk,kn->mn", .expand = true};
      })
      .Expand([](const Scope& scope, const Node& node) -> absl::StatusOr<std::vector<Output>> {
        return std::vector<Output>{ops::MatMul(scope, node.input(1), node.input(0))};
      });
  EXPECT_THAT(Rule(kMatMul), HasSubstr("expansion: output 0"));
}

TEST_F(OpChecksTest, MissingExpansionIsReported) {
  Change("MatMul").Sharding([](const ShardContext&) -> absl::StatusOr<ShardingRule> {
    return ShardingRule{.dims = "mk,kn->mn", .expand = true};
  });
  EXPECT_THAT(Rule(kMatMul), HasSubstr("has none"));
}

// The kernels of ops on vectors. Each one is a function of the whole vector.
using VectorFn = void (*)(absl::Span<const float> x, absl::Span<float> y, int64_t first_row);

template <VectorFn kFn>
absl::StatusOr<KernelPlan> VectorKernel(const KernelContext& c) {
  const size_t in = c.input_shape(0).num_elements(), out = c.output_shape(0).num_elements();
  return KernelPlan{
      .kernel = MakeKernel([in, out](const KernelArgs& args, Lane&) {
        kFn({args.input<float>(0), in}, {args.output<float>(0), out}, args.params().first_row[0]);
        return absl::OkStatus();
      })};
}

template <VectorFn kFn>
absl::StatusOr<KernelPlan> InPlace(const KernelContext& c) {
  absl::StatusOr<KernelPlan> plan = VectorKernel<kFn>(c);
  plan->in_place = {{0, 0}};
  return plan;
}

void Flip(absl::Span<const float> x, absl::Span<float> y, int64_t) {
  std::reverse_copy(x.begin(), x.end(), y.begin());
}
void AddOne(absl::Span<const float> x, absl::Span<float> y, int64_t) {
  std::transform(x.begin(), x.end(), y.begin(), [](float v) { return v + 1; });
}
void Count(absl::Span<const float>, absl::Span<float> y, int64_t) {
  std::iota(y.begin(), y.end(), 0.0f);
}
void CountOn(absl::Span<const float>, absl::Span<float> y, int64_t first_row) {
  std::iota(y.begin(), y.end(), static_cast<float>(first_row));
}
// Computes the largest element. An empty shard gives 0, which is not the identity of max.
void LargestOrZero(absl::Span<const float> x, absl::Span<float> y, int64_t) {
  y[0] = x.empty() ? 0 : *std::max_element(x.begin(), x.end());
}

template <const char* kDims, Linearity kLinearity, Reduction kContracted>
absl::StatusOr<ShardingRule> Always(const ShardContext&) {
  return ShardingRule{.dims = kDims, .linearity = kLinearity, .contracted = kContracted};
}
constexpr char kRows[] = "a->a", kFromNothing[] = ".->a", kContracts[] = "a->";

constexpr char kVectorCase[] = "case VectorOp\nin float<5>{-1, -2, -3, -4, -5}\n";

class VectorOpTest : public OpChecksTest {
 protected:
  // Returns the failures of an op with these traits and this kernel.
  template <VectorFn kFn>
  std::string TraitsOf(uint32_t traits, bool in_place = false) {
    ops_.Define("VectorOp")
        .Input("x: float")
        .Output("y: float")
        .Traits(traits)
        .Shape([](ShapeContext& c) {
          c.set_output(0, c.input(0));
          return absl::OkStatus();
        });
    kernels_.Register("VectorOp", "CPU", in_place ? InPlace<kFn> : VectorKernel<kFn>);
    return Traits(kVectorCase);
  }
  template <VectorFn kFn, const char* kDims, Linearity kLinearity = Linearity::kNone,
            Reduction kContracted = Reduction::kSum>
  std::string RuleOf() {
    ops_.Define("VectorOp")
        .Input("x: float")
        .Output("y: float")
        .Shape([](ShapeContext& c) {
          c.set_output(0,
                       kDims == kContracts ? Shape(std::initializer_list<int64_t>{}) : c.input(0));
          return absl::OkStatus();
        })
        .Sharding(Always<kDims, kLinearity, kContracted>);
    kernels_.Register("VectorOp", "CPU", VectorKernel<kFn>);
    return Rule(kVectorCase);
  }
};

TEST_F(VectorOpTest, ReverseThatKeepsRowsShardedIsReported) {
  EXPECT_THAT((RuleOf<Flip, kRows>()), HasSubstr("{2,0,3}"));
}

TEST_F(VectorOpTest, AddOneCanKeepRowsSharded) { EXPECT_EQ((RuleOf<AddOne, kRows>()), ""); }

TEST_F(VectorOpTest, AddOneDeclaredLinearIsReported) {
  EXPECT_THAT((RuleOf<AddOne, kRows, Linearity::kJoint>()), HasSubstr("partial sums"));
}

TEST_F(VectorOpTest, RowsGeneratedForWrongReplicaAreReported) {
  EXPECT_THAT((RuleOf<Count, kFromNothing>()), HasSubstr("{2,0,3}"));
}

TEST_F(VectorOpTest, RowsGeneratedForReplicaPass) {
  EXPECT_EQ((RuleOf<CountOn, kFromNothing>()), "");
}

TEST_F(VectorOpTest, ReductionWithoutIdentityOnNoRowsIsReported) {
  EXPECT_THAT((RuleOf<LargestOrZero, kContracts, Linearity::kNone, Reduction::kMax>()),
              HasSubstr("{0,5}"));
}

// --- traits ---

TEST_F(OpChecksTest, ProductDeclaredCommutativeOrElementwiseIsReported) {
  Change("MatMul").Traits(kCommutative | kElementwise);
  const std::string said = Traits(kMatMul);
  EXPECT_THAT(said, HasSubstr("not commutative"));
  EXPECT_THAT(said, HasSubstr("not element-wise"));
}

TEST_F(OpChecksTest, UpdateDeclaredOverwritingIsReported) {
  constexpr char kUpdate[] = R"(
case AssignAddVariableOp {dtype=float}
var float<2>{1, 2}
in float<2>{10, 20}
after float<2>{11, 22}
)";
  EXPECT_EQ(Traits(kUpdate), "");
  Change("AssignAddVariableOp").Traits(kOverwrites);
  EXPECT_THAT(Traits(kUpdate), HasSubstr("not overwriting"));
}

TEST_F(VectorOpTest, AddOneDeclaredViewIsReported) {
  EXPECT_THAT(TraitsOf<AddOne>(kView), HasSubstr("not a view"));
}

// --- kernels ---

void WritePastTheEnd(absl::Span<const float>, absl::Span<float> y, int64_t) {
  std::fill(y.begin(), y.end(), 0.0f);
  y.data()[y.size()] = 0;
}
void WriteToTheInput(absl::Span<const float> x, absl::Span<float> y, int64_t) {
  std::copy(x.begin(), x.end(), y.begin());
  const_cast<float&>(x[0]) = 0;
}
void LeaveTheLastOut(absl::Span<const float> x, absl::Span<float> y, int64_t) {
  std::transform(x.begin(), x.end() - 1, y.begin(), [](float) { return 0.0f; });
}

TEST_F(VectorOpTest, WritePastOutputIsReported) {
  EXPECT_THAT(TraitsOf<WritePastTheEnd>(kElementwise), HasSubstr("operand 1"));
}

TEST_F(VectorOpTest, WriteToInputIsReported) {
  EXPECT_THAT(TraitsOf<WriteToTheInput>(kElementwise), HasSubstr("input 0"));
}

TEST_F(VectorOpTest, RelianceOnZeroedOutputIsReported) {
  EXPECT_THAT(TraitsOf<LeaveTheLastOut>(kElementwise), HasSubstr("not element-wise"));
}

TEST_F(VectorOpTest, ReverseInPlaceIsReported) {
  EXPECT_THAT(TraitsOf<Flip>(0, /*in_place=*/true), HasSubstr("written over"));
}

TEST_F(VectorOpTest, AddOneCanRunInPlace) {
  EXPECT_EQ(TraitsOf<AddOne>(kElementwise, /*in_place=*/true), "");
}

}  // namespace
}  // namespace mirrorflow
