// SPDX-License-Identifier: Apache-2.0
#include "train/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "train/data/dataset.h"
#include "train/data/image_ops.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::FloatNear;
using ::testing::Pointwise;

// Returns an image of 4 x 5 pixels with one channel.
Tensor Image() {
  return Tensor::Of<float>({4, 5, 1}, {30, 10, 40, 10, 50, 90, 20, 60, 50, 30,  //
                                       50, 80, 90, 70, 90, 30, 20, 30, 80, 40});
}

Tensor Bytes(const Tensor& image) {
  Tensor bytes = *Tensor::Allocate(DT_UINT8, image.shape());
  std::copy_n(image.data<float>(), image.num_elements(), bytes.data<uint8_t>());
  return bytes;
}

std::vector<float> ValuesOf(const absl::StatusOr<Tensor>& image) {
  if (!image.ok()) {
    ADD_FAILURE() << image.status();
    return {};
  }
  if (image->dtype() == DT_UINT8) {
    const auto bytes = image->flat<uint8_t>();
    return std::vector<float>(bytes.begin(), bytes.end());
  }
  const auto values = image->flat<float>();
  return std::vector<float>(values.begin(), values.end());
}

void ExpectNear(const absl::StatusOr<Tensor>& got, const std::vector<float>& want) {
  EXPECT_THAT(ValuesOf(got), Pointwise(FloatNear(2e-3), want));
}

// Expected values from tf.image.resize, bilinear, in TensorFlow 2.21.
TEST(ImageOpsTest, ResizeMatchesTensorFlow) {
  ExpectNear(images::Resize(Image(), 3, 7),
             {40.0,    23.8095, 20.7143, 43.3333, 24.2857, 29.5238, 46.6667,
              70.0,    58.5714, 57.1429, 75.0,    64.2857, 60.0,    60.0,
              33.3333, 31.4286, 32.8571, 40.0,    67.381,  65.4762, 48.3333});
  ExpectNear(images::Resize(Image(), 8, 3),
             {23.3333, 40.0,    36.6667, 34.1667, 45.0,    36.6667, 55.8333, 55.0,
              36.6667, 65.0,    67.5,    48.3333, 61.6667, 82.5,    71.6667, 51.6667,
              75.0,    75.8333, 35.0,    45.0,    60.8333, 26.6667, 30.0,    53.3333});
  EXPECT_EQ(ValuesOf(images::Resize(Bytes(Image()), 8, 3))[0], 23);
  EXPECT_EQ(ValuesOf(images::Resize(Image(), 4, 5)), ValuesOf(Image()));
}

// Expected values from tf.raw_ops.ImageProjectiveTransformV3 with the matrix of Keras'
// RandomRotation.
TEST(ImageOpsTest, RotateMatchesTensorFlow) {
  ExpectNear(
      images::Rotate(Image(), 0.5),
      {2.4097, 24.8207, 24.7394, 36.6515, 20.2649, 23.9706, 28.7886, 59.2924, 61.0033, 88.9007,
       88.443, 50.3845, 85.3264, 70.8233, 61.524,  29.2808, 49.924,  33.8262, 26.7048, 17.6581});
  ExpectNear(
      images::Rotate(Image(), -1.2),
      {29.4653, 58.9761, 46.5622, 11.0019, 1.8292, 17.9005, 66.6646, 55.3812, 44.2248, 14.6605,
       12.4659, 55.5834, 72.6008, 42.5429, 14.405, 5.8819,  78.38,   77.3567, 40.413,  40.7128});
  // A positive angle turns counter-clockwise, as in np.rot90 and Keras.
  ExpectNear(images::Rotate(Tensor::Of<float>({2, 2, 1}, {1, 2, 3, 4}), std::numbers::pi / 2),
             {2, 4, 1, 3});
}

TEST(ImageOpsTest, ColorAdjustmentsMatchFormulas) {
  // Expected values from tf.image.adjust_contrast.
  ExpectNear(images::AdjustContrast(Image(), 1.5),
             {20.75, -9.25, 35.75,  -9.25, 50.75,  110.75, 5.75, 65.75, 50.75, 20.75,
              50.75, 95.75, 110.75, 80.75, 110.75, 20.75,  5.75, 20.75, 95.75, 35.75});
  const Tensor bytes = Tensor::Of<uint8_t>({1, 3, 1}, {0, 100, 250});
  EXPECT_THAT(ValuesOf(images::AdjustBrightness(bytes, 10.4)), ElementsAre(10, 110, 255));
  EXPECT_THAT(ValuesOf(images::AdjustBrightness(bytes, -120)), ElementsAre(0, 0, 130));
  ExpectNear(images::Rescale(bytes, 1 / 100.0, -1), {-1, 0, 1.5});
  ExpectNear(images::Normalize(Tensor::Of<uint8_t>({1, 2, 2}, {0, 51, 255, 102}), {0.5, 0.2},
                               {0.5, 0.1}, 1 / 255.0),
             {-1, 0, 1, 2});
}

