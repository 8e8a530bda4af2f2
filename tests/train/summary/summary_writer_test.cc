// SPDX-License-Identifier: Apache-2.0
#include "train/summary/summary_writer.h"

#include <filesystem>
#include <vector>

#include "framework/graph/scope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "tests/train/summary/event_file.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

// Field numbers in TensorFlow's event.proto, summary.proto and tensor.proto.
enum EventField { kWallTime = 1, kStep = 2, kGraphDef = 4, kSummary = 5 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2, kImage = 4, kHisto = 5, kTensor = 8, kMetadata = 9 };
enum MetadataField { kPluginData = 1 };
enum PluginField { kPluginName = 1, kContent = 2 };

class SummaryWriterTest : public testing::Test {
 protected:
  SummaryWriterTest() {
    const std::string directory =
        TemporaryPath(testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory);
    absl::StatusOr<std::unique_ptr<SummaryWriter>> writer = SummaryWriter::Open(directory);
    EXPECT_TRUE(writer.ok()) << writer.status();
    writer_ = *std::move(writer);
  }

  // Returns the events written so far.
  std::vector<WireMessage> Events() {
    EXPECT_TRUE(writer_->Flush().ok());
    std::vector<WireMessage> events = ReadEvents(writer_->path());
    events.erase(events.begin());
    return events;
  }
  // Returns the values in the only event.
  std::vector<WireMessage> Values() {
    const std::vector<WireMessage> events = Events();
    EXPECT_EQ(events.size(), 1u);
    std::vector<WireMessage> values;
    for (const std::string& value : events[0].Message(kSummary).All(kValue)) {
      values.emplace_back(value);
    }
    return values;
  }

  std::unique_ptr<SummaryWriter> writer_;
};

TEST_F(SummaryWriterTest, ScalarHasTagValueStepAndTime) {
  ASSERT_TRUE(writer_
                  ->AddScalar("loss/train", 0.1, 12,
                              {.walltime = absl::UnixEpoch() + absl::Milliseconds(2500)})
                  .ok());
  const std::vector<WireMessage> events = Events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].Double(kWallTime), 2.5);
  EXPECT_EQ(events[0].Int(kStep), 12);
  const WireMessage value = events[0].Message(kSummary).Message(kValue);
  EXPECT_EQ(value.String(kTag), "loss/train");
  EXPECT_EQ(value.Float(kSimpleValue), 0.1f);
}

TEST_F(SummaryWriterTest, TimeIsNowByDefault) {
  const double before = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  ASSERT_TRUE(writer_->AddScalar("x", 1, -1).ok());
  const std::vector<WireMessage> events = Events();
  EXPECT_GE(events[0].Double(kWallTime), before - 1e-3);
  EXPECT_LE(events[0].Double(kWallTime), before + 60);
  EXPECT_EQ(events[0].Int(kStep), -1);
}

TEST_F(SummaryWriterTest, HistogramHasItsBuckets) {
  ASSERT_TRUE(
      writer_->AddHistogram("w", Tensor::Of<float>({4}, {0, 1, 1, 2}), 3, {.buckets = 2}).ok());
  const std::vector<WireMessage> values = Values();
  EXPECT_EQ(values[0].String(kTag), "w");
  const WireMessage histogram = values[0].Message(kHisto);
  EXPECT_EQ(histogram.Double(1), 0);  // min, max, num, sum, sum_squares
  EXPECT_EQ(histogram.Double(2), 2);
  EXPECT_EQ(histogram.Double(3), 4);
  EXPECT_EQ(histogram.Double(4), 4);
  EXPECT_EQ(histogram.Double(5), 6);
  EXPECT_THAT(histogram.PackedDoubles(6), ElementsAre(1, 2));
  EXPECT_THAT(histogram.PackedDoubles(7), ElementsAre(1, 3));
}

TEST_F(SummaryWriterTest, HistogramHasThirtyBucketsByDefault) {
  ASSERT_TRUE(writer_->AddHistogram("w", Tensor::Of<float>({2}, {0, 1}), 3).ok());
  EXPECT_EQ(Values()[0].Message(kHisto).PackedDoubles(6).size(), 30u);
}

