// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/text_form.h"

#include "absl/strings/str_cat.h"
#include "framework/graph/creation_scope.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/variable_handle.h"
#include "framework/graph/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

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

TEST(TextFormTest, StrategyInTheTextIsNotRead) {
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

}  // namespace
}  // namespace mirrorflow