TEST(ImageOpsTest, FlipCropAndEraseMovePixels) {
  const Tensor image = Tensor::Of<uint8_t>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(ValuesOf(images::FlipLeftRight(image)), ElementsAre(3, 4, 1, 2, 7, 8, 5, 6));
  EXPECT_THAT(ValuesOf(images::FlipUpDown(image)), ElementsAre(5, 6, 7, 8, 1, 2, 3, 4));
  EXPECT_THAT(ValuesOf(images::Crop(image, -1, 1, 2, 2)), ElementsAre(0, 0, 0, 0, 3, 4, 0, 0));
  EXPECT_THAT(ValuesOf(images::Crop(image, 5, 5, 1, 1)), ElementsAre(0, 0));
  EXPECT_THAT(ValuesOf(images::Erase(image, 0, 1, 9, 9)), ElementsAre(1, 2, 0, 0, 5, 6, 0, 0));
  EXPECT_THAT(ValuesOf(images::Erase(image, 9, 9, 1, 1)), ElementsAreArray(ValuesOf(image)));
  EXPECT_EQ(image.data<uint8_t>()[0], 1) << "the input image changed";
}

TEST(ImageOpsTest, BadArgumentsAreErrors) {
  const Tensor image = Image();
  for (const absl::StatusOr<Tensor>& result :
       {images::FlipLeftRight(Tensor()), images::FlipUpDown(Tensor::Scalar<float>(1)),
        images::Rotate(Tensor::Of<int32_t>({1, 1, 1}, {1}), 1), images::Crop(image, 0, 0, -1, 1),
        images::Crop(image, int64_t{1} << 40, 0, 1, 1), images::Resize(image, 1 << 30, 1),
        images::Resize(*Tensor::Allocate(DT_FLOAT, {0, 3, 1}), 2, 2),
        images::Erase(image, 0, 0, -1, 1), images::Normalize(image, {1, 2}, {1, 2}),
        images::Rescale(Tensor::Vector<float>({1.0f}), 1)}) {
    EXPECT_THAT(result.status(), IsError(absl::StatusCode::kInvalidArgument, "image: "));
  }
}

// Applies `augment` to Image() as row `row` of pass `epoch`.
std::vector<float> Augmented(const RowFunction& augment, int64_t row, int64_t epoch = 0,
                             const Tensor& image = Image()) {
  Row components = {image};
  EXPECT_EQ(augment({epoch, row}, &components), absl::OkStatus());
  return ValuesOf(components[0]);
}

// Counts how often each result appears in 1000 rows.
std::map<std::vector<float>, int> Frequencies(const RowFunction& augment, const Tensor& image) {
  std::map<std::vector<float>, int> seen;
  for (int64_t row = 0; row < 1000; ++row) ++seen[Augmented(augment, row, 0, image)];
  return seen;
}

TEST(AugmentationTest, ResultDependsOnlyOnSeedEpochAndRow) {
  using augment::RandomRotation;
  const std::vector<float> first = Augmented(RandomRotation(0.1), 5);
  EXPECT_EQ(Augmented(RandomRotation(0.1), 5), first);
  EXPECT_NE(Augmented(RandomRotation(0.1), 6), first);
  EXPECT_NE(Augmented(RandomRotation(0.1), 5, 1), first);
  EXPECT_NE(Augmented(RandomRotation(0.1), 6, -1), first)
      << "the seed must not depend on only the sum of epoch and row";
  EXPECT_NE(Augmented(RandomRotation(0.1, {.seed = 9}), 5), first);
}

TEST(AugmentationTest, RandomFlipFlipsHalfOfTheImages) {
  const Tensor image = Tensor::Of<float>({2, 2, 1}, {1, 2, 3, 4});
  const auto sideways = Frequencies(augment::RandomFlip(), image);
  ASSERT_EQ(sideways.size(), 2u);
  EXPECT_NEAR(sideways.at({2, 1, 4, 3}), 500, 80);
  const auto upside =
      Frequencies(augment::RandomFlip({.mode = augment::FlipMode::kVertical}), image);
  ASSERT_EQ(upside.size(), 2u);
  EXPECT_NEAR(upside.at({3, 4, 1, 2}), 500, 80);
  const auto both =
      Frequencies(augment::RandomFlip({.mode = augment::FlipMode::kHorizontalAndVertical}), image);
  ASSERT_EQ(both.size(), 4u);
  EXPECT_NEAR(both.at({4, 3, 2, 1}), 250, 70);
}

