// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/op_registry.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

absl::Status AnyShape(ShapeContext&) { return absl::OkStatus(); }

OpBuilder Complete(OpRegistry& ops, absl::string_view name) {
  return ops.Define(name).Doc("doc").Shape(AnyShape).Gathers("a test").NoGradient("a test");
}

// The attribute that a schema string defines. If Seal() rejects the string, `def` is null and
// `error` says why.
struct ParsedAttr {
  OpRegistry ops;
  const AttrDef* def = nullptr;
  absl::Status error;

  explicit ParsedAttr(absl::string_view spec) {
    Complete(ops, "Op").Attr(spec);
    error = ops.Seal();
    if (error.ok()) def = &ops.Find("Op")->attrs[0];
  }
};

TEST(AttrSpecTest, ReadsTypeMinimumAndDefault) {
  const ParsedAttr strides("strides: list(int) >= 4 = [1, 2, 2, 1]");
  ASSERT_NE(strides.def, nullptr) << strides.error;
  EXPECT_EQ(strides.def->name, "strides");
  EXPECT_EQ(strides.def->type, "list(int)");
  EXPECT_EQ(strides.def->minimum, 4);
  EXPECT_EQ(strides.def->default_value, AttrValue(AttrList{1, 2, 2, 1}));
}

TEST(AttrSpecTest, ReadsDefaultsOfEachType) {
  const std::pair<const char*, AttrValue> rows[] = {
      {"a: int = -3", -3},
      {"a: float = 1e-4", 1e-4f},
      {"a: bool = true", true},
      {"a: string = 'NHWC'", "NHWC"},
      {"a: string = ''", ""},
      {"a: type = int64", DT_INT64},
      {"a: shape = unknown", Shape::UnknownRank()},
      {"a: shape = []", Shape()},
      {"a: list(type) = []", AttrList{}},
      {"a: list(string) = ['x', 'y']", AttrList{"x", "y"}},
  };
  for (const auto& [spec, value] : rows) {
    const ParsedAttr attr(spec);
    ASSERT_NE(attr.def, nullptr) << attr.error;
    EXPECT_EQ(attr.def->default_value, value) << spec;
  }
}

TEST(AttrSpecTest, ReadsSetsOfTypesAndStrings) {
  const ParsedAttr types("T: {float, int32} = float");
  ASSERT_NE(types.def, nullptr) << types.error;
  EXPECT_EQ(types.def->type, "type");
  EXPECT_EQ(types.def->allowed, (AttrList{DT_FLOAT, DT_INT32}));
  const ParsedAttr strings("p: list({'SAME', 'VALID'})");
  ASSERT_NE(strings.def, nullptr) << strings.error;
  EXPECT_EQ(strings.def->type, "list(string)");
  EXPECT_FALSE(strings.def->default_value.has_value());
}

TEST(AttrSpecTest, MalformedSpecsAreRejected) {
  const std::pair<const char*, const char*> rows[] = {
      {"strides", "expected 'name: type'"},
      {"a: number", "unknown type 'number'"},
      {"a: list(int", "')' is missing"},
      {"a: {float", "'}' is missing"},
      {"a: {flaot}", "'flaot'"},
      {"a: int >= x", "expected an integer after '>='"},
      {"a: int = x", "'x' is not a value of type int"},
      {"a: list(int) = 1", "must be in [ ]"},
      {"a: int nonsense", "unexpected 'nonsense'"},
      {"a: string = bare", "'bare' is not a value of type string"},
  };
  for (const auto& [spec, error] : rows) {
    EXPECT_THAT(ParsedAttr(spec).error, IsError(kInvalid, spec, error));
  }
}

