// SPDX-License-Identifier: Apache-2.0
#include "train/safetensors/safetensors_header.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

std::string FormatOne(absl::string_view name, const Tensor& tensor) {
  std::vector<const Tensor*> order;
  return FormatSafetensorsHeader({{std::string(name), tensor}}, {}, &order).value_or("error");
}

TEST(FormatSafetensorsHeaderTest, MatchesReferenceGoldenHeaders) {
  std::vector<const Tensor*> order;
  EXPECT_EQ(*FormatSafetensorsHeader({}, {}, &order), "{}      ");
  const std::string attn0 = FormatOne("attn.0", *Tensor::Allocate(DT_FLOAT, {1, 2, 3}));
  EXPECT_EQ(attn0, R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})");
  EXPECT_EQ(attn0.size(), 64u);
  EXPECT_EQ(FormatOne("attn0", *Tensor::Allocate(DT_FLOAT, {1, 1, 2, 3})),
            R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )");
}

TEST(FormatSafetensorsHeaderTest, RejectsInexpressibleTensorsAndNames) {
  std::vector<const Tensor*> order;
  const Tensor one = Tensor::Scalar<float>(1);
  const auto complex =
      FormatSafetensorsHeader({{"x", *Tensor::Allocate(DT_COMPLEX128, {1})}}, {}, &order);
  EXPECT_THAT(complex.status(),
              IsError(absl::StatusCode::kInvalidArgument, "tensor \"x\"", "got complex128"));
  EXPECT_THAT(FormatSafetensorsHeader({{"x", Tensor()}}, {}, &order).status(),
              IsError(absl::StatusCode::kInvalidArgument, "tensor \"x\"", "got invalid"));
  EXPECT_THAT(FormatSafetensorsHeader({{"__metadata__", one}}, {}, &order).status(),
              IsError(absl::StatusCode::kInvalidArgument, "tensor \"__metadata__\"", "name"));
  EXPECT_THAT(FormatSafetensorsHeader({{"\xFF", one}}, {}, &order).status(),
              IsError(absl::StatusCode::kInvalidArgument, "tensor \"", "UTF-8"));
  EXPECT_THAT(FormatSafetensorsHeader({}, {{"k", "\xFF"}}, &order).status(),
              IsError(absl::StatusCode::kInvalidArgument, "metadata \"k\"", "UTF-8"));
}

TEST(ParseSafetensorsHeaderTest, ReadsTensorsInOrderOfTheirOffsets) {
  const auto header = ParseSafetensorsHeader(
      R"({"b":{"shape":[2],"data_offsets":[4,6],"dtype":"U8"},"__metadata__":{"k":"v"},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("none":{"dtype":"I64","shape":[3,0],"data_offsets":[4,4]}}   )",
      6);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata, (std::map<std::string, std::string>{{"k", "v"}}));
  ASSERT_EQ(header->entries.size(), 3u);
  EXPECT_EQ(header->entries[0].name, "a");
  EXPECT_EQ(header->entries[0].dtype, DT_FLOAT);
  EXPECT_EQ(header->entries[0].shape, Shape());
  EXPECT_EQ(header->entries[1].name, "none");
  EXPECT_EQ(header->entries[1].shape, Shape({3, 0}));
  EXPECT_EQ(header->entries[2].name, "b");
  EXPECT_EQ(header->entries[2].begin, 4u);
  EXPECT_EQ(header->entries[2].end, 6u);
}

TEST(ParseSafetensorsHeaderTest, SkipsUnknownFields) {
  const auto header = ParseSafetensorsHeader(
      R"({"a":{"dtype":"U8","new":{"deep":[1,-2,3.5,null,{"x":"y"}],"z":true},"shape":[1],)"
      R"("n":-1,"data_offsets":[0,1]}})",
      1);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->entries.size(), 1u);
}

// Returns a header with one tensor that has these fields.
std::string One(absl::string_view fields) { return absl::StrCat(R"({"a":{)", fields, "}}"); }