TEST(AugmentationTest, RandomCropPicksEveryRectangle) {
  const Tensor image = Tensor::Of<float>({1, 2, 1}, {1, 2});
  const auto crops = Frequencies(augment::RandomCrop(1, 2, {.padding = 1}), image);
  // Rows 0 and 2 of the padded image contain only padding, so six of its nine crops are all zeros.
  ASSERT_EQ(crops.size(), 4u);
  EXPECT_NEAR(crops.at({0, 0}), 667, 80);
  EXPECT_NEAR(crops.at({1, 2}), 111, 40);
  EXPECT_NEAR(crops.at({0, 1}), 111, 40);
  EXPECT_NEAR(crops.at({2, 0}), 111, 40);
  Row small = {image};
  EXPECT_THAT(augment::RandomCrop(2, 2)({0, 0}, &small),
              IsError(absl::StatusCode::kInvalidArgument, "RandomCrop:", "at least 2 x 2"));
}

TEST(AugmentationTest, RandomChangesStayInRange) {
  const Tensor gray = Tensor::Of<uint8_t>({1, 2, 1}, {90, 110});
  float least = 255, most = 0;
  for (int64_t row = 0; row < 500; ++row) {
    const float value = Augmented(augment::RandomBrightness(0.1), row, 0, gray)[0];
    least = std::min(least, value);
    most = std::max(most, value);
    const std::vector<float> contrast = Augmented(augment::RandomContrast(0.5), row, 0, gray);
    EXPECT_GE(contrast[0], 85);
    EXPECT_LE(contrast[0], 95);
    EXPECT_EQ(contrast[0] + contrast[1], 200);
    const std::vector<float> cut = Augmented(augment::Cutout(2), row);
    const auto zeros = std::count(cut.begin(), cut.end(), 0.0f);
    EXPECT_TRUE(zeros == 1 || zeros == 2 || zeros == 4) << zeros;
  }
  EXPECT_NEAR(least, 90 - 25.5, 1);
  EXPECT_NEAR(most, 90 + 25.5, 1);
}

TEST(AugmentationTest, MixUpMixesImagesAndLabels) {
  const RowFunction mix = augment::MixUp({.alpha = 0.4, .num_classes = 3});
  double sum = 0, squares = 0;
  constexpr int kRows = 4000;
  for (int64_t i = 0; i < kRows; ++i) {
    Row row = {Tensor::Of<float>({1, 1, 1}, {1}), Tensor::Scalar<int32_t>(2),
               Tensor::Of<float>({1, 1, 1}, {0}), Tensor::Scalar<int32_t>(0)};
    ASSERT_EQ(mix({0, i}, &row), absl::OkStatus());
    ASSERT_EQ(row.size(), 2u);
    const float weight = row[0].data<float>()[0];
    EXPECT_THAT(ValuesOf(row[1]), Pointwise(FloatNear(1e-6), {1 - weight, 0.0f, weight}));
    sum += weight;
    squares += weight * weight;
  }
  // Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)).
  EXPECT_NEAR(sum / kRows, 0.5, 0.03);
  EXPECT_NEAR(squares / kRows - std::pow(sum / kRows, 2), 1 / (4 * 1.8), 0.01);
  Row bad = {Image(), Tensor::Scalar<int32_t>(3), Image(), Tensor::Scalar<int32_t>(0)};
  EXPECT_THAT(mix({0, 0}, &bad), IsError(absl::StatusCode::kInvalidArgument, "MixUp:", "0 to 2"));
}

TEST(AugmentationTest, WorkersTogetherGetTheImagesOfOneProcess) {
  std::vector<float> values(16 * 4 * 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Dataset dataset = Dataset::FromTensors({Tensor::Of<float>({16, 4, 4, 1}, values)})
                              .Shuffle(1)
                              .Map(augment::RandomFlip(), {.num_parallel_calls = 2})
                              .Map(augment::RandomCrop(4, 4, {.padding = 2}))
                              .Batch(8);
  const auto batches = [&](const BatchShard& shard) {
    std::vector<std::vector<float>> all;
    const auto source = dataset.MakeIterator(3, shard);
    for (SourceBatch batch; *source->Next(&batch);) all.push_back(ValuesOf(batch.components[0]));
    return all;
  };
  const auto whole = batches({}), first = batches({0, 1, 2}), second = batches({1, 1, 2});
  ASSERT_EQ(whole.size(), 2u);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::vector<float> joined = first[i];
    joined.insert(joined.end(), second[i].begin(), second[i].end());
    EXPECT_EQ(joined, whole[i]);
  }
}

}  // namespace
}  // namespace mirrorflow
