// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/inline_functions.h"

#include <google/protobuf/text_format.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/graph/graph_def.h"
#include "framework/graph/text_form.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

proto::GraphDef Def(const std::string& text) {
  proto::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def));
  return def;
}

// Reads a GraphDef in protobuf's text format.
absl::StatusOr<Graph> Read(const std::string& text) { return FromGraphDef(Def(text), TestOps()); }
std::string Inlined(const std::string& text) { return GraphToText(Read(text).value()); }
absl::Status InliningError(const std::string& text) { return Read(text).status(); }

std::string Call(const std::string& name, const std::string& function, const std::string& inputs,
                 const std::string& attrs = "") {
  return absl::StrCat("node { name: '", name, "' op: 'PartitionedCall' ", inputs,
                      " attr { key: 'f' value { func { name: '", function, "' ", attrs, "} } } } ");
}

constexpr char kX[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }"
    " attr { key: 'shape' value { shape { dim { size: 2 } } } } } ";
constexpr char kFloat[] = " attr { key: 'T' value { type: DT_FLOAT } } ";

// Returns a function square_sum(a, b) = a * a + b without control edges.
std::string SquareSum() {
  return absl::StrCat(
      "function { signature { name: 'square_sum' input_arg { name: 'a' type: DT_FLOAT }"
      " input_arg { name: 'b' type: DT_FLOAT } output_arg { name: 'out' type: DT_FLOAT } }"
      " node_def { name: 'square' op: 'Square' input: 'a'",
      kFloat, "} node_def { name: 'sum' op: 'AddV2' input: 'square:y:0' input: 'b'", kFloat,
      "} ret { key: 'out' value: 'sum:z:0' } } ");
}

TEST(InlineFunctionsTest, CallIsReplacedByBodyUnderItsName) {
  EXPECT_THAT(Inlined(absl::StrCat(kX, Call("call", "square_sum", "input: 'x' input: 'x:0'"),
                                   "node { name: 'y' op: 'Square' input: 'call'", kFloat,
                                   "} library {", SquareSum(), "}")),
              HasSubstr("x = Placeholder() {dtype=float, shape=<2>}\n"
                        "call/square = Square(x) {T=float}\n"
                        "call/sum = AddV2(call/square, x) {T=float}\n"
                        "y = Square(call/sum) {T=float}\n"
                        "call = Identity(call/sum) {T=float}\n"));
}

// The body of `update` must run `write` even if nothing reads its result.
TEST(InlineFunctionsTest, ControlDependenciesOfCallApplyToBody) {
  const std::string text = Inlined(absl::StrCat(
      kX, "node { name: 'before' op: 'NoOp' } ",
      Call("call", "update", "input: 'x' input: '^before'"),
      "node { name: 'after' op: 'NoOp' input: '^call' } ",
      "node { name: 'y' op: 'Square' input: 'call:0'", kFloat,
      "} library { function { signature { name: 'update' input_arg { name: 'a' type: DT_FLOAT }"
      " output_arg { name: 'out' type: DT_FLOAT } control_output: 'w' }"
      " node_def { name: 'write' op: 'NoOp' }"
      " node_def { name: 'square' op: 'Square' input: 'a' input: '^write'",
      kFloat, "} ret { key: 'out' value: 'a' } control_ret { key: 'w' value: 'write' } } }"));
  EXPECT_THAT(text, HasSubstr("call/write = NoOp(^before)\n"));
  EXPECT_THAT(text, HasSubstr("call/square = Square(x, ^call/write) {T=float}\n"));
  EXPECT_THAT(text, HasSubstr("call = Identity(x, ^before, ^call/write) {T=float}\n"));
  EXPECT_THAT(text, HasSubstr("after = NoOp(^call)\n"));
  EXPECT_THAT(text, HasSubstr("y = Square(call) {T=float}\n"));
}

