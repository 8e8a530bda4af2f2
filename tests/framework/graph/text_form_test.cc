// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/text_form.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "framework/graph/creation_scope.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/variable_handle.h"
#include "framework/graph/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

constexpr char kText[] = R"(x = Placeholder() {dtype=float, shape=<?,3>}
axis = Const() {dtype=int32, value=int32<>{0}}
split = Split(axis, x) {T=float, num_split=2}
sum = AddN(split, split:1, x) {N=3, T=float}
done = NoOp(^sum, ^axis) {_note="by hand"}
)";

Graph Parsed(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text, TestOps());
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

absl::Status GraphError(absl::string_view text) { return ParseGraph(text, TestOps()).status(); }

TEST(TextFormTest, PrintingReproducesParsedText) {
  const Graph graph = Parsed(kText);
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  EXPECT_EQ(GraphToText(graph), kText);
}

TEST(TextFormTest, PrintedNodeEqualsDebugString) {
  const Graph graph = Parsed(kText);
  const Node* sum = graph.FindNode("sum");
  EXPECT_THAT(kText, HasSubstr(absl::StrCat(sum->DebugString(), "\n")));
}

TEST(TextFormTest, ParsingInfersShapes) {
  const Graph graph = Parsed(kText);
  EXPECT_EQ(graph.values().shape(graph.FindNode("sum")->output(0)), Shape({-1, 3}));
}

TEST(TextFormTest, EveryAttributeRoundTripsBitwise) {
  Graph graph;
  Scope root(&graph);
  Tensor half = *Tensor::Allocate(DT_HALF, {2});
  half.raw()[3] = std::byte{0xfc};
  Tensor bits = *Tensor::Allocate(DT_FLOAT, {2});
  const uint32_t nans[] = {0x7fc00007, 0xffc00000};
  std::copy_n(reinterpret_cast<const std::byte*>(nans), sizeof nans, bits.raw());
  const FunctionRef function{"f/g", {{"inner", AttrList{1, 2}}, {"T", DT_HALF}}};
  const Output all = Apply(
      root.WithName("all"), "AllAttributes", {},
      {{"s", std::string("tab\t\0nul \xe4\"quoted\" #{}[]", 25)},
       {"i", std::numeric_limits<int64_t>::min()},
       {"f", 1e-45f},
       {"b", true},
       {"type", DT_STRING},
       {"shape", Shape({0, -1})},
       {"strings", AttrList{"", "a,b"}},
       {"ints", AttrList{}},
       {"floats", AttrList{-0.0f, 16777216.0f, std::numeric_limits<float>::infinity()}},
       {"bools", AttrList{true, false}},
       {"types", AttrList{DT_INVALID, DT_UINT64}},
       {"shapes", AttrList{Shape(), Shape::UnknownRank()}},
       {"tensors", AttrList{half, bits, *Tensor::Allocate(DT_COMPLEX128, {1}),
                            *Tensor::Allocate(DT_INT8, {2, 0}),
                            Tensor::Vector<int64_t>({-1, std::numeric_limits<int64_t>::max()}),
                            Tensor::Vector<bool>({true}), Tensor::Scalar<uint8_t>(255),
                            Tensor::Vector<double>({0.1, 5e-324}), Tensor()}},
       {"funcs", AttrList{function, FunctionRef{"", {}}}},
       {"_free form:x", AttrList{AttrList{1}, "mixed"}}});
  ASSERT_TRUE(root.ok()) << root.status();

  const Graph copy = Parsed(GraphToText(graph));
  ASSERT_NE(copy.FindNode("all"), nullptr);
  EXPECT_EQ(copy.FindNode("all")->attrs(), all.node->attrs());
  EXPECT_EQ(GraphToText(copy), GraphToText(graph));
}

TEST(TextFormTest, FunctionsRoundTrip) {
  Graph graph;
  ASSERT_TRUE(graph.functions().Add("body", std::string("\x0a\x00\xff", 3)).ok());
  ASSERT_TRUE(graph.functions().Add("a b", "x").ok());
  graph.functions().set_gradients("g");
  const std::string text = GraphToText(graph);
  EXPECT_EQ(text, "@\"a b\" = \"x\"\n@body = \"\\n\\x00\\xff\"\n@ = \"g\"\n");
  const Graph copy = Parsed(text);
  EXPECT_EQ(copy.functions().functions(), graph.functions().functions());
  EXPECT_EQ(copy.functions().gradients(), "g");
}

TEST(TextFormTest, NodesFollowInputsRegardlessOfIds) {
  const Graph graph = Parsed(
      "b = Square(a) {T=float}\n"
      "x = Placeholder() {dtype=float, shape=<>}\n"
      "a = Square(x) {T=float}\n");
  EXPECT_EQ(GraphToText(graph),
            "x = Placeholder() {dtype=float, shape=<>}\n"
            "a = Square(x) {T=float}\n"
            "b = Square(a) {T=float}\n");
}

