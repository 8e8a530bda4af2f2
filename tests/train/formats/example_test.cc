// SPDX-License-Identifier: Apache-2.0
#include "train/formats/example.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/formats/tf_record.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

// Returns the examples that make_format_files.py stored.
std::vector<std::string> StoredExamples() {
  const auto reader = *TfRecordReader::Open("tests/references/formats/examples.tfrecord");
  std::vector<std::string> examples(1);
  while (*reader->Next(&examples.back())) examples.emplace_back();
  examples.pop_back();
  return examples;
}

// Returns a length-delimited protobuf field.
std::string Field(int number, absl::string_view bytes) {
  EXPECT_LT(bytes.size(), 128u);
  return absl::StrCat(Bytes({number << 3 | 2, static_cast<int>(bytes.size())}), bytes);
}

std::string Example(absl::string_view name, absl::string_view feature) {
  return Field(1, Field(1, Field(1, name) + Field(2, feature)));
}

ExampleParser Parser(std::vector<ExampleFeature> features) {
  return *ExampleParser::Create(std::move(features));
}

absl::Status ErrorOf(const ExampleParser& parser, absl::string_view example) {
  return parser.Parse(example).status();
}

TEST(ExampleTest, ParsesExamplesWrittenByTensorFlow) {
  const ExampleParser parser =
      Parser({FixedLenFeature{.name = "image", .dtype = DT_FLOAT, .shape = {2, 3}},
              FixedLenFeature{
                  .name = "label", .dtype = DT_INT64, .default_value = Tensor::Scalar<int64_t>(77)},
              FixedLenFeature{.name = "raw", .dtype = DT_UINT8, .shape = {2, 2}},
              VarLenFeature{.name = "tags", .dtype = DT_INT64},
              VarLenFeature{.name = "scores", .dtype = DT_FLOAT}});
  const std::vector<std::string> examples = StoredExamples();
  ASSERT_EQ(examples.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    const auto tensors = parser.Parse(examples[i]);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    ASSERT_EQ(tensors->size(), 5u);
    std::vector<float> image, scores;
    for (int k = 0; k < 6; ++k) image.push_back(i + 0.25f * k);
    for (int k = 0; k < i % 3; ++k) scores.push_back(0.5f * k);
    std::vector<int64_t> tags;
    for (int k = 0; k < i && i != 3; ++k) tags.push_back(k);
    const int64_t label = i == 3 ? 77 : i % 2 != 0 ? -i : int64_t{i} << 40;
    const auto byte = static_cast<uint8_t>(i);
    EXPECT_TRUE(Tensor::Identical((*tensors)[0], Tensor::Of<float>({2, 3}, image)));
    EXPECT_TRUE(Tensor::Identical((*tensors)[1], Tensor::Scalar<int64_t>(label)));
    EXPECT_TRUE(Tensor::Identical((*tensors)[2], Tensor::Of<uint8_t>({2, 2}, {byte, 255, 0, 7})));
    EXPECT_TRUE(Tensor::Identical((*tensors)[3], Tensor::Vector<int64_t>(tags)));
    EXPECT_TRUE(Tensor::Identical((*tensors)[4], Tensor::Vector<float>(scores)));
  }
}

TEST(ExampleTest, ParseBatchStacksExamples) {
  const ExampleParser parser = Parser(
      {FixedLenFeature{.name = "raw", .dtype = DT_UINT8, .shape = {4}},
       FixedLenFeature{
           .name = "label", .dtype = DT_INT64, .default_value = Tensor::Scalar<int64_t>(77)}});
  const std::vector<std::string> examples = StoredExamples();
  const std::vector<absl::string_view> views(examples.begin(), examples.end());
  const auto batch = parser.ParseBatch(views);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)[0].shape(), Shape({5, 4}));
  EXPECT_EQ((*batch)[0].flat<uint8_t>()[4 * 4], 4);
  EXPECT_THAT((*batch)[1].flat<int64_t>(),
              ElementsAre(0, -1, int64_t{2} << 40, 77, int64_t{4} << 40));
  const ExampleParser strict = Parser({FixedLenFeature{.name = "label", .dtype = DT_INT64}});
  EXPECT_THAT(
      strict.ParseBatch(views).status(),
      IsError(absl::StatusCode::kDataLoss, "example 3:", "feature 'label'", "got no values"));
  EXPECT_THAT(Parser({VarLenFeature{.name = "tags", .dtype = DT_INT64}}).ParseBatch(views).status(),
              IsError(absl::StatusCode::kInvalidArgument, "feature 'tags'", "batch"));
}