TEST(InlineFunctionsTest, PlaceholderAttributesInBodyTakeValuesFromCall) {
  const std::string library =
      " library { function { signature { name: 'f' input_arg { name: 'a' type_attr: 'T' }"
      " output_arg { name: 'out' type_attr: 'T' } attr { name: 'T' type: 'type' } }"
      " node_def { name: 's' op: 'Square' input: 'a' attr { key: 'T' value { placeholder: 'T' } } }"
      " ret { key: 'out' value: 's:y:0' } } }";
  EXPECT_THAT(Inlined(absl::StrCat(kX, Call("call", "f", "input: 'x'", kFloat), library)),
              HasSubstr("call/s = Square(x) {T=float}\n"));
  EXPECT_THAT(InliningError(absl::StrCat(kX, Call("call", "f", "input: 'x'"), library)),
              IsError(kInvalid, "PartitionedCall(call)", "s:", "attribute 'T'"));
  EXPECT_THAT(
      Inlined(absl::StrCat(kX, "node { name: 'call' op: 'f' input: 'x'", kFloat, "}", library)),
      HasSubstr("call/s = Square(x) {T=float}\n"));
}

TEST(InlineFunctionsTest, ErrorsNameCallAndCause) {
  const std::string library = absl::StrCat(" library {", SquareSum(), "}");
  EXPECT_THAT(InliningError(absl::StrCat(kX, Call("call", "none", "input: 'x'"), library)),
              IsError(kInvalid, "PartitionedCall(call)", "function 'none'"));
  EXPECT_THAT(InliningError(absl::StrCat(kX, Call("call", "square_sum", "input: 'x'"), library)),
              IsError(kInvalid, "'square_sum'", "expected 2", "got 1"));
  EXPECT_THAT(InliningError(absl::StrCat(
                  kX, Call("call", "square_sum", "input: 'x' input: 'x' input: 'x'"), library)),
              IsError(kInvalid, "expected 2", "got 3"));
  auto body = [](const std::string& input) {
    return InliningError(absl::StrCat(
        kX, Call("call", "f", "input: 'x'"),
        " library { function { signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT } }"
        " node_def { name: 's' op: 'Square' input: 'a'",
        kFloat, "} node_def { name: 't' op: 'Square' input: '", input, "'", kFloat, "} } }"));
  };
  EXPECT_THAT(body("s:z:0"), IsError(kInvalid, "Square(s)", "output 'z'"));
  EXPECT_THAT(body("s"), IsError(kInvalid, "'s'", "NODE:OUTPUT:INDEX"));
  EXPECT_THAT(body("x"), IsError(kInvalid, "'x'", "argument or node"));
  EXPECT_THAT(body("a:1"), IsError(kInvalid, "'a:1'", "argument"));
  EXPECT_THAT(body("s:y:one"), IsError(kInvalid, "'s:y:one'", "not an input"));
  EXPECT_THAT(body("s:y:3"), IsError(kInvalid, "below 1", "got 3"));
  EXPECT_THAT(body("^none"), IsError(kInvalid, "'none'", "a node"));
}

TEST(InlineFunctionsTest, LongChainOfCallsIsInlinedInLinearSpace) {
  constexpr int kDepth = 5000;
  proto::GraphDef def = Def(kX);
  for (int i = 0; i <= kDepth; ++i) {
    proto::FunctionDef& f = *def.mutable_library()->add_function();
    f = Def(absl::StrCat("library {", SquareSum(), "}")).library().function(0);
    f.mutable_signature()->set_name(absl::StrCat("f", i));
    if (i == kDepth) continue;
    proto::NodeDef& call = *f.mutable_node_def(0);
    call.set_op(absl::StrCat("f", i + 1));
    call.add_input("b");
    f.mutable_node_def(1)->set_input(0, "square:out:0");
  }
  *def.add_node() = Def("node { name: 'call' op: 'f0' input: 'x' input: 'x' }").node(0);
  const auto inlined = InlineFunctionCalls(def, TestOps());
  ASSERT_TRUE(inlined.ok()) << inlined.status();
  EXPECT_EQ(inlined->node_size(), 1 + 2 * kDepth + 3);
  size_t longest = 0;
  for (const auto& node : inlined->node()) longest = std::max(longest, node.name().size());
  EXPECT_LT(longest, 300u);
  const absl::StatusOr<Graph> graph = FromGraphDef(def, TestOps());
  EXPECT_TRUE(graph.ok()) << graph.status();
}

