// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/graph_def.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/text_form.h"
#include "framework/graph/verifier.h"
#include "framework/proto/serialize.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

// TensorFlow's bytes for {x: Placeholder float; y: Square(x)}, without default attributes.
constexpr char kGolden[] =
    "0a1d0a0178120b506c616365686f6c6465722a0b0a05647479706512023001"
    "0a170a017912065371756172651a01782a070a0154120230012205"
    "08a806100c";

proto::GraphDef Def(absl::string_view text) {
  proto::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(std::string(text), &def)) << text;
  return def;
}

Graph Parsed(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text, TestOps());
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

Graph Read(const proto::GraphDef& def) {
  absl::StatusOr<Graph> graph = Graph::FromGraphDef(def, TestOps());
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

proto::GraphDef Written(const Graph& graph) {
  absl::StatusOr<proto::GraphDef> def = graph.ToGraphDef();
  EXPECT_TRUE(def.ok()) << def.status();
  return def.ok() ? *std::move(def) : proto::GraphDef();
}

absl::Status ReadError(const proto::GraphDef& def) { return FromGraphDef(def, TestOps()).status(); }

const proto::NodeDef& NodeOf(const proto::GraphDef& def, absl::string_view name) {
  for (const proto::NodeDef& node : def.node()) {
    if (node.name() == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return def.node(0);
}

TEST(GraphDefTest, ReadsBytesWrittenByTensorFlow) {
  proto::GraphDef def;
  ASSERT_TRUE(def.ParseFromString(absl::HexStringToBytes(kGolden)));
  const Graph graph = Read(def);
  EXPECT_EQ(GraphToText(graph, {.omit_defaults = true}),
            "x = Placeholder() {dtype=float}\ny = Square(x) {T=float}\n");
  EXPECT_EQ(def.versions().producer(), 808);
}

TEST(GraphDefTest, WritesSameBytesAsTensorFlowExceptDefaults) {
  proto::GraphDef def = Written(Parsed("x = Placeholder() {dtype=float}\ny = Square(x) {T=float}"));
  def.mutable_node(0)->mutable_attr()->erase("shape");
  EXPECT_EQ(absl::BytesToHexString(*SerializeDeterministically(def)), kGolden);
}

TEST(GraphDefTest, EqualGraphsGiveEqualBytesAndRoundTrip) {
  constexpr char kText[] =
      "x = Placeholder() {dtype=float, shape=<?,3>}\n"
      "axis = Const() {dtype=int32, value=int32<>{0}}\n"
      "split = Split(axis, x) {T=float, num_split=2}\n"
      "sum = AddN(split, split:1, x) {N=3, T=float, _b=1, _a=\"x\", _c=[], _d=@f{m=2, n=[1.5]}}\n"
      "done = NoOp(^sum, ^axis) {_class=[\"loc:@sum\"]}\n"
      "all = AllAttributes() {s=\"\\xff\", shapes=[<2,?>, <*>], types=[half, string], "
      "bools=[true, false], floats=[-0.0, inf, nan(0x7fc00007)], tensors=[double<2>{1, 2}], "
      "funcs=[@f, @g{a=1}], strings=[\"\\x00\"]}\n";
  const Graph graph = Parsed(kText);
  const std::string bytes = *SerializeDeterministically(Written(graph));
  EXPECT_EQ(*SerializeDeterministically(Written(Parsed(kText))), bytes);
  const Graph copy = Read(Written(graph));
  EXPECT_EQ(GraphToText(copy), GraphToText(graph));
  EXPECT_EQ(*SerializeDeterministically(Written(copy)), bytes);
}

TEST(GraphDefTest, WritesNodesInTopologicalOrderWithTensorFlowInputSyntax) {
  const proto::GraphDef def =
      Written(Parsed("sum = AddN(split:1, split, ^late) {N=2, T=float}\n"
                     "late = NoOp()\n"
                     "split = Split(axis, x) {T=float, num_split=2}\n"
                     "axis = Placeholder() {dtype=int32}\n"
                     "x = Placeholder() {dtype=float}\n"));
  std::vector<std::string> names;
  for (const proto::NodeDef& node : def.node()) names.push_back(node.name());
  EXPECT_THAT(names, ElementsAre("late", "axis", "x", "split", "sum"));
  EXPECT_THAT(NodeOf(def, "sum").input(), ElementsAre("split:1", "split", "^late"));
}

TEST(GraphDefTest, ReadsNodesInAnyOrderAndInfersShapes) {
  const Graph graph = Read(Def(R"pb(
    node {
      name: "y"
      op: "Square"
      input: "x:0"
      attr {
        key: "T"
        value { type: DT_FLOAT }
      }
    }
    node {
      name: "x"
      op: "Placeholder"
      attr {
        key: "dtype"
        value { type: DT_FLOAT }
      }
      attr {
        key: "shape"
        value {
          shape {
            dim { size: -1 }
            dim { size: 3 }
          }
        }
      }
    }
  )pb"));
  EXPECT_TRUE(VerifyGraph(graph).ok()) << VerifyGraph(graph);
  EXPECT_EQ(graph.values().shape(graph.FindNode("y")->output(0)), Shape({-1, 3}));
}

TEST(GraphDefTest, KeepsUnderscoreAttributesAndDropsTensorFlowHints) {
  const Graph graph = Read(Def(R"pb(
    node {
      name: "x"
      op: "Placeholder"
      device: "/device:CPU:0"
      attr {
        key: "dtype"
        value { type: DT_FLOAT }
      }
      attr {
        key: "debug_name"
        value { s: "x/" }
      }
      attr {
        key: "_class"
        value { list { s: "loc:@x" } }
      }
      attr {
        key: "_free:form"
        value { func { name: "f" } }
      }
      experimental_type { type_id: TFT_TENSOR }
    }
  )pb"));
  const AttrMap& attrs = graph.FindNode("x")->attrs();
  EXPECT_EQ(attrs, (AttrMap{{"dtype", DT_FLOAT},
                            {"shape", Shape::UnknownRank()},
                            {"_class", AttrList{"loc:@x"}},
                            {"_free:form", FunctionRef{"f", {}}}}));
  EXPECT_EQ(Read(Written(graph)).FindNode("x")->attrs(), attrs);
}

// The graph has an unsupported element type everywhere that a GraphDef allows one.
TEST(GraphDefTest, NodeOfUnsupportedDtypeIsRejectedOnlyIfUsed) {
  const Graph graph = Read(Def(R"pb(
    node {
      name: "x"
      op: "Placeholder"
      attr {
        key: "dtype"
        value { type: DT_FLOAT }
      }
    }
    node {
      name: "float8"
      op: "Const"
      attr {
        key: "dtype"
        value { type: DT_FLOAT8_E4M3FN }
      }
      attr {
        key: "value"
        value {
          tensor {
            dtype: DT_FLOAT8_E4M3FN
            tensor_shape { dim { size: 1 } }
            tensor_content: "a"
          }
        }
      }
    }
    node {
      name: "int4"
      op: "Placeholder"
      attr {
        key: "dtype"
        value { type: DT_INT4 }
      }
    }
    node {
      name: "quantized"
      op: "QuantizeV2"
      input: "x"
      attr {
        key: "T"
        value { type: DT_QUINT8 }
      }
      attr {
        key: "types"
        value { list { type: DT_QINT8 type: DT_FLOAT } }
      }
    }
    node {
      name: "words"
      op: "LookupTable"
      attr {
        key: "keys"
        value { tensor { dtype: DT_STRING string_val: "a" } }
      }
      attr {
        key: "values"
        value { list { tensor { dtype: DT_VARIANT } } }
      }
    }
    node { name: "user" op: "NoOp" input: "^float8" }
  )pb"));
  for (const char* const name : {"float8", "int4", "quantized", "words"}) {
    ASSERT_NE(graph.FindNode(name), nullptr) << name;
    EXPECT_EQ(graph.FindNode(name)->op().role, OpRole::kUnknown) << name;
  }
  // Writing the graph leaves such nodes unchanged.
  const proto::GraphDef written = Written(graph);
  for (const proto::NodeDef& node : written.node()) {
    if (node.name() == "float8") {
      EXPECT_EQ(node.attr().at("value").tensor().tensor_content(), "a");
    }
    if (node.name() == "int4") {
      EXPECT_EQ(node.attr().at("dtype").type(), proto::DT_INT4);
    }
  }
}

TEST(GraphDefTest, ReportsAllErrorsWithNodeInputAndAttribute) {
  EXPECT_THAT(
      SplitErrors(ReadError(Def(R"pb(
        node {
          name: "x"
          op: "Placeholder"
          attr {
            key: "dtype"
            value { type: DT_FLOAT }
          }
        }
        node { name: "x" op: "NoOp" }
        node {
          name: "n"
          op: "Placeholder"
          attr {
            key: "dtype"
            value { placeholder: "T" }
          }
        }
        node { name: "hidden" op: "Identity" input: "n" }
        node {
          name: "p"
          op: "NoOp"
          attr {
            key: "_p"
            value { placeholder: "T" }
          }
        }
        node {
          name: "e"
          op: "NoOp"
          attr {
            key: "_e"
            value {}
          }
        }
        node { name: "a" op: "Sqare" input: "x" }
        node { name: "b" op: "Square" input: "xx" }
        node { name: "c" op: "Square" input: "^x" input: "x" }
        node { name: "d" op: "Square" input: "x:out:0" }
        node { name: "f" op: "Square" input: "x:7" }
        node {
          name: "g"
          op: "Square"
          input: "x"
          attr {
            key: "T"
            value { type: DT_INT32 }
          }
        }
        node {
          name: "h"
          op: "Square"
          input: "x"
          attr {
            key: "T"
            value { i: 1 }
          }
        }
        node {
          name: "i"
          op: "NoOp"
          attr {
            key: "other"
            value { i: 1 }
          }
        }
      )pb"))),
      ElementsAre(IsError(kInvalid, "Placeholder(n)", "attribute 'dtype'", "placeholder 'T'"),
                  IsError(kInvalid, "NoOp(p)", "attribute '_p'", "placeholder 'T'"),
                  IsError(kInvalid, "NoOp(e)", "attribute '_e'", "missing"),
                  IsError(kInvalid, "NoOp(x)", "exists"),
                  IsError(kInvalid, "Square(b)", "input 0 ('xx')", "exist"),
                  IsError(kInvalid, "Square(c)", "input 1 ('x')", "control input"),
                  IsError(kInvalid, "Square(d)", "input 0 ('x:out:0')", "malformed"),
                  IsError(kInvalid, "Square(f)", "input 0 ('x:7')", "got 7"),
                  IsError(kInvalid, "Square(g)", "input 0 (x)", "got float"),
                  IsError(kInvalid, "Square(h)", "attribute 'T'", "got int"),
                  IsError(kInvalid, "NoOp(i)", "attribute 'other'")));
}

TEST(GraphDefTest, ErrorsEscapeAndTruncateNames) {
  proto::GraphDef def;
  def.add_node()->set_name("evil\n\x1b[31m");
  def.mutable_node(0)->set_op(std::string(1000000, 'A'));
  const absl::Status error = ReadError(def);
  EXPECT_LT(error.message().size(), 1000u);
  EXPECT_THAT(error, IsError(kInvalid, "evil\\n\\x1b[31m"));
  EXPECT_THAT(std::string(error.message()), Not(HasSubstr("\n")));
}

TEST(GraphDefTest, FindsCycleOfHundredThousandNodes) {
  constexpr int kNodes = 100000;
  proto::GraphDef def;
  for (int i = 0; i < kNodes; ++i) {
    proto::NodeDef* node = def.add_node();
    node->set_name(absl::StrCat("n", i));
    node->set_op("NoOp");
    node->add_input(absl::StrCat("^n", (i + 1) % kNodes));
  }
  EXPECT_THAT(ReadError(def), IsError(kInvalid, "n0 -> n99999 -> n99998", "cycle"));
  EXPECT_LT(ReadError(def).message().size(), 200u);
}

TEST(GraphDefTest, RejectsGraphsForOtherConsumerVersions) {
  EXPECT_THAT(ReadError(Def("versions { producer: 3000 min_consumer: 2000 }")),
              IsError(kInvalid, "min_consumer", "got 2000"));
  EXPECT_THAT(ReadError(Def("versions { producer: 3000 bad_consumers: [1, 808] }")),
              IsError(kInvalid, "readers of version 808"));
  Read(Def("versions { producer: 3000 min_consumer: 12 }"));
}

TEST(GraphDefTest, RejectsExcessiveNesting) {
  proto::GraphDef def;
  def.add_node()->set_name("x");
  def.mutable_node(0)->set_op("NoOp");
  proto::AttrValue* value = &(*def.mutable_node(0)->mutable_attr())["_a"];
  for (int i = 0; i < 200; ++i) value = &(*value->mutable_func()->mutable_attr())["a"];
  value->set_i(1);
  EXPECT_THAT(ReadError(def), IsError(kInvalid, "nesting", "50"));
}

TEST(GraphDefTest, RepeatedValuesOfAllNodesShareOneBudget) {
  proto::GraphDef def;
  for (int i = 0; i < 3; ++i) {
    proto::NodeDef* node = def.add_node();
    node->set_name(absl::StrCat("c", i));
    node->set_op("Const");
    (*node->mutable_attr())["dtype"].set_type(proto::DT_FLOAT);
    proto::TensorProto* value = (*node->mutable_attr())["value"].mutable_tensor();
    value->set_dtype(proto::DT_FLOAT);
    value->mutable_tensor_shape()->add_dim()->set_size(1000);
  }
  EXPECT_TRUE(FromGraphDef(def, TestOps(), {.max_bytes = 12000}).ok());
  const absl::Status status = FromGraphDef(def, TestOps(), {.max_bytes = 11999}).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kResourceExhausted, "Const(c2)",
                              "attribute 'value'", "at most 3999", "got 4000"));
}

TEST(GraphDefTest, ToGraphDefReturnsConstructionError) {
  Graph graph;
  graph.Fail(absl::InvalidArgumentError("MatMul(y): no"));
  EXPECT_EQ(graph.ToGraphDef().status(), absl::InvalidArgumentError("MatMul(y): no"));
}

TEST(GraphDefTest, ToGraphDefRejectsNestedAndMixedLists) {
  EXPECT_THAT(Parsed("x = NoOp() {_l=[[1]]}").ToGraphDef().status(),
              IsError(kInvalid, "NoOp(x)", "attribute '_l'", "lists"));
  EXPECT_THAT(Parsed("x = NoOp() {_l=[1, \"a\"]}").ToGraphDef().status(),
              IsError(kInvalid, "mixed types"));
}

// --- arguments that TensorFlow's op lacks ------------------------------------------------

constexpr char kUpdate[] = R"(v = VarHandleOp() {dtype=float, shape=<>}
x = Placeholder() {dtype=float, shape=<>}
gates = IdentityN(ok, x) {T=[bool, float]}
ok = Placeholder() {dtype=bool, shape=<>}
first = NoOp()
)";

TEST(OwnArgumentTest, TensorIsWrittenAsControlInputAndAttribute) {
  const Graph graph = Parsed(absl::StrCat(
      kUpdate, "u = ResourceApplyGradientDescent(v, x, x, gates, ^first) {T=float, _gates=1}"));
  const proto::GraphDef def = Written(graph);
  const proto::NodeDef& update = NodeOf(def, "u");
  EXPECT_THAT(update.input(), ElementsAre("v", "x", "x", "^first", "^gates"));
  EXPECT_EQ(update.attr().at("_predicate").s(), "gates:0");
  EXPECT_EQ(update.attr().count("_gates"), 0u);

  const Graph copy = Read(def);
  EXPECT_EQ(copy.FindNode("u")->DebugString(), graph.FindNode("u")->DebugString());
  EXPECT_TRUE(VerifyGraph(copy).ok()) << VerifyGraph(copy);
  EXPECT_EQ(*SerializeDeterministically(Written(copy)), *SerializeDeterministically(def));
}

TEST(OwnArgumentTest, SeveralTensorsAreWrittenAsList) {
  const Graph graph = Parsed(absl::StrCat(
      kUpdate, "u = ResourceApplyGradientDescent(v, x, x, ok, gates, gates) {T=float, _gates=3}"));
  const proto::NodeDef update = NodeOf(Written(graph), "u");
  EXPECT_THAT(update.input(), ElementsAre("v", "x", "x", "^ok", "^gates"));
  EXPECT_THAT(update.attr().at("_predicate").list().s(), ElementsAre("ok:0", "gates:0", "gates:0"));
  EXPECT_EQ(Read(Written(graph)).FindNode("u")->DebugString(), graph.FindNode("u")->DebugString());
}

TEST(OwnArgumentTest, LeavesNoTraceWhenAbsent) {
  const Graph graph =
      Parsed(absl::StrCat(kUpdate, "u = ResourceApplyGradientDescent(v, x, x) {T=float}"));
  const proto::NodeDef update = NodeOf(Written(graph), "u");
  EXPECT_THAT(update.input(), ElementsAre("v", "x", "x"));
  EXPECT_EQ(update.attr_size(), 2);  // T, use_locking
  EXPECT_EQ(Read(Written(graph)).FindNode("u")->attr<int64_t>("_gates"), 0);
}

TEST(OwnArgumentTest, NameIsCheckedLikeAnyInput) {
  proto::GraphDef def = Written(Parsed(
      absl::StrCat(kUpdate, "u = ResourceApplyGradientDescent(v, x, x, ok) {T=float, _gates=1}")));
  proto::AttrValue* predicate = nullptr;
  for (proto::NodeDef& node : *def.mutable_node()) {
    if (node.name() == "u") predicate = &(*node.mutable_attr())["_predicate"];
  }
  predicate->set_s("gone:0");
  EXPECT_THAT(ReadError(def),
              IsError(kInvalid, "ResourceApplyGradientDescent(u)", "input 3 ('gone:0')", "exist"));
  predicate->set_s("x:0");
  EXPECT_THAT(ReadError(def), IsError(kInvalid, "input 3 (x)", "got float"));
  predicate->set_s("^ok");
  EXPECT_THAT(ReadError(def), IsError(kInvalid, "attribute '_predicate'", "output"));
  predicate->set_i(1);
  EXPECT_THAT(ReadError(def), IsError(kInvalid, "attribute '_predicate'", "output"));
}

// --- functions -----------------------------------------------------------------------------------

constexpr char kLibrary[] = R"pb(
  library {
    function {
      signature {
        name: "outer"
        input_arg { name: "x" type: DT_FLOAT }
        output_arg { name: "y" type: DT_FLOAT }
      }
      attr {
        key: "b"
        value { i: 1 }
      }
      attr {
        key: "a"
        value { i: 2 }
      }
      node_def {
        name: "call"
        op: "PartitionedCall"
        input: "x"
        attr {
          key: "f"
          value { func { name: "inner" } }
        }
      }
      ret { key: "y" value: "call:output:0" }
      arg_attr {
        key: 0
        value {
          attr {
            key: "_k"
            value { b: true }
          }
        }
      }
    }
    function { signature { name: "inner" } }
    gradient { function_name: "outer" gradient_func: "inner" }
    registered_gradients { gradient_func: "inner" registered_op_type: "Custom" }
  }
)pb";

TEST(FunctionTest, LibraryRoundTrips) {
  const proto::GraphDef def = Def(kLibrary);
  const Graph graph = Read(def);
  EXPECT_NE(graph.functions().Find("outer"), nullptr);
  const proto::GraphDef written = Written(graph.Clone());
  proto::FunctionDefLibrary expected = def.library();
  expected.mutable_function()->SwapElements(0, 1);  // functions are written sorted by name
  EXPECT_EQ(*SerializeDeterministically(written.library()), *SerializeDeterministically(expected));
}

TEST(FunctionTest, LibraryRoundTripsThroughText) {
  const Graph graph = Read(Def(kLibrary));
  const Graph copy = Parsed(GraphToText(graph));
  EXPECT_EQ(*SerializeDeterministically(Written(copy)),
            *SerializeDeterministically(Written(graph)));
}

TEST(FunctionTest, RejectsRecursiveFunctions) {
  EXPECT_THAT(ReadError(Def(R"pb(
                library {
                  function {
                    signature { name: "f" }
                    node_def { name: "n" op: "g" }
                  }
                  function {
                    signature { name: "g" }
                    node_def {
                      name: "n"
                      op: "If"
                      attr {
                        key: "branches"
                        value {
                          list {
                            func {
                              name: "h"
                              attr {
                                key: "a"
                                value { func { name: "f" } }
                              }
                            }
                          }
                        }
                      }
                    }
                  }
                }
              )pb")),
              IsError(kInvalid, "f -> g -> f", "cycle"));
  EXPECT_THAT(ReadError(Def(R"pb(
                library {
                  function {
                    signature { name: "f" }
                    node_def { op: "f" }
                  }
                }
              )pb")),
              IsError(kInvalid, "f -> f"));
}

TEST(FunctionTest, RejectsUnnamedAndDuplicateFunctions) {
  EXPECT_THAT(ReadError(Def("library { function { } }")), IsError(kInvalid, "no name"));
  EXPECT_THAT(ReadError(Def(R"pb(
                library {
                  function { signature { name: "f" } }
                  function { signature { name: "f" description: "other" } }
                }
              )pb")),
              IsError(kInvalid, "function 'f'", "twice"));
}

TEST(FunctionTest, MalformedLibraryIsRejected) {
  EXPECT_THAT(Parsed("@f = \"\\xff\"").ToGraphDef().status(),
              IsError(kInvalid, "function 'f'", "FunctionDef"));
  EXPECT_THAT(Parsed("@ = \"\\xff\"").ToGraphDef().status(),
              IsError(absl::StatusCode::kInvalidArgument, "not a FunctionDefLibrary"));
}

// -------------------------------------------------------------------------------------------------

// A random edit of the bytes yields either an error or a valid graph that round-trips.
TEST(GraphDefTest, RandomEditsGiveErrorOrValidGraph) {
  Graph graph = Parsed(
      absl::StrCat(kUpdate,
                   "u = ResourceApplyGradientDescent(v, x, x, ok) {T=float, _gates=1}\n"
                   "all = AllAttributes() {tensors=[float<3>{1, 2, 3}, int8<>{5}], shapes=[<2,?>], "
                   "funcs=[@f{a=1}], types=[half], ints=[1, 2]}\n"));
  graph.functions() = Read(Def(kLibrary)).functions();
  const std::string bytes = *SerializeDeterministically(Written(graph));
  const google::protobuf::LogSilencer
      silencer;  // silences protobuf's warnings about strings that are not UTF-8
  std::mt19937 random(1);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  int valid = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string mutated = bytes;
    for (size_t edits = 1 + below(3); edits > 0; --edits) {
      const size_t at = below(mutated.size());
      switch (below(3)) {
        case 0:
          mutated[at] = static_cast<char>(below(256));
          break;
        case 1:
          mutated[at] = static_cast<char>(mutated[at] ^ (1 << below(8)));
          break;
        default:
          mutated.erase(at, 1 + below(8));
          break;
      }
    }
    proto::GraphDef def;
    if (!def.ParseFromString(mutated)) continue;
    const absl::StatusOr<Graph> read = FromGraphDef(def, TestOps());
    if (!read.ok()) {
      ASSERT_TRUE(absl::IsInvalidArgument(read.status())) << read.status();
      continue;
    }
    ++valid;
    ASSERT_TRUE(VerifyGraph(*read).ok()) << VerifyGraph(*read);
    const absl::StatusOr<proto::GraphDef> written = read->ToGraphDef();
    // Lists of mixed types can be read but not written.
    if (!written.ok()) continue;
    ASSERT_EQ(GraphToText(Read(*written)), GraphToText(*read));
  }
  EXPECT_GT(valid, 100);  // otherwise, the test would cover nothing
}

}  // namespace
}  // namespace mirrorflow