TEST(ExampleTest, ByteStringWithoutFixedLengthIsAVector) {
  const ExampleParser parser =
      Parser({FixedLenFeature{.name = "b", .dtype = DT_UINT8, .shape = {-1}}});
  const auto tensors = parser.Parse(Example("b", Field(1, Field(1, "abc"))));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_TRUE(Tensor::Identical((*tensors)[0], Tensor::Vector<uint8_t>({'a', 'b', 'c'})));
  EXPECT_EQ((*parser.Parse(Example("b", Field(1, Field(1, "")))))[0].shape(), Shape({0}));
}

TEST(ExampleTest, AcceptsEveryProtobufEncoding) {
  const ExampleParser ints = Parser({VarLenFeature{.name = "i", .dtype = DT_INT64}});
  const ExampleParser floats = Parser({VarLenFeature{.name = "f", .dtype = DT_FLOAT}});
  auto int_values = [&](absl::string_view example) {
    const auto tensors = ints.Parse(example);
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    const absl::Span<const int64_t> values = (*tensors)[0].flat<int64_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  };
  const std::string packed = Field(1, Bytes({1, 0x96, 1}));  // 1, 150
  const std::string unpacked = Bytes({1 << 3, 3});           // 3
  EXPECT_THAT(int_values(Example("i", Field(3, packed))), ElementsAre(1, 150));
  EXPECT_THAT(int_values(Example("i", Field(3, unpacked + packed))), ElementsAre(3, 1, 150));
  // Parts of one list are concatenated. If there are several lists or entries, the last one wins.
  EXPECT_THAT(int_values(Example("i", Field(3, packed) + Field(3, unpacked))),
              ElementsAre(1, 150, 3));
  EXPECT_THAT(int_values(Example("i", Field(2, "") + Field(3, unpacked))), ElementsAre(3));
  EXPECT_THAT(int_values(Example("i", Field(3, packed)) + Example("i", Field(3, unpacked))),
              ElementsAre(3));
  EXPECT_THAT(
      int_values(Example(
          "i", Field(3, Field(1, Bytes({255, 255, 255, 255, 255, 255, 255, 255, 255, 1}))))),
      ElementsAre(-1));
  // Unknown fields of every wire type are skipped.
  EXPECT_THAT(
      int_values(Bytes({7 << 3, 5}) + Field(9, "x") + Bytes({8 << 3 | 5, 1, 2, 3, 4}) +
                 Bytes({8 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8}) + Example("i", Field(3, packed))),
      ElementsAre(1, 150));
  const auto tensors = floats.Parse(Example(
      "f", Field(2, Bytes({1 << 3 | 5, 0, 0, 0x80, 0x3f}) + Field(1, Bytes({0, 0, 0, 0x40})))));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_THAT((*tensors)[0].flat<float>(), ElementsAre(1.0f, 2.0f));
}