TEST(ArgSpecTest, ReadsFixedTypesTypeAttributesCountsAndTypeLists) {
  OpRegistry ops;
  Complete(ops, "Op")
      .Input("fixed: float")
      .StaticInput("axis: int32")
      .Input("one: T")
      .Input("many: N * T")
      .Input("mixed: Tin")
      .Attr("T: type")
      .Attr("N: int")
      .Attr("Tin: list(type)");
  ASSERT_TRUE(ops.Seal().ok()) << ops.Seal();
  const std::vector<ArgDef>& inputs = ops.Find("Op")->inputs;
  EXPECT_EQ(inputs[0].dtype, DT_FLOAT);
  EXPECT_FALSE(inputs[0].is_static);
  EXPECT_TRUE(inputs[1].is_static);
  EXPECT_EQ(inputs[2].type_attr, "T");
  EXPECT_EQ(inputs[3].number_attr, "N");
  EXPECT_EQ(inputs[3].type_attr, "T");
  EXPECT_EQ(inputs[4].type_list_attr, "Tin");
  EXPECT_EQ(inputs[4].type_attr, "");
}

TEST(SealTest, ReportsAllMissingParts) {
  OpRegistry ops;
  ops.Define("Bare");
  Complete(ops, "Fine");
  Complete(ops, "Undeclared").Input("x: T").Input("no type");
  Complete(ops, "Twice");
  Complete(ops, "Twice");
  const absl::Status error = ops.Seal();
  const std::pair<const char*, const char*> rows[] = {
      {"op Bare", "no doc"},
      {"op Bare", "no shape function"},
      {"op Bare", "sharding rule"},
      {"op Bare", "reason for its absence, or neither"},
      {"op Undeclared", "attribute 'T', which argument 'x'"},
      {"schema 'no type'", "'name: type'"},
      {"op Twice", "defined twice"},
  };
  for (const auto& [place, token] : rows) {
    EXPECT_THAT(SplitErrors(error),
                Contains(IsError(absl::StatusCode::kInvalidArgument, place, token)));
  }
  EXPECT_THAT(std::string(error.message()), Not(HasSubstr("Fine")));
}

TEST(SealTest, RejectsBothGradientAndReasonForHavingNone) {
  OpRegistry ops;
  Complete(ops, "Op").Gradient([](const GradContext&) -> absl::StatusOr<std::vector<Output>> {
    return std::vector<Output>();
  });
  EXPECT_THAT(ops.Seal(), IsError(kInvalid, "op Op", "or neither"));
}

TEST(OpRegistryTest, LookupSuggestsNearestName) {
  const absl::StatusOr<const OpDef*> op = TestOps().Lookup("Sqare");
  EXPECT_THAT(op.status(), IsError(absl::StatusCode::kNotFound, "'Sqare'", "Square?"));
  const absl::Status distant = TestOps().Lookup("Zzzzzzzzz").status();
  EXPECT_THAT(distant, IsError(absl::StatusCode::kNotFound, "'Zzzzzzzzz'"));
  EXPECT_THAT(std::string(distant.message()), Not(HasSubstr("?")));
}

TEST(OpRegistryTest, FindRoleReturnsFirstOpWithRole) {
  EXPECT_EQ(TestOps().FindRole(OpRole::kConstant)->name, "Const");
  EXPECT_EQ(TestOps().FindRole(OpRole::kCollective), nullptr);
}

TEST(OpRegistryTest, AllReturnsOpsSortedByName) {
  OpRegistry ops;
  EXPECT_TRUE(ops.All().empty());
  Complete(ops, "B");
  Complete(ops, "A");
  ASSERT_EQ(ops.All().size(), 2u);
  EXPECT_EQ(ops.All()[0]->name, "A");
  EXPECT_EQ(ops.Find("C"), nullptr);
}

AttrMap Completed(absl::string_view op, AttrMap attrs) {
  const absl::Status status = CompleteAttrs(*TestOps().Find(op), &attrs);
  EXPECT_TRUE(status.ok()) << status;
  return attrs;
}

absl::Status CompletionError(absl::string_view op, AttrMap attrs) {
  return CompleteAttrs(*TestOps().Find(op), &attrs);
}

