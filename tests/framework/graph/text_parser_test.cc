// SPDX-License-Identifier: Apache-2.0

#include <random>

#include "absl/strings/str_cat.h"
#include "framework/graph/text_form.h"
#include "framework/graph/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/literals.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ValueError(absl::string_view text) {
  return std::string(ParseAttrValue(text).status().message());
}
std::string TensorError(absl::string_view text) {
  return std::string(ParseTensorLiteral(text).status().message());
}
std::string GraphError(absl::string_view text) {
  const absl::StatusOr<Graph> graph = ParseGraph(text, TestOps());
  EXPECT_TRUE(graph.ok() || absl::IsInvalidArgument(graph.status())) << graph.status();
  return std::string(graph.status().message());
}

TEST(ParseAttrValueTest, DistinguishesTypes) {
  const std::pair<const char*, AttrValue> rows[] = {
      {"3", 3},
      {" -9223372036854775808 ", std::numeric_limits<int64_t>::min()},
      {"3.0", 3.0f},
      {"1e-05", 1e-5f},
      {"inf", std::numeric_limits<float>::infinity()},
      {"-inf", -std::numeric_limits<float>::infinity()},
      {"true", true},
      {"float", DT_FLOAT},
      {"\"float\"", "float"},
      {"\"a\\tb\\x00\\\"\"", std::string("a\tb\0\"", 5)},
      {"<2,?>", Shape({2, -1})},
      {"< 2 , ? >", Shape({2, -1})},
      {"<>", Shape()},
      {"<*>", Shape::UnknownRank()},
      {"int32<2>{1, 2}", Tensor::Vector<int32_t>({1, 2})},
      {"[]", AttrList{}},
      {"[1,2 , 3]", AttrList{1, 2, 3}},
      {"@fn", FunctionRef{"fn", {}}},
      {"@\"f n\"{a=1, b=@g{}}", FunctionRef{"f n", {{"a", 1}, {"b", FunctionRef{"g", {}}}}}},
  };
  for (const auto& [text, value] : rows) {
    const absl::StatusOr<AttrValue> parsed = ParseAttrValue(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, value) << text;
  }
}

TEST(ParseAttrValueTest, ErrorsNamePlaceExpectedAndActual) {
  EXPECT_EQ(ValueError(""), "line 1, column 1: expected a value, got the end");
  EXPECT_EQ(ValueError("[1, 2"), "line 1, column 6: expected ',' or ']', got the end");
  EXPECT_EQ(ValueError("[1,\n 2;"), "line 2, column 3: expected ',' or ']', got ';'");
  EXPECT_EQ(ValueError("flaot"), "line 1, column 1: expected a value, got 'flaot'");
  EXPECT_EQ(ValueError("1 2"), "line 1, column 3: expected the end, got '2'");
  EXPECT_EQ(ValueError("12x"), "line 1, column 1: expected an int or a float, got '12x'");
  EXPECT_EQ(ValueError("<2,x>"), "line 1, column 4: expected a dimension or '?', got 'x'");
  EXPECT_EQ(ValueError("<2"), "line 1, column 3: expected ',' or '>', got the end");
  EXPECT_EQ(ValueError("\"abc"), "line 1, column 1: expected '\"' at the end of the string");
  EXPECT_THAT(ValueError("\"\\q\""), HasSubstr("line 1, column 2: expected C escapes"));
  EXPECT_EQ(ValueError("@f{a}"), "line 1, column 5: expected '=', got '}'");
  EXPECT_EQ(ValueError("\x01"), "line 1, column 1: expected a value, got '\\x01'");
}

TEST(ParseAttrValueTest, RejectsOutOfRangeAndMalformedNumbers) {
  EXPECT_THAT(ValueError("9223372036854775808"), HasSubstr("expected an int or a float"));
  EXPECT_THAT(ValueError("1e39"), HasSubstr("expected an int or a float, got '1e39'"));
  EXPECT_THAT(ValueError("0x10"), HasSubstr("expected an int or a float"));
  EXPECT_THAT(ValueError("--1"), HasSubstr("expected an int or a float"));
  EXPECT_THAT(ValueError("nan(0x0)"), HasSubstr("expected an int or a float"));
}

TEST(ParseAttrValueTest, RejectsImpossibleShapes) {
  EXPECT_THAT(ValueError("<1,1,1,1,1,1,1,1,1>"), HasSubstr("rank of a shape must be at most 8"));
  EXPECT_THAT(ValueError("<9223372036854775807,9>"), HasSubstr("overflows"));
  EXPECT_THAT(ValueError("<-1>"), HasSubstr("expected a dimension or '?', got '-1'"));
}