TEST(InlineFunctionsTest, MutuallyDependentCallsAreACycle) {
  const std::string library =
      " library { function { signature { name: 'same' input_arg { name: 'a' type: DT_FLOAT }"
      " output_arg { name: 'out' type: DT_FLOAT } } ret { key: 'out' value: 'a' } } }";
  EXPECT_THAT(InliningError(absl::StrCat(Call("p", "same", "input: 'q'"),
                                         Call("q", "same", "input: 'p'"), library)),
              IsError(kInvalid, "the graph", "cycle"));
}

TEST(InlineFunctionsTest, BodyHasAnotherPrefixIfTheNameIsTaken) {
  const std::string text = Inlined(absl::StrCat(
      kX, "node { name: 'call/square' op: 'Square' input: 'x'", kFloat, "} ",
      Call("call", "square_sum", "input: 'x' input: 'x'"), " library {", SquareSum(), "}"));
  EXPECT_THAT(text,
              AllOf(HasSubstr("call/square = Square(x)"), HasSubstr("inlined_1/square = Square(x)"),
                    HasSubstr("call = Identity(inlined_1/sum)")));
}

// --- untrusted graphs --------------------------------------------------------------------------

TEST(InlineFunctionsTest, CallWithoutFunctionNameIsRejected) {
  EXPECT_THAT(InliningError("node { name: 'call' op: 'PartitionedCall' }"),
              IsError(kInvalid, "PartitionedCall(call)", "attribute 'f'", "missing"));
}

// Returns a graph in which each function calls the next one with A = func { a = A }. The inner A is
// the calling function's own attribute. `once_more` is a further attribute of the func.
std::string GrowingAttribute(int depth, const std::string& once_more) {
  std::string text = "node { name: 'call' op: 'f0' attr { key: 'A' value { s: 'a' } } } library { ";
  for (int i = 0; i < depth; ++i) {
    absl::StrAppend(&text, "function { signature { name: 'f", i, "' } node_def { name: 'n' op: 'f",
                    i + 1, "' attr { key: 'A' value { func { name: 'b' attr { key: 'a' value { ",
                    "placeholder: 'A' } } ", once_more, " } } } } } ");
  }
  return absl::StrCat(text, "function { signature { name: 'f", depth, "' } } }");
}

TEST(InlineFunctionsTest, AttributeThatDoublesWithEachCallIsRejectedBeforeExpansion) {
  const std::string twice = "attr { key: 'b' value { placeholder: 'A' } }";
  const GraphLimits limits{.max_bytes = 1 << 20};
  const auto inlined = InlineFunctionCalls(Def(GrowingAttribute(40, twice)), TestOps(), limits);
  EXPECT_THAT(inlined.status(), IsError(absl::StatusCode::kResourceExhausted, "(call/n",
                                        "at most 4194304 nodes", "1048576 bytes, got 0"));
  EXPECT_TRUE(InlineFunctionCalls(Def(GrowingAttribute(5, twice)), TestOps(), limits).ok());
}

TEST(InlineFunctionsTest, AttributeThatNestsWithEachCallIsRejected) {
  EXPECT_THAT(InliningError(GrowingAttribute(20000, "")),
              IsError(kInvalid, "attribute 'A'", "nesting"));
}

TEST(InlineFunctionsTest, NumberOfResultsIsLimited) {
  const auto inlined = [](const std::string& count) {
    return InlineFunctionCalls(
        Def(absl::StrCat(
            kX, "node { name: 'call' op: 'f' input: 'x' attr { key: 'N' value { i: ", count,
            " } } } library { function { signature { name: 'f' input_arg { name: 'a' "
            "type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT number_attr: 'N' "
            "} } ret { key: 'r' value: 'a' } } }")),
        TestOps());
  };
  for (const char* count : {"4194305", "9223372036854775807"}) {
    EXPECT_THAT(inlined(count).status(),
                IsError(absl::StatusCode::kResourceExhausted, "f(call)", "4194304 nodes"));
  }
  EXPECT_THAT(inlined("-1").status(), IsError(kInvalid, "f(call)", "output 'r'"));
  EXPECT_THAT(inlined("-9223372036854775808").status(), IsError(kInvalid, "f(call)", "output 'r'"));
  EXPECT_TRUE(inlined("3").ok());
}