TEST(TextFormTest, OmitsDefaultsOnRequest) {
  const Graph graph = Parsed("all = AllAttributes() {i=7}\nx = Placeholder() {dtype=float}\n");
  EXPECT_EQ(GraphToText(graph, {.omit_defaults = true}),
            "all = AllAttributes() {i=7}\nx = Placeholder() {dtype=float}\n");
  EXPECT_THAT(GraphToText(graph), HasSubstr("x = Placeholder() {dtype=float, shape=<*>}"));
}

TEST(TextFormTest, WritesCommentsThatParserSkips) {
  const Graph graph =
      Parsed("# a graph\n\n  x = NoOp()   # first\ny = NoOp(^x) {_c=\"#\"} # last\n");
  const std::string text = GraphToText(
      graph, {.comment = [](const Node& node) { return node.name() == "x" ? "two\nlines" : ""; }});
  EXPECT_EQ(text, "x = NoOp()  # two lines\ny = NoOp(^x) {_c=\"#\"}\n");
  EXPECT_EQ(GraphToText(Parsed(text)), GraphToText(graph));
}

TEST(TextFormTest, StrategyInTheTextIsIgnored) {
  const Graph graph = Parsed("x = NoOp() {_creation_scope=\"MirroredStrategy #1\"}\n");
  EXPECT_EQ(GraphToText(graph), "x = NoOp()\n");
  EXPECT_FALSE(graph.FindNode("x")->has_attr(kCreationScopeAttr));
}

TEST(TextFormTest, TruncatesLongTensorsOnRequest) {
  const Graph graph = Parsed("c = Const() {dtype=int32, value=int32<3>{1, 2, 3}}");
  EXPECT_THAT(GraphToText(graph, {.max_elements = 1}), HasSubstr("value=int32<3>{1, …}"));
}

TEST(TextFormTest, PrintsCyclicGraphInOrderOfIds) {
  Graph graph = Parsed("a = NoOp()\nb = NoOp(^a)\n");
  graph.AddControlEdge(graph.FindNode("b"), graph.FindNode("a"));
  EXPECT_EQ(GraphToText(graph), "a = NoOp(^b)\nb = NoOp(^a)\n");
}

TEST(ParseGraphTest, ReportsEveryMalformedLine) {
  EXPECT_THAT(SplitErrors(GraphError("a = NoOp(\n"
                                     "b = NoOp()\n"
                                     "c NoOp()\n"
                                     "d = NoOp() junk\n"
                                     "e = NoOp(^b;)\n"
                                     "= NoOp()\n")),
              ElementsAre(IsError(kInvalid, "line 1, column 10:", "an input", "got the end"),
                          IsError(kInvalid, "line 3, column 3:", "'='", "got 'NoOp'"),
                          IsError(kInvalid, "line 4, column 12:", "comment", "got 'junk'"),
                          IsError(kInvalid, "line 5, column 12:", "',' or ')'", "got ';'"),
                          IsError(kInvalid, "line 6, column 1:", "name", "got '='")));
}

TEST(ParseGraphTest, ReportsAllStructuralErrorsWithLineNodeAndInput) {
  EXPECT_THAT(SplitErrors(GraphError("x = Placeholder() {dtype=float}\n"
                                     "x = NoOp()\n"
                                     "_y = NoOp()\n"
                                     "s = Sqare(x) {T=float}\n"
                                     "t = Square(xx) {T=float}\n"
                                     "u = Square(x:1) {T=float}\n"
                                     "v = AddV2(^x, x, x) {T=float}\n"
                                     "w = Square(x) {T=int32}\n"
                                     "after = Square(u) {T=float}\n"
                                     "z = Square(x:a) {T=float}\n"
                                     "n = AddN(x) {N=2, T=float}\n"
                                     "q = Square(x) {T=float, U=1}\n")),
              ElementsAre(IsError(kInvalid, "line 2: NoOp(x)", "line 1"),
                          IsError(kInvalid, "line 3: NoOp(_y)", "illegal node name"),
                          IsError(kInvalid, "line 5: Square(t)", "input 0 ('xx')", "exist"),
                          IsError(kInvalid, "line 7: AddV2(v)", "input 1 ('x')", "control input"),
                          IsError(kInvalid, "line 10: Square(z)", "input 0 ('x:a')", "malformed"),
                          IsError(kInvalid, "line 6: Square(u)", "input 0 ('x:1')", "got 1"),
                          IsError(kInvalid, "line 8: Square(w)", "input 0 (x)", "got float"),
                          IsError(kInvalid, "line 11: AddN(n)", "expected 2 inputs", "got 1"),
                          IsError(kInvalid, "line 12: Square(q)", "attribute 'U'")));
}

