// SPDX-License-Identifier: Apache-2.0
#include "train/data/fashion_mnist.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kDebianDirectory = "/usr/share/datasets/fashion-mnist";

std::string Images(int n) {
  std::string pixels(n * 28 * 28, '\0');
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = i % 256;
  return Bytes({0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 28, 0, 0, 0, 28}) + pixels;
}

std::string Labels(std::initializer_list<int> labels) {
  return Bytes({0, 0, 8, 1, 0, 0, 0, static_cast<int>(labels.size())}) + Bytes(labels);
}

// Writes a directory with the files of one split.
std::string Directory(absl::string_view prefix, absl::string_view images,
                      absl::string_view labels) {
  std::filesystem::remove_all(TemporaryPath("mnist"));
  WriteTemporary(absl::StrCat("mnist/", prefix, "-images-idx3-ubyte"), images);
  WriteTemporary(absl::StrCat("mnist/", prefix, "-labels-idx1-ubyte"), labels);
  return TemporaryPath("mnist");
}

absl::Status ErrorOf(const std::string& directory, Split split = Split::kTrain) {
  return FashionMnist::Open({.split = split, .data_dir = directory}).status();
}

std::vector<Tensor> FirstBatch(const Dataset& dataset, int rows) {
  SourceBatch batch;
  const auto more = dataset.Batch(rows).MakeIterator()->Next(&batch);
  EXPECT_TRUE(more.ok() && *more) << more.status();
  return batch.components;
}

TEST(FashionMnistTest, ScalesImagesAndWidensLabels) {
  const std::string directory = Directory("train", Images(3), Labels({0, 9, 4}));
  const auto dataset = FashionMnist::Open({.data_dir = directory});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->size(), 3);
  const std::vector<Tensor> batch = FirstBatch(*dataset, 3);
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[0].shape(), Shape({3, 784}));
  EXPECT_EQ(batch[0].flat<float>()[0], 0.0f);
  EXPECT_EQ(batch[0].flat<float>()[51], 0.2f);
  EXPECT_EQ(batch[0].flat<float>()[255], 1.0f);
  EXPECT_EQ(batch[0].flat<float>()[784], (784 % 256) / 255.0f);
  EXPECT_TRUE(Tensor::Identical(batch[1], Tensor::Vector<int32_t>({0, 9, 4})));
}

TEST(FashionMnistTest, ShapesImagesForConvolutionsOnRequest) {
  const std::string directory = Directory("t10k", Images(2), Labels({1, 2}));
  const auto dataset =
      FashionMnist::Open({.split = Split::kTest, .data_dir = directory, .shape_images = true});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(FirstBatch(*dataset, 2)[0].shape(), Shape({2, 28, 28, 1}));
}

TEST(FashionMnistTest, DirectoryDefaultsToEnvironmentVariable) {
  const std::string directory = Directory("train", Images(1), Labels({5}));
  setenv("FASHION_MNIST_DIR", directory.c_str(), 1);
  EXPECT_EQ(FashionMnist::Open({})->size(), 1);
  setenv("FASHION_MNIST_DIR", "/nowhere", 1);
  EXPECT_EQ(FashionMnist::Open({.data_dir = directory})->size(), 1);
  EXPECT_THAT(ErrorOf(""), IsError(absl::StatusCode::kNotFound, "/nowhere", "no such directory"));
  unsetenv("FASHION_MNIST_DIR");
}

TEST(FashionMnistTest, ErrorForMissingDirectoryOrFileSaysWhatToInstall) {
  const std::string nowhere = TemporaryPath("nowhere");
  EXPECT_THAT(ErrorOf(nowhere),
              IsError(absl::StatusCode::kNotFound, nowhere, "train-labels-idx1-ubyte.gz",
                      "dataset-fashion-mnist", "FASHION_MNIST_DIR"));
  const std::string directory = Directory("train", Images(1), Labels({5}));
  EXPECT_THAT(ErrorOf(directory, Split::kTest),
              IsError(absl::StatusCode::kNotFound, "t10k-labels"));
  std::filesystem::remove(absl::StrCat(directory, "/train-images-idx3-ubyte"));
  EXPECT_THAT(ErrorOf(directory), IsError(absl::StatusCode::kNotFound, "train-images-idx3-ubyte"));
}

TEST(FashionMnistTest, ErrorsNameInvalidFiles) {
  EXPECT_THAT(ErrorOf(Directory("train", Images(3), Labels({0, 10, 4}))),
              IsError(absl::StatusCode::kDataLoss, "train-labels-idx1-ubyte", "label 1", "got 10"));
  EXPECT_THAT(ErrorOf(Directory("train", Images(3), Labels({0, 1}))),
              IsError(absl::StatusCode::kDataLoss, "image count", "expected 2"));
  EXPECT_THAT(ErrorOf(Directory("train", Labels({1, 2}), Labels({1, 2}))),
              IsError(absl::StatusCode::kDataLoss, "image size", "got [2]"));
  EXPECT_THAT(ErrorOf(Directory("train", Images(1), Images(1))),
              IsError(absl::StatusCode::kDataLoss, "label shape", "got [1,28,28]"));
  EXPECT_THAT(ErrorOf(Directory("train", Images(1), Bytes({0, 0, 0xC, 1, 0, 0, 0, 1, 0, 0, 0, 5}))),
              IsError(absl::StatusCode::kDataLoss, "element type", "got int32"));
  EXPECT_THAT(ErrorOf(Directory("train", Images(1).substr(0, 500), Labels({1}))),
              IsError(absl::StatusCode::kDataLoss, "cut short"));
}

TEST(FashionMnistTest, DebianFilesMatchPublishedStatistics) {
  if (!std::filesystem::exists(std::string(kDebianDirectory))) {
    GTEST_SKIP() << "needs the Debian package dataset-fashion-mnist";
  }
  const auto train = FashionMnist::Open({.data_dir = std::string(kDebianDirectory)});
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->size(), 60'000);
  const std::vector<Tensor> all = FirstBatch(*train, 60'000);
  int counts[10] = {};
  for (int32_t label : all[1].flat<int32_t>()) ++counts[label];
  for (int count : counts) EXPECT_EQ(count, 6'000);
  double sum = 0;
  for (float pixel : all[0].flat<float>()) sum += pixel;
  EXPECT_NEAR(sum / all[0].num_elements(), 0.2860, 5e-5);

  const auto test =
      FashionMnist::Open({.split = Split::kTest, .data_dir = std::string(kDebianDirectory)});
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(test->size(), 10'000);
}

}  // namespace
}  // namespace mirrorflow