TEST(ParseAttrValueTest, LimitsNesting) {
  const auto nested = [](int depth) {
    return absl::StrCat(std::string(depth, '['), std::string(depth, ']'));
  };
  EXPECT_TRUE(ParseAttrValue(nested(50)).ok());
  EXPECT_EQ(ValueError(nested(51)), "line 1, column 51: nesting deeper than 50");
  EXPECT_THAT(ValueError(std::string(200000, '[')), HasSubstr("nesting deeper than 50"));
  std::string functions;
  for (int i = 0; i < 100000; ++i) functions += "@f{a=";
  EXPECT_THAT(ValueError(functions), HasSubstr("nesting deeper than 50"));
}

TEST(ParseAttrMapTest, ReadsMapAndEmptyText) {
  EXPECT_EQ(*ParseAttrMap("{T=float, strides=[1, 2], \"_a b\"=\"x\"}"),
            (AttrMap{{"T", DT_FLOAT}, {"strides", AttrList{1, 2}}, {"_a b", "x"}}));
  EXPECT_TRUE(ParseAttrMap("").value().empty());
  EXPECT_TRUE(ParseAttrMap(" { } ").value().empty());
}

TEST(ParseAttrMapTest, ErrorNamesDuplicateAttribute) {
  EXPECT_EQ(ParseAttrMap("{a=1, a=2}").status().message(),
            "line 1, column 7: attribute 'a' is given twice");
}

TEST(ParseTensorLiteralTest, AcceptsIntegersForFloats) {
  EXPECT_THAT(ParseTensorLiteral("float<2,3>{1, 2.5, -3, 1e3, 0, 6}")->flat<float>(),
              ElementsAre(1, 2.5, -3, 1000, 0, 6));
  const float zero = ParseTensorLiteral("float<>{-0}")->scalar<float>();
  EXPECT_TRUE(std::signbit(zero));
  EXPECT_EQ(ParseTensorLiteral("double<>{123456789012345678901234567890}")->scalar<double>(),
            123456789012345678901234567890.0);
}

TEST(ParseTensorLiteralTest, ReadsNonFiniteValues) {
  const Tensor t = *ParseTensorLiteral("double<4>{nan, -nan, inf, -inf}");
  EXPECT_TRUE(std::isnan(t.flat<double>()[0]) && !std::signbit(t.flat<double>()[0]));
  EXPECT_TRUE(std::isnan(t.flat<double>()[1]) && std::signbit(t.flat<double>()[1]));
  EXPECT_EQ(t.flat<double>()[2], std::numeric_limits<double>::infinity());
  EXPECT_EQ(t.flat<double>()[3], -std::numeric_limits<double>::infinity());
}

TEST(ParseTensorLiteralTest, ReadsEachTypeUpToItsLimits) {
  for (const char* text : {
           "bool<2>{true, false}",
           "uint8<2>{0, 255}",
           "int8<2>{-128, 127}",
           "int16<2>{-32768, 32767}",
           "uint16<1>{65535}",
           "int32<2>{-2147483648, 2147483647}",
           "uint32<1>{4294967295}",
           "int64<2>{-9223372036854775808, 9223372036854775807}",
           "uint64<1>{18446744073709551615}",
           "half<1>{15360}",
           "bfloat16<1>{16256}",
           "complex64<2>{1.0, -2.0, 0.5, 0.25}",
           "complex128<>{0.1, 0.2}",
           "float<0,3>{}",
       }) {
    const absl::StatusOr<Tensor> tensor = ParseTensorLiteral(text);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(TensorToString(*tensor), text);
  }
}

TEST(ParseTensorLiteralTest, RejectsElementsOfAnotherType) {
  EXPECT_EQ(TensorError("uint8<1>{256}"), "line 1, column 10: expected uint8, got '256'");
  EXPECT_EQ(TensorError("int8<1>{-129}"), "line 1, column 9: expected int8, got '-129'");
  EXPECT_EQ(TensorError("uint8<1>{-1}"), "line 1, column 10: expected uint8, got '-1'");
  EXPECT_EQ(TensorError("int32<1>{1.0}"), "line 1, column 10: expected int32, got '1.0'");
  EXPECT_EQ(TensorError("bool<1>{1}"), "line 1, column 9: expected bool, got '1'");
  EXPECT_EQ(TensorError("float<1>{true}"), "line 1, column 10: expected float, got 'true'");
  EXPECT_EQ(TensorError("float<1>{1e39}"), "line 1, column 10: expected float, got '1e39'");
  EXPECT_EQ(TensorError("half<1>{1.5}"),
            "line 1, column 9: expected the bits as an integer, got '1.5'");
  EXPECT_EQ(TensorError("float<1>{}"),
            "line 1, column 9: the number of elements is wrong; expected 1 for shape [1], got 0");
}

TEST(ParseTensorLiteralTest, RejectsInvalidShapesAndTypes) {
  EXPECT_EQ(TensorError("float<?>{1}"), "line 1, column 1: the shape of a tensor must be known");
  EXPECT_THAT(TensorError("float<*>{}"), HasSubstr("the shape of a tensor must be known"));
  EXPECT_THAT(TensorError("string<>{}"), HasSubstr("cannot hold elements of dtype string"));
  EXPECT_EQ(TensorError("flot<1>{1}"), "line 1, column 1: expected a dtype, got 'flot'");
  EXPECT_THAT(TensorError("double<4611686018427387904>{}"), HasSubstr("overflows"));
}