TEST(InlineFunctionsTest, NumberOfResultsIsNotMistakenForTypeList) {
  // If the number were mistaken for a type list, the list would be read from the attribute with an
  // empty name.
  EXPECT_THAT(InliningError(absl::StrCat(
                  kX, "node { name: 'call' op: 'f' input: 'x' attr { key: 'N' value { i: 2 } }",
                  " attr { key: '' value { list { } } } } library { function { signature {",
                  " name: 'f' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r'",
                  " type: DT_FLOAT number_attr: 'N' } } ret { key: 'r' value: 'a' } } }")),
              IsError(kInvalid, "IdentityN(call)", "input 1 ('x:1')", "exist"));
}

TEST(InlineFunctionsTest, OutputIndexOutOfRangeIsRejectedWithoutOverflow) {
  for (const char* index : {"2147483648", "9223372036854775807", "9223372036854775808", "-1"}) {
    EXPECT_THAT(
        InliningError(absl::StrCat(
            kX, Call("call", "f", "input: 'x'"),
            " library { function { signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT } }"
            " node_def { name: 's' op: 'Square' input: 'a'",
            kFloat, "} node_def { name: 't' op: 'Square' input: 's:y:", index, "'", kFloat,
            "} } }")),
        IsError(kInvalid, "'s:y:", "not an input"))
        << index;
  }
}

TEST(InlineFunctionsTest, CopiesOfControlInputsAreLimited) {
  constexpr int kMany = 3000;
  proto::GraphDef def;
  proto::FunctionDef& f = *def.mutable_library()->add_function();
  f.mutable_signature()->set_name("f");
  proto::NodeDef call;
  for (int i = 0; i < kMany; ++i) {
    proto::NodeDef* node = def.add_node();
    node->set_name(absl::StrCat("n", i));
    node->set_op("NoOp");
    call.add_input(absl::StrCat("^n", i));
    *f.add_node_def() = *node;
  }
  call.set_name("call");
  call.set_op("f");
  *def.add_node() = call;
  const auto inlined = InlineFunctionCalls(def, TestOps(), {.max_bytes = 16 << 20});
  EXPECT_THAT(inlined.status(),
              IsError(absl::StatusCode::kResourceExhausted, "f(call)", "16777216 bytes"));
}

TEST(InlineFunctionsTest, CopiesOfLongInputNameAreLimited) {
  proto::GraphDef def = Def(kX);
  def.mutable_node(0)->set_name(std::string(100000, 'x'));
  proto::FunctionDef& f = *def.mutable_library()->add_function();
  f.mutable_signature()->set_name("f");
  f.mutable_signature()->add_input_arg()->set_name("a");
  for (int i = 0; i < 1000; ++i) {
    proto::NodeDef* node = f.add_node_def();
    node->set_name(absl::StrCat("n", i));
    node->set_op("Square");
    node->add_input("a");
  }
  proto::NodeDef* call = def.add_node();
  call->set_name("call");
  call->set_op("f");
  call->add_input(def.node(0).name());
  const auto inlined = InlineFunctionCalls(def, TestOps(), {.max_bytes = 16 << 20});
  EXPECT_THAT(inlined.status(),
              IsError(absl::StatusCode::kResourceExhausted, "f(call)", "16777216 bytes"));
  EXPECT_TRUE(InlineFunctionCalls(def, TestOps()).ok());
}

TEST(InlineFunctionsTest, UnusedPrefixIsFoundAmongManyTakenOnes) {
  constexpr int kMany = 20000;
  proto::GraphDef def;
  proto::FunctionDef& f = *def.mutable_library()->add_function();
  f.mutable_signature()->set_name("f");
  for (int i = 0; i < kMany; ++i) {
    proto::NodeDef* node = def.add_node();
    node->set_name(absl::StrCat("inlined_", i, "/last"));
    node->set_op("NoOp");
    node = f.add_node_def();
    node->set_name(i + 1 < kMany ? absl::StrCat("n", i) : "last");
    node->set_op("NoOp");
  }
  proto::NodeDef* call = def.add_node();
  call->set_name(std::string(1000, 'c'));  // too long to be a prefix
  call->set_op("f");
  const auto inlined = InlineFunctionCalls(def, TestOps());
  ASSERT_TRUE(inlined.ok()) << inlined.status();
  EXPECT_EQ(inlined->node(kMany).name(), "inlined_20000/n0");
}

}  // namespace
}  // namespace mirrorflow