TEST(ParseGraphTest, ReportsCycleAndShapeMismatch) {
  EXPECT_THAT(SplitErrors(GraphError("a = NoOp(^b)\n"
                                     "b = NoOp(^a)\n"
                                     "x = Placeholder() {dtype=float, shape=<2>}\n"
                                     "y = Placeholder() {dtype=float, shape=<3>}\n"
                                     "sum = AddV2(x, y) {T=float}\n")),
              ElementsAre(IsError(kInvalid, "line 1:", "cycle: a -> b"),
                          IsError(kInvalid, "line 5: AddV2(sum)", "[2] and [3]", "broadcast")));
  EXPECT_THAT(GraphError("a = NoOp(^a)"), IsError(kInvalid, "cycle: a -> a"));
}

TEST(ParseGraphTest, StopsAfterTwentyErrors) {
  std::string text;
  for (int i = 0; i < 30; ++i) absl::StrAppend(&text, "n", i, " = Square(none)\n");
  const absl::Status error = GraphError(text);
  EXPECT_THAT(error, IsError(kInvalid, "Square(n19)", "stopped after 20 errors"));
  EXPECT_THAT(std::string(error.message()), Not(HasSubstr("n20")));
}

TEST(ParseGraphTest, RejectsDuplicateFunction) {
  EXPECT_THAT(GraphError("@f = \"a\"\n@f = \"b\"\n"), IsError(kInvalid, "function 'f'", "twice"));
}

TEST(ParseGraphTest, RejectsExcessiveNumberOfOutputs) {
  EXPECT_THAT(GraphError("axis = Placeholder() {dtype=int32}\n"
                         "x = Placeholder() {dtype=float}\n"
                         "s = Split(axis, x) {T=float, num_split=1048576}\n"),
              IsError(kInvalid, "line 3: Split(s)", "at most 262192", "got 1048578"));
  EXPECT_THAT(GraphError("n = AddN() {N=9223372036854775807, T=float}"),
              IsError(kInvalid, "attribute 'N'", "count"));
}

TEST(ParseGraphTest, AcceptsCarriageReturns) {
  const absl::StatusOr<Graph> graph = ParseGraph("a = NoOp()\r\nb = NoOp(^a)\r\n", TestOps());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->num_nodes(), 2);
}

TEST(ParseGraphTest, ParsesChainOfHundredThousandNodes) {
  std::string text = "n0 = NoOp()\n";
  for (int i = 1; i < 100000; ++i) absl::StrAppend(&text, "n", i, " = NoOp(^n", i - 1, ")\n");
  const absl::StatusOr<Graph> graph = ParseGraph(text, TestOps());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->num_nodes(), 100000);
}

// A random edit of the text yields either a valid graph that round-trips or an error that names the
// line.
TEST(ParseGraphTest, RandomEditsGiveErrorOrValidGraph) {
  const std::string original =
      "@f = \"\\001\"\n"
      "x = Placeholder() {dtype=float, shape=<?,3>}  # in\n"
      "axis = Const() {dtype=int32, value=int32<>{0}}\n"
      "split = Split(axis, x) {T=float, num_split=2}\n"
      "sum = AddN(split, split:1) {N=2, T=float}\n"
      "all = AllAttributes(^sum) {s=\"a\\x00b\", f=1e-3, floats=[nan, -inf], types=[half], "
      "shapes=[<2,?>, <*>], tensors=[double<2>{1, nan(0x7ff8000000000001)}], funcs=[@f{a=1}]}\n"
      "call = PartitionedCall(x) {Tin=[float], Tout=[float], f=@f}\n";
  constexpr absl::string_view kPieces[] = {"{",  "}",   "[",    "]", "(", ")",    "<",      ">",
                                           "=",  ",",   "\"",   "@", "^", ":",    "#",      "\n",
                                           "\\", "nan", "-",    "9", "x", "?",    "*",      "\xff",
                                           " ",  "1e9", "half", "_", "0", "sum:", "float<", ""};
  std::mt19937 random(1);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  int valid = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string text = original;
    for (size_t edits = 1 + below(3); edits > 0; --edits) {
      const size_t at = below(text.size());
      text.replace(at, below(3), std::string(kPieces[below(std::size(kPieces))]));
    }
    const absl::StatusOr<Graph> graph = ParseGraph(text, TestOps());
    if (!graph.ok()) {
      ASSERT_THAT(graph.status(), IsError(absl::StatusCode::kInvalidArgument, "line ")) << text;
      continue;
    }
    ++valid;
    ASSERT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph) << "\n" << text;
    const std::string printed = GraphToText(*graph);
    const absl::StatusOr<Graph> again = ParseGraph(printed, TestOps());
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << printed;
    ASSERT_EQ(GraphToText(*again), printed);
  }
  EXPECT_GT(valid, 100);  // otherwise, the test would cover nothing
}

}  // namespace
}  // namespace mirrorflow