TEST_F(SummaryWriterTest, ImageIsAPng) {
  const Tensor image = Tensor::Of<uint8_t>({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(writer_->AddImage("picture", image, 1).ok());
  const WireMessage encoded = Values()[0].Message(kImage);
  EXPECT_EQ(encoded.Int(1), 1);  // height, width, colorspace
  EXPECT_EQ(encoded.Int(2), 2);
  EXPECT_EQ(encoded.Int(3), 3);
  EXPECT_EQ(encoded.String(4).substr(0, 8), Bytes({0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}));
}

TEST_F(SummaryWriterTest, TextIsAStringTensorOfTheTextPlugin) {
  ASSERT_TRUE(writer_->AddText("notes", "**bold** ü", 1).ok());
  const WireMessage value = Values()[0];
  EXPECT_EQ(value.String(kTag), "notes");
  EXPECT_EQ(value.Message(kMetadata).Message(kPluginData).String(kPluginName), "text");
  EXPECT_EQ(value.Message(kTensor).Int(1), 7);  // DT_STRING
  EXPECT_TRUE(value.Message(kTensor).Has(2));   // a shape without dimensions
  EXPECT_EQ(value.Message(kTensor).String(2), "");
  EXPECT_THAT(value.Message(kTensor).All(8), ElementsAre("**bold** ü"));
}

TEST_F(SummaryWriterTest, GraphIsAGraphDef) {
  Graph graph;
  Scope root(&graph);
  ops::Neg(root.WithName("minus"), ops::Placeholder(root.WithName("in"), DT_FLOAT, {2}));
  ASSERT_TRUE(writer_->AddGraph(graph).ok());
  const WireMessage def = Events()[0].Message(kGraphDef);
  std::vector<std::string> names;
  for (const std::string& node : def.All(1)) names.push_back(WireMessage(node).String(1));
  EXPECT_THAT(names, ElementsAre("in", "minus"));
}

TEST_F(SummaryWriterTest, GraphErrorIsReturned) {
  Graph graph;
  Scope root(&graph);
  ops::Add(root.WithName("sum"), ops::Placeholder(root, DT_FLOAT, {2}),
           ops::Placeholder(root, DT_FLOAT, {3}));
  EXPECT_THAT(writer_->AddGraph(graph), IsError(absl::StatusCode::kInvalidArgument, "sum"));
  EXPECT_TRUE(Events().empty());
}

TEST_F(SummaryWriterTest, HparamsDescribeTheExperimentAndTheSession) {
  const Hparams hparams = {{"adam", true}, {"batch", 64}, {"lr", 0.5}, {"loss", "mse"}};
  ASSERT_TRUE(writer_->AddHparams(hparams, {{"accuracy", 0.25}}, 9).ok());
  const std::vector<WireMessage> events = Events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].Int(kStep), 9);
  std::vector<std::string> tags;
  std::vector<WireMessage> data;
  for (const std::string& bytes : events[0].Message(kSummary).All(kValue)) {
    const WireMessage value(bytes), plugin = value.Message(kMetadata).Message(kPluginData);
    tags.push_back(value.String(kTag));
    EXPECT_EQ(plugin.String(kPluginName), "hparams");
    data.push_back(plugin.Message(kContent));
  }
  ASSERT_THAT(tags, ElementsAre("_hparams_/experiment", "_hparams_/session_start_info",
                                "_hparams_/session_end_info"));
  // The numbers below are fields of TensorBoard's HParamsPluginData, Experiment, HParamInfo and
  // MetricInfo.
  const WireMessage experiment = data[0].Message(2);
  std::vector<std::pair<std::string, int64_t>> infos;
  for (const std::string& info : experiment.All(4)) {
    infos.emplace_back(WireMessage(info).String(1), WireMessage(info).Int(4));
  }
  using Info = std::pair<std::string, int64_t>;
  EXPECT_THAT(infos,
              ElementsAre(Info("adam", 2), Info("batch", 3), Info("loss", 1), Info("lr", 3)));
  EXPECT_EQ(experiment.Message(5).Message(1).String(2), "accuracy");
  const WireMessage session = data[1].Message(3);
  std::map<std::string, WireMessage> values;
  for (const std::string& entry : session.All(1)) {
    values.emplace(WireMessage(entry).String(1), WireMessage(entry).Message(2));
  }
  // In google.protobuf.Value: number_value, string_value, bool_value.
  EXPECT_EQ(values.at("batch").Double(2), 64);
  EXPECT_EQ(values.at("lr").Double(2), 0.5);
  EXPECT_EQ(values.at("loss").String(3), "mse");
  EXPECT_EQ(values.at("adam").Int(4), 1);
  EXPECT_EQ(data[2].Message(4).Int(1), 1);  // STATUS_SUCCESS
  EXPECT_GE(data[2].Message(4).Double(2), session.Double(5));
  const WireMessage metric = events[1].Message(kSummary).Message(kValue);
  EXPECT_EQ(metric.String(kTag), "accuracy");
  EXPECT_EQ(metric.Float(kSimpleValue), 0.25f);
  EXPECT_THAT(writer_->AddHparams(hparams, {}),
              IsError(absl::StatusCode::kFailedPrecondition, writer_->path(), "AddHparams()"));
}

TEST_F(SummaryWriterTest, BadTagsAndTextsAreErrors) {
  const std::string bad = "\xff";
  const Tensor one = Tensor::Scalar<float>(1);
  for (const absl::Status& status :
       {writer_->AddScalar("", 1, 0), writer_->AddScalar(bad, 1, 0), writer_->AddText(bad, "x", 0),
        writer_->AddText("x", bad, 0), writer_->AddHistogram("", one, 0),
        writer_->AddImage("", one, 0), writer_->AddHparams({{bad, 1.0}}, {}),
        writer_->AddHparams({{"x", bad}}, {}), writer_->AddHparams({}, {{bad, 1}})}) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "must be UTF-8"));
  }
  EXPECT_THAT(writer_->AddHistogram("w", Tensor(), 0),
              IsError(absl::StatusCode::kInvalidArgument, "summary 'w'", "values"));
  EXPECT_THAT(writer_->AddImage("w", one, 0),
              IsError(absl::StatusCode::kInvalidArgument, "summary 'w'", "HWC", "3 dimensions"));
  EXPECT_TRUE(Events().empty());
}

}  // namespace
}  // namespace mirrorflow