TEST(ParseSafetensorsHeaderTest, ErrorNamesBrokenRule) {
  std::string deep = R"({"a":{"x":)";
  for (int i = 0; i < 200'000; ++i) deep += '[';
  const struct {
    std::string header;
    uint64_t data_bytes;
    std::vector<const char*> tokens;  // the first token names the broken rule
  } cases[] = {
      {"", 0, {"InvalidHeaderStart", "got nothing"}},
      {"[]", 0, {"InvalidHeaderStart", "got \"["}},
      {" {}", 0, {"InvalidHeaderStart"}},
      {"\xEF\xBB\xBF{}", 0, {"InvalidHeaderStart"}},
      {"{\"\xFF\":1}", 0, {"InvalidHeader:", "the header is not UTF-8"}},
      {"{}\n", 0, {"InvalidHeader:", "only spaces"}},
      {std::string("{}\0", 3), 0, {"InvalidHeader:", "only spaces"}},
      {std::string("{}\0{}", 5), 0, {"InvalidHeader:", "only spaces"}},
      {"{} }", 0, {"InvalidHeaderDeserialization", "not JSON at byte 4"}},
      {"{", 0, {"InvalidHeader"}},
      {"{'a':1}", 0, {"InvalidHeaderDeserialization", "not JSON"}},
      {R"({"__metadata__":{"k":"v"},})", 0, {"InvalidHeaderDeserialization", "not JSON"}},
      {"{}//}", 0, {"InvalidHeaderDeserialization", "not JSON"}},
      {deep + "}", 0, {"InvalidHeaderDeserialization", "nested too deeply; expected"}},
      {R"({"a":1})", 0, {"InvalidHeaderDeserialization", "\"a\" to be", "got a number"}},
      {R"({"a":[]})", 0, {"InvalidHeaderDeserialization", "\"a\" to be", "got an arr"}},
      {R"({"__metadata__":"v"})",
       0,
       {"InvalidHeaderDeserialization", "__metadata__", "got a string"}},
      {R"({"__metadata__":{"k":1}})",
       0,
       {"InvalidHeaderDeserialization", "entry \"k\"", "got a number"}},
      {R"({"__metadata__":{"k":{}}})", 0, {"InvalidHeaderDeserialization", "entry \"k"}},
      {R"({"__metadata__":{"k":null}})", 0, {"InvalidHeaderDeserialization", "entry \"k"}},
      {R"({"__metadata__":{"k":"1","k":"1"}})", 0, {"DuplicateKey", "key \"k\"", "twice"}},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1,
       {"DuplicateKey", "key \"a\"", "twice"}},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("\u0061":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1,
       {"DuplicateKey"}},
      {One(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])"), 1, {"DuplicateKey"}},
      {One(R"("x":{"y":1,"y":1},"dtype":"U8","shape":[1],"data_offsets":[0,1])"),
       1,
       {"DuplicateKey"}},
      {One(""), 0, {"InvalidHeaderDeserialization", "tensor \"a\"", "got no dtype, no"}},
      {One(R"("dtype":"U8","data_offsets":[0,1])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "dtype, shape and 2"}},
      {One(R"("dtype":"U8","shape":[1],"data_offsets":[0])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "dtype, shape and 2"}},
      {One(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,1])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "dtype, shape and 2"}},
      {One(R"("dtype":"Q8","shape":[1],"data_offsets":[0,1])"),
       1,
       {"InvalidHeaderDeserialization", "unknown dtype of tensor \"a"}},
      {One(R"("dtype":8,"shape":[1],"data_offsets":[0,1])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "dtype to be", "got a number"}},
      {One(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "shape to be", "got a number"}},
      {One(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "shape to hold", "got a negative number"}},
      {One(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "shape to hold", "got the number 1.0"}},
      {One(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "shape to hold"}},
      {One(R"("dtype":"U8","shape":[1e999],"data_offsets":[0,1])"),
       1,
       {"InvalidHeaderDeserialization"}},
      {One(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "shape to hold"}},
      {One(R"("dtype":"U8","shape":[true],"data_offsets":[0,1])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "shape to hold"}},
      {One(R"("dtype":"U8","shape":[1],"data_offsets":["0",1])"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "data_offsets to hold"}},
      {One(R"("dtype":"U8","shape":[1],"data_offsets":{"0":1})"),
       1,
       {"InvalidHeaderDeserialization", "tensor \"a\"", "data_offsets to be", "got an o"}},
      {One(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"),
       2,
       {"InvalidOffset", "tensor \"a\"", "a hole", "got 1"}},
      {One(R"("dtype":"U8","shape":[0],"data_offsets":[0,-0])"),
       0,
       {"InvalidHeaderDeserialization"}},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3,
       {"InvalidOffset", "tensor \"b\"", "overlaps \"a\"", "got 1"}},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5,
       {"InvalidOffset", "tensor \"b\"", "a hole", "got 3"}},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,1]}})",
       2,
       {"InvalidOffset", "tensor \"b\"", "ends before", "got 1"}},
      {One(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"),
       4,
       {"TensorInvalidInfo", "tensor \"a\"", "got 4"}},
      {One(R"("dtype":"U8","shape":[1152921504606846976],"data_offsets":[0,1])"),
       1,
       {"TensorInvalidInfo"}},
      {One(R"("dtype":"U8","shape":[1099511627776,1099511627776],"data_offsets":[0,0])"),
       0,
       {"ValidationOverflow", "tensor \"a\"", "64 bits"}},
      {One(R"("dtype":"F64","shape":[288230376151711744],"data_offsets":[0,0])"),
       0,
       {"ValidationOverflow"}},
      {One(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])"),
       1,
       {"MisalignedSlice", "tensor \"a\"", "got 12"}},
      {One(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"),
       2,
       {"MetadataIncompleteBuffer", "got 2"}},
      {One(R"("dtype":"U8","shape":[2],"data_offsets":[0,2])"), 1, {"MetadataIncompleteBuffer"}},
      {"{}", 1, {"MetadataIncompleteBuffer"}},
  };
  for (const auto& [header, data_bytes, tokens] : cases) {
    const absl::Status status = ParseSafetensorsHeader(header, data_bytes).status();
    for (const char* const token : tokens) {
      EXPECT_THAT(status, IsError(absl::StatusCode::kDataLoss, tokens[0], token))
          << header.substr(0, 200);
    }
  }
}

TEST(ParseSafetensorsHeaderTest, LegalTensorThatTensorCannotHoldIsUnreadable) {
  const struct {
    std::string fields;
    uint64_t bytes;
    std::string error;
  } cases[] = {
      {R"("dtype":"F4","shape":[4],"data_offsets":[4,6])", 2, "F4"},
      {R"("dtype":"F8_E4M3","shape":[1],"data_offsets":[4,5])", 1, "F8_E4M3"},
      {R"("dtype":"F8_E5M2","shape":[2],"data_offsets":[4,6])", 2, "F8_E5M2"},
      {R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[4,5])", 1, "got 9"},
      {R"("dtype":"U8","shape":[0,18446744073709551615],"data_offsets":[4,4])", 0, "dimension"},
  };
  for (const auto& c : cases) {
    const auto header = ParseSafetensorsHeader(
        absl::StrCat(R"({"good":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"bad":{)", c.fields,
                     "}}"),
        4 + c.bytes);
    ASSERT_TRUE(header.ok()) << header.status();
    ASSERT_EQ(header->entries.size(), 1u);
    EXPECT_EQ(header->entries[0].name, "good");
    ASSERT_EQ(header->unreadable.size(), 1u);
    EXPECT_THAT(header->unreadable.at("bad"),
                IsError(absl::StatusCode::kUnimplemented, "tensor \"bad\"", c.error));
  }
}

TEST(ParseSafetensorsHeaderTest, SurvivesTruncationAndChangedBytes) {
  const std::string header =
      R"({"__metadata__":{"k":"é"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})";
  ASSERT_TRUE(ParseSafetensorsHeader(header, 32).ok());
  for (size_t n = 0; n < header.size(); ++n) {
    EXPECT_THAT(ParseSafetensorsHeader(header.substr(0, n), 32).status(),
                IsError(absl::StatusCode::kDataLoss, "header"))
        << n;
  }
  for (size_t i = 0; i < header.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = header;
      changed[i] = static_cast<char>(byte);
      const auto parsed = ParseSafetensorsHeader(changed, 32);
      if (parsed.ok()) {
        EXPECT_EQ(parsed->entries.size(), 2u) << changed;
      }
    }
  }
}

}  // namespace
}  // namespace mirrorflow