TEST(ParseTensorLiteralTest, AllocatesNothingForMissingElements) {
  EXPECT_THAT(TensorError("float<1000000000000>{1}"),
              HasSubstr("expected 1000000000000 for shape [1000000000000], got 1"));
}

TEST(ParseGraphTest, ReportsEveryMalformedLine) {
  EXPECT_EQ(GraphError("a = NoOp(\n"
                       "b = NoOp()\n"
                       "c NoOp()\n"
                       "d = NoOp() junk\n"
                       "e = NoOp(^b;)\n"
                       "= NoOp()\n"),
            "line 1, column 10: expected an input, got the end\n"
            "line 3, column 3: expected '=', got 'NoOp'\n"
            "line 4, column 12: expected a comment or the end of the line, got 'junk'\n"
            "line 5, column 12: expected ',' or ')', got ';'\n"
            "line 6, column 1: expected the name of a node, got '='");
}

TEST(ParseGraphTest, ReportsAllStructuralErrorsWithLineNodeAndInput) {
  EXPECT_EQ(GraphError("x = Placeholder() {dtype=float}\n"
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
                       "q = Square(x) {T=float, U=1}\n"),
            "line 2: NoOp(x): a node of this name exists already in line 1\n"
            "line 3: NoOp(_y): illegal node name; expected [A-Za-z0-9.][A-Za-z0-9_>./-]*\n"
            "line 5: Square(t): input 0 ('xx') names a node that does not exist; did you mean x?\n"
            "line 7: AddV2(v): input 1 ('x') is a data input after a control input\n"
            "line 10: Square(z): input 0 ('x:a') is malformed; expected 'node', 'node:output' or "
            "'^node'\n"
            "line 6: Square(u): input 0 ('x:1') names an output that does not exist; expected an "
            "index below 1, got 1\n"
            "line 8: Square(w): input 0 (x): expected dtype int32, got float\n"
            "line 11: AddN(n): expected 2 inputs, got 1\n"
            "line 12: Square(q): op Square has no attribute 'U'");
}

TEST(ParseGraphTest, ReportsCycleAndShapeMismatch) {
  EXPECT_EQ(GraphError("a = NoOp(^b)\n"
                       "b = NoOp(^a)\n"
                       "x = Placeholder() {dtype=float, shape=<2>}\n"
                       "y = Placeholder() {dtype=float, shape=<3>}\n"
                       "sum = AddV2(x, y) {T=float}\n"),
            "line 1: the graph has a cycle: a -> b -> a\n"
            "line 5: AddV2(sum): shapes [2] and [3] do not broadcast against each other");
  EXPECT_THAT(GraphError("a = NoOp(^a)"), HasSubstr("cycle: a -> a"));
}

TEST(ParseGraphTest, StopsAfterTwentyErrors) {
  std::string text;
  for (int i = 0; i < 30; ++i) absl::StrAppend(&text, "n", i, " = Square(none)\n");
  const std::string error = GraphError(text);
  EXPECT_THAT(error, AllOf(HasSubstr("Square(n19)"), HasSubstr("stopped after 20 errors")));
  EXPECT_THAT(error, Not(HasSubstr("n20")));
}

TEST(ParseGraphTest, RejectsDuplicateFunction) {
  EXPECT_THAT(GraphError("@f = \"a\"\n@f = \"b\"\n"), HasSubstr("function 'f' is defined twice"));
}

TEST(ParseGraphTest, RejectsExcessiveNumberOfOutputs) {
  EXPECT_EQ(GraphError("axis = Placeholder() {dtype=int32}\n"
                       "x = Placeholder() {dtype=float}\n"
                       "s = Split(axis, x) {T=float, num_split=1048576}\n"),
            "line 3: Split(s): too many outputs; expected at most 262192 in a graph of 3 nodes, "
            "got 1048578");
  EXPECT_THAT(GraphError("n = AddN() {N=9223372036854775807, T=float}"),
              HasSubstr("attribute 'N' must be a count"));
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

// Random edits of the text give either a valid graph, which prints and parses again, or an error
// that names the line.
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
      ASSERT_TRUE(absl::IsInvalidArgument(graph.status())) << graph.status() << "\n" << text;
      ASSERT_THAT(graph.status().message(), HasSubstr("line ")) << text;
      continue;
    }
    ++valid;
    ASSERT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph) << "\n" << text;
    const std::string printed = GraphToText(*graph);
    const absl::StatusOr<Graph> again = ParseGraph(printed, TestOps());
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << printed;
    ASSERT_EQ(GraphToText(*again), printed);
  }
  EXPECT_GT(valid, 100);  // otherwise the test covers nothing
}

}  // namespace
}  // namespace mirrorflow
