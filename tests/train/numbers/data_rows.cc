// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include "framework/core/tensor.h"
#include "tests/support/files.h"
#include "tests/train/numbers/numeric_rows.h"
#include "train/data/image_ops.h"
#include "train/data/input_pipelines.h"
#include "train/formats/csv.h"
#include "train/formats/image.h"
#include "train/formats/tf_record.h"

namespace mirrorflow {
namespace {

using namespace numeric_rows;  // NOLINT: each row names one of them

Tensor Floats() { return Tensor::Vector<float>(std::vector<float>{1, 2, 3, 4}); }
Dataset FourRows() { return Dataset::FromTensors({Floats()}); }

// Reads up to ten batches and returns the status.
absl::Status StatusOf(const Dataset& dataset) {
  if (!dataset.status().ok()) return dataset.status();
  const auto batches = dataset.MakeIterator();
  SourceBatch batch;
  for (int i = 0; i < 10; ++i) {
    const absl::StatusOr<bool> more = batches->Next(&batch);
    if (!more.ok() || !*more) return more.status();
  }
  return absl::OkStatus();
}

Tensor Image() { return Tensor::Of<float>({2, 2, 1}, std::vector<float>{0, 0.25, 0.5, 1}); }

absl::Status StatusOf(const RowFunction& function) {
  Row row = {Image()};
  return function(RowId(), &row);
}

absl::Status StatusOf(const augment::MixUpOptions& options) {
  const Tensor label = Tensor::Scalar<int32_t>(0);
  Row row = {Image(), label, Image(), label};
  return augment::MixUp(options)(RowId(), &row);
}

absl::Status ReadRecords(const TfRecordOptions& options) {
  const std::string path = TemporaryPath("numbers.tfrecord");
  auto writer = TfRecordWriter::Create(path);
  if (!writer.ok()) return writer.status();
  if (absl::Status status = (*writer)->Write("abc"); !status.ok()) return status;
  if (absl::Status status = (*writer)->Close(); !status.ok()) return status;
  const absl::Status indexed = TfRecordIndex::Build(path, options).status();
  const absl::Status opened = TfRecordReader::Open(path, options).status();
  return opened.ok() ? indexed : opened;
}

absl::Status Read(const CsvOptions& options) {
  return ReadCsv(WriteTemporary("numbers.csv", "a,b\n1,2\n3,4\n"), options).status();
}

// Returns the error for invalid options. The image is always invalid; that error is ignored.
absl::Status Decode(const ImageOptions& options) {
  const absl::Status status = DecodeJpeg("", options).status();
  return absl::IsDataLoss(status) ? absl::OkStatus() : status;
}

absl::Status ReadFolder(const ImageFolderSource& source) {
  WriteTemporary("numbers_images/cats/a.png", "\x89PNG\r\n\x1a\n");
  const absl::Status status =
      StatusOf(Dataset::FromImageFolder(TemporaryPath("numbers_images"), source));
  return absl::IsDataLoss(status) ? absl::OkStatus() : status;
}

#define REAL(name, bad, good, ...) \
  Real(name, Numbers bad, Numbers good, [](double v) -> absl::Status { return __VA_ARGS__; })
#define INTEGER(name, bad, good, ...) \
  Integer(name, Numbers bad, Numbers good, [](int64_t v) -> absl::Status { return __VA_ARGS__; })
#define SIZE(name, ...) INTEGER(name, ({-1, 0}), ({1, 2}), __VA_ARGS__)
#define COUNT(name, ...) INTEGER(name, ({-1}), ({0, 2}), __VA_ARGS__)

std::vector<NumericRow> DatasetRows() {
  return {
      COUNT("ShuffleOptions.buffer_size", StatusOf(FourRows().Shuffle(1, {.buffer_size = v}))),
      INTEGER("MapOptions.num_parallel_calls", ({-2, 0, 1 << 20}), ({-1, 2}),
              StatusOf(FourRows().Map([](const RowId&, Row*) { return absl::OkStatus(); },
                                      {.num_parallel_calls = static_cast<int>(v)}))),
      SIZE("InterleaveOptions.cycle_length",
           StatusOf(
               FourRows().Interleave([](const Row&) { return FourRows(); }, {.cycle_length = v}))),
      SIZE("InterleaveOptions.block_length",
           StatusOf(
               FourRows().Interleave([](const Row&) { return FourRows(); }, {.block_length = v}))),
      SIZE("WindowOptions.shift", StatusOf(FourRows().Window(2, {.shift = v}))),
      SIZE("WindowOptions.stride", StatusOf(FourRows().Window(2, {.stride = v}))),
      SIZE("Window.size", StatusOf(FourRows().Window(v))),
      COUNT("FromRandomAccess.rows",
            StatusOf(Dataset::FromRandomAccess(v,
                                               [](int64_t, Row* row) {
                                                 *row = {Tensor::Scalar<float>(1)};
                                                 return absl::OkStatus();
                                               }))),
      COUNT("FromSource.rows",
            Dataset::FromSource([](int64_t) { return std::unique_ptr<RowSource>(); }, v).status()),
      COUNT("FromGenerator.rows",
            Dataset::FromGenerator([](int64_t) { return Generator(); }, v).status()),
      COUNT("IgnoreErrors.limit", StatusOf(FourRows().IgnoreErrors(v))),
      SIZE("Batch.rows", StatusOf(FourRows().Batch(v))),
      SIZE("PaddedBatch.rows", StatusOf(FourRows().PaddedBatch(v))),
      INTEGER("Repeat.count", ({-2}), ({-1, 0, 2}), StatusOf(FourRows().Repeat(v))),
      COUNT("Take.count", StatusOf(FourRows().Take(v))),
      COUNT("Skip.count", StatusOf(FourRows().Skip(v))),
      SIZE("Shard.num_shards", StatusOf(FourRows().Shard(v, 0))),
      INTEGER("Shard.index", ({-1, 2}), ({0, 1}), StatusOf(FourRows().Shard(2, v))),
      COUNT("Prefetch.batches", StatusOf(FourRows().Prefetch(static_cast<int>(v)))),
  };
}

std::vector<NumericRow> ImageRows() {
  using namespace augment;  // NOLINT
  using namespace images;   // NOLINT
  const auto component = [](std::string name, std::function<RowFunction(int)> make) {
    return Integer(std::move(name), {-1, 1}, {0},
                   [=](int64_t v) { return StatusOf(make(static_cast<int>(v))); });
  };
  return {
      component("FlipOptions.component", [](int v) { return RandomFlip({.component = v}); }),
      component("CropOptions.component", [](int v) { return RandomCrop(1, 1, {.component = v}); }),
      component("AugmentOptions.component", [](int v) { return Cutout(1, {.component = v}); }),
      INTEGER("CropOptions.padding", ({-1, 0x1p61}), ({0, 2}),
              StatusOf(RandomCrop(1, 1, {.padding = v}))),
      INTEGER("RandomCrop.height", ({-1, -0x1p62, 0x1p62}), ({1, 2}), StatusOf(RandomCrop(v, 1))),
      INTEGER("RandomCrop.width", ({-1, -0x1p62, 0x1p62}), ({1, 2}), StatusOf(RandomCrop(1, v))),
      REAL("RandomRotation.factor", ({-0.1, 1.1}), ({0, 1}), StatusOf(RandomRotation(v))),
      REAL("RandomBrightness.factor", ({-0.1, 1.1}), ({0, 1}), StatusOf(RandomBrightness(v))),
      REAL("RandomContrast.factor", ({-0.1, 1.1}), ({0, 1}), StatusOf(RandomContrast(v))),
      INTEGER("Cutout.size", ({-1, 0x1p61}), ({0, 2}), StatusOf(Cutout(v))),
      REAL("MixUpOptions.alpha", ({0, -1}), ({0.2, 2}),
           StatusOf(MixUpOptions{.alpha = v, .num_classes = 2})),
      SIZE("MixUpOptions.num_classes", StatusOf(MixUpOptions{.num_classes = v})),
      INTEGER("Crop.y", ({-0x1p62, 0x1p62}), ({-1, 1}), Crop(Image(), v, 0, 1, 1).status()),
      INTEGER("Crop.x", ({-0x1p62, 0x1p62}), ({-1, 1}), Crop(Image(), 0, v, 1, 1).status()),
      COUNT("Crop.height", Crop(Image(), 0, 0, v, 1).status()),
      COUNT("Crop.width", Crop(Image(), 0, 0, 1, v).status()),
      INTEGER("Erase.y", ({-0x1p62, 0x1p62}), ({-1, 1}), Erase(Image(), v, 0, 1, 1).status()),
      INTEGER("Erase.x", ({-0x1p62, 0x1p62}), ({-1, 1}), Erase(Image(), 0, v, 1, 1).status()),
      COUNT("Erase.height", Erase(Image(), 0, 0, v, 1).status()),
      COUNT("Erase.width", Erase(Image(), 0, 0, 1, v).status()),
      COUNT("Resize.height", Resize(Image(), v, 1).status()),
      COUNT("Resize.width", Resize(Image(), 1, v).status()),
      REAL("Rotate.radians", ({}), ({-1, 7}), Rotate(Image(), v).status()),
      REAL("AdjustBrightness.delta", ({}), ({-1, 7}), AdjustBrightness(Image(), v).status()),
      REAL("AdjustContrast.factor", ({}), ({-1, 7}), AdjustContrast(Image(), v).status()),
      REAL("Rescale.scale", ({}), ({-1, 7}), Rescale(Image(), v).status()),
      REAL("Rescale.offset", ({}), ({-1, 7}), Rescale(Image(), 1, v).status()),
      REAL("Normalize.mean", ({}), ({-1, 7}),
           Normalize(Image(), {static_cast<float>(v)}, {1}).status()),
      REAL("Normalize.deviation", ({0, -1}), ({0.5}),
           Normalize(Image(), {0}, {static_cast<float>(v)}).status()),
      REAL("Normalize.scale", ({}), ({-1, 7}), Normalize(Image(), {0}, {1}, v).status()),
  };
}

std::vector<NumericRow> FileRows() {
  return {
      INTEGER("CsvColumn.index", ({-1, 2}), ({0, 1}),
              Read({.columns = {{.index = static_cast<int>(v)}}})),
      COUNT("CsvOptions.skip_bad_records", Read({.skip_bad_records = v})),
      SIZE("CsvOptions.num_threads", Read({.num_threads = static_cast<int>(v)})),
      COUNT("TfRecordOptions.skip_bad_records", ReadRecords({.skip_bad_records = v})),
      INTEGER("ImageOptions.channels", ({-1, 2, 5}), ({0, 1, 3}),
              Decode({.channels = static_cast<int>(v)})),
      INTEGER("ImageOptions.ratio", ({-1, 0, 3}), ({1, 8}), Decode({.ratio = static_cast<int>(v)})),
      SIZE("ImageOptions.max_pixels", Decode({.max_pixels = v})),
      SIZE("ImageFolderSource.height", ReadFolder({.height = v, .width = 2})),
      SIZE("ImageFolderSource.width", ReadFolder({.height = 2, .width = v})),
      INTEGER("ImageFolderSource.channels", ({-1, 2, 5}), ({0, 1, 3}),
              ReadFolder({.channels = static_cast<int>(v)})),
  };
}

}  // namespace

std::vector<NumericRow> DataRows() {
  std::vector<NumericRow> rows = DatasetRows();
  for (const auto& more : {ImageRows(), FileRows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace mirrorflow