TEST(ExampleTest, ErrorsNameTheFeature) {
  const ExampleParser parser =
      Parser({FixedLenFeature{.name = "x", .dtype = DT_FLOAT, .shape = {2}}});
  EXPECT_THAT(ErrorOf(parser, ""),
              IsError(absl::StatusCode::kDataLoss, "feature 'x'", "missing", "got no values"));
  EXPECT_THAT(ErrorOf(parser, Example("x", "")),
              IsError(absl::StatusCode::kDataLoss, "feature 'x'", "missing", "got no values"));
  EXPECT_THAT(ErrorOf(parser, Example("x", Field(3, Bytes({8, 1})))),
              IsError(absl::StatusCode::kDataLoss, "feature 'x'", "type", "got int64"));
  EXPECT_THAT(ErrorOf(parser, Example("x", Field(2, Field(1, Bytes({0, 0, 0, 0}))))),
              IsError(absl::StatusCode::kDataLoss, "feature 'x'", "expected 2", "got 1"));
  const ExampleParser bytes =
      Parser({FixedLenFeature{.name = "b", .dtype = DT_UINT8, .shape = {2}}});
  EXPECT_THAT(ErrorOf(bytes, Example("b", Field(1, Field(1, "a") + Field(1, "b")))),
              IsError(absl::StatusCode::kDataLoss, "feature 'b'", "byte strings", "got 2"));
  EXPECT_THAT(ErrorOf(bytes, Example("b", Field(1, Field(1, "abc")))),
              IsError(absl::StatusCode::kDataLoss, "feature 'b'", "expected 2", "got 3"));
}

TEST(ExampleTest, OtherBytesAreRejected) {
  const ExampleParser parser = Parser({VarLenFeature{.name = "x", .dtype = DT_INT64}});
  for (const std::string& bytes :
       {std::string("\x89PNG\r\n"), Bytes({0x0a}), Bytes({0x0a, 5, 1}), Bytes({0x0b}),
        Bytes({0, 1}), Example("x", Field(3, Field(1, Bytes({0x80})))),
        Example("x", Field(3, Field(1, std::string(11, '\x80') + "\1"))),
        Example("x", Field(3, Bytes({1 << 3 | 5, 0, 0, 0, 0}))),
        Example("x", Field(2, Field(1, "abc"))), Example("x", Field(1, Bytes({8, 1}))),
        Example("x", Bytes({0x1a, 9}))}) {
    EXPECT_THAT(ErrorOf(parser, bytes), IsError(absl::StatusCode::kDataLoss, "tf.train.Example"))
        << bytes;
  }
  const std::string example = StoredExamples()[2];
  const ExampleParser whole = Parser({FixedLenFeature{.name = "image", .shape = {6}}});
  for (size_t n = 0; n < example.size(); ++n) {
    EXPECT_EQ(ErrorOf(whole, example.substr(0, n)).code(), absl::StatusCode::kDataLoss) << n;
  }
}

TEST(ExampleTest, InvalidFeaturesAreRejected) {
  auto error = [](std::vector<ExampleFeature> features) {
    return ExampleParser::Create(std::move(features)).status();
  };
  EXPECT_THAT(error({FixedLenFeature{.name = "x", .dtype = DT_INT32}}),
              IsError(absl::StatusCode::kInvalidArgument, "feature 'x'", "dtype", "got int32"));
  EXPECT_THAT(error({VarLenFeature{.name = "x", .dtype = DT_UINT8}}),
              IsError(absl::StatusCode::kInvalidArgument, "got uint8"));
  EXPECT_THAT(error({FixedLenFeature{.name = "x", .shape = {-1}}}),
              IsError(absl::StatusCode::kInvalidArgument, "invalid shape"));
  EXPECT_THAT(error({FixedLenFeature{.name = "x", .dtype = DT_UINT8, .shape = {2, -1}}}),
              IsError(absl::StatusCode::kInvalidArgument, "invalid shape"));
  EXPECT_THAT(
      error(
          {FixedLenFeature{.name = "x", .shape = {2}, .default_value = Tensor::Scalar<float>(0)}}),
      IsError(absl::StatusCode::kInvalidArgument, "feature 'x'", "default value", "got float[]"));
  EXPECT_THAT(error({FixedLenFeature{.name = "x"}, VarLenFeature{.name = "x"}}),
              IsError(absl::StatusCode::kInvalidArgument, "feature 'x': requested twice"));
}

}  // namespace
}  // namespace mirrorflow