TEST(CompleteAttrsTest, FillsInDefaultsAndKeepsGivenValues) {
  const AttrMap attrs =
      Completed("MatMul", {{"T", DT_FLOAT}, {"transpose_b", true}, {"_hint", "kept"}});
  EXPECT_EQ(
      attrs,
      (AttrMap{{"T", DT_FLOAT}, {"transpose_a", false}, {"transpose_b", true}, {"_hint", "kept"}}));
}

TEST(CompleteAttrsTest, AcceptsEmptyListForListOfAnyType) {
  Completed("AllAttributes", {{"shapes", AttrList{}}, {"ints", AttrList{}}});
}

TEST(CompleteAttrsTest, ErrorsNameAttribute) {
  EXPECT_THAT(CompletionError("MatMul", {}), IsError(kInvalid, "attribute 'T'", "missing"));
  EXPECT_THAT(CompletionError("MatMul", {{"T", 1}}),
              IsError(kInvalid, "attribute 'T'", "type type", "got int"));
  EXPECT_THAT(CompletionError("MatMul", {{"T", DT_INT32}}),
              IsError(kInvalid, "attribute 'T'", "[float, double]", "got int32"));
  EXPECT_THAT(CompletionError("MatMul", {{"T", DT_FLOAT}, {"transpose", true}}),
              IsError(kInvalid, "op MatMul", "attribute 'transpose'"));
  EXPECT_THAT(CompletionError("AddN", {{"T", DT_FLOAT}, {"N", 0}}),
              IsError(kInvalid, "attribute 'N'", "at least 1", "got 0"));
  EXPECT_THAT(CompletionError("IdentityN", {{"T", AttrList{}}}),
              IsError(kInvalid, "attribute 'T'", "at least 1", "got 0"));
  EXPECT_THAT(CompletionError("AllAttributes", {{"choice", "same"}}),
              IsError(kInvalid, "attribute 'choice'", "[\"SAME\", \"VALID\"]", "got \"same\""));
  EXPECT_THAT(CompletionError("AllAttributes", {{"ints", AttrList{1, true}}}),
              IsError(kInvalid, "attribute 'ints'", "list(int)", "got mixed types"));
}

TEST(ArgDataTypesTest, ExpandsCountsAndTypeLists) {
  EXPECT_THAT(*ArgDataTypes(TestOps().Find("AddN")->inputs, {{"N", 3}, {"T", DT_FLOAT}}),
              ElementsAre(DT_FLOAT, DT_FLOAT, DT_FLOAT));
  EXPECT_THAT(
      *ArgDataTypes(TestOps().Find("IdentityN")->inputs, {{"T", AttrList{DT_INT32, DT_BOOL}}}),
      ElementsAre(DT_INT32, DT_BOOL));
}

TEST(ArgDataTypesTest, RejectsNegativeAndExcessiveCounts) {
  const std::vector<ArgDef>& inputs = TestOps().Find("AddN")->inputs;
  for (int64_t count : {int64_t{-1}, int64_t{1} << 40}) {
    EXPECT_THAT(ArgDataTypes(inputs, {{"N", count}, {"T", DT_FLOAT}}).status(),
                IsError(kInvalid, "attribute 'N'", "count"));
  }
}

TEST(FindArgTest, SkipsTensorsOfEarlierArguments) {
  const std::vector<ArgDef>& inputs = TestOps().Find("ResourceApplyGradientDescent")->inputs;
  const auto gates = FindArg(inputs, {{"_gates", 2}, {"T", DT_FLOAT}}, "predicate");
  ASSERT_TRUE(gates.ok());
  EXPECT_EQ(gates->first, 3);
  EXPECT_EQ(gates->last, 5);
  EXPECT_THAT(FindArg(inputs, {{"_gates", 0}}, "gate").status(),
              IsError(absl::StatusCode::kNotFound, "'gate'"));
}

}  // namespace
}  // namespace mirrorflow
