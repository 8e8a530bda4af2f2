// SPDX-License-Identifier: Apache-2.0
#include "framework/data/dataset_fingerprint.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

const DatasetFingerprint kFingerprint = {.pipeline = "FromTensors(4 x float[])\n.Batch(2)",
                                         .files = "2 files",
                                         .batches = "2",
                                         .types = "float[]",
                                         .first_batch = "2 rows",
                                         .last_batch = ""};

std::string DifferenceOf(const std::vector<DatasetFingerprint>& workers) {
  const auto difference = DatasetFingerprint::FindDifference(workers);
  if (!difference) return "none";
  return "worker " + std::to_string(difference->worker) + " and " +
         std::to_string(difference->other) + ": " + difference->what + " " + difference->expected +
         ", " + difference->got;
}

TEST(DatasetFingerprintTest, TextRoundTrips) {
  const auto parsed = DatasetFingerprint::Parse(kFingerprint.Serialize());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->pipeline, kFingerprint.pipeline);
  EXPECT_EQ(parsed->Serialize(), kFingerprint.Serialize());
  EXPECT_EQ(DifferenceOf({kFingerprint, *parsed}), "none");
}

TEST(DatasetFingerprintTest, MalformedTextIsAnError) {
  for (const std::string& text :
       {std::string(), std::string("a\nb"), kFingerprint.Serialize() + "\n",
        "\\" + kFingerprint.Serialize().substr(kFingerprint.Serialize().find('\n'))}) {
    EXPECT_THAT(DatasetFingerprint::Parse(text).status(),
                IsError(absl::StatusCode::kInternal, "dataset", "malformed"))
        << text;
  }
}

TEST(DatasetFingerprintTest, LongValuesAreTruncatedButStillDiffer) {
  DatasetFingerprint a, b;
  a.pipeline = std::string(100000, 'x') + "a";
  b.pipeline = std::string(100000, 'x') + "b";
  EXPECT_LT(a.Serialize().size(), 2000u);
  EXPECT_NE(a.Serialize(), b.Serialize());
}

TEST(DatasetFingerprintTest, EveryValueIsCompared) {
  for (std::string DatasetFingerprint::*value :
       {&DatasetFingerprint::pipeline, &DatasetFingerprint::files, &DatasetFingerprint::batches,
        &DatasetFingerprint::types, &DatasetFingerprint::first_batch,
        &DatasetFingerprint::last_batch}) {
    DatasetFingerprint other = kFingerprint;
    other.*value = "other";
    EXPECT_THAT(DifferenceOf({kFingerprint, other}), HasSubstr("worker 1 and 0: "));
    EXPECT_THAT(DifferenceOf({kFingerprint, other}), HasSubstr(", other"));
  }
}

TEST(DatasetFingerprintTest, OnlyTheFirstDifferenceIsReported) {
  DatasetFingerprint other = kFingerprint;
  other.first_batch = "3 rows";
  other.files = "";
  EXPECT_EQ(DifferenceOf({kFingerprint, other}), "worker 1 and 0: files 2 files, none");
}

TEST(DatasetFingerprintTest, MinorityIsNamed) {
  DatasetFingerprint other = kFingerprint;
  other.batches = "3";
  EXPECT_EQ(DifferenceOf({other, kFingerprint, kFingerprint}),
            "worker 0 and 1: number of batches 2, 3");
  EXPECT_EQ(DifferenceOf({kFingerprint, other, other, kFingerprint}),
            "worker 1 and 0: number of batches 2, 3");
}

TEST(TensorChecksumTest, ValuesTypesAndShapesChangeTheChecksum) {
  const auto checksum = [](const std::vector<std::vector<Tensor>>& rows) {
    TensorChecksum all;
    for (const auto& row : rows) all.Add(row);
    return all.ToString();
  };
  const Tensor a = Tensor::Vector<float>({1, 2});
  EXPECT_EQ(checksum({{a}}), checksum({{Tensor::Vector<float>({1, 2})}}));
  EXPECT_NE(checksum({{a}}), checksum({{Tensor::Vector<float>({1, 3})}}));
  EXPECT_NE(checksum({{a}}), checksum({{a.Reshaped({1, 2})}}));
  EXPECT_NE(checksum({{Tensor::Scalar<int32_t>(0)}}), checksum({{Tensor::Scalar<float>(0)}}));
  EXPECT_NE(checksum({{a, a}}), checksum({{a}}));
}

}  // namespace
}  // namespace mirrorflow
