// SPDX-License-Identifier: Apache-2.0
//
// Options for datasets that read files: Dataset::FromCsv, FromNpy, FromNpz, FromTFRecords and
// FromImageFolder.
//
//   Dataset::FromCsv("iris.csv", {.label = "species", .csv = {.num_threads = 2}})
//   Dataset::FromTFRecords({"train-*.tfrecord"},
//                          {.features = {FixedLenFeature{.name = "image", .shape = {784}},
//                                        FixedLenFeature{.name = "label", .dtype = DT_INT64}}})
//   Dataset::FromImageFolder("flowers", {.height = 224, .width = 224, .channels = 3})
//
// Errors, from Dataset::status() or the iterator's Next(): NotFound if a file does not exist; the
// system's error if it cannot be read; InvalidArgument if the options do not match it. DataLoss,
// naming the file, the record and the field, if it is damaged.
#ifndef MIRRORFLOW_TRAIN_DATA_SOURCES_H_
#define MIRRORFLOW_TRAIN_DATA_SOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/dataset.h"
#include "train/formats/csv.h"
#include "train/formats/example.h"

namespace mirrorflow {

struct CsvSource {
  // The name of the label column. Rows are then {features, label}, where `features` is a float
  // vector of all other columns. If empty, each column is a scalar component.
  std::string label = "";
  // Which columns to read, and how to parse them. The whole file is parsed before the first row is
  // returned, by csv.num_threads threads, and the columns are kept in memory. All files that match
  // a pattern must have the same columns.
  CsvOptions csv = {};
};

struct TFRecordSource {
  // The features of tf.train.Example records that are the components of a row. If empty, a row has
  // one component with the record's bytes, uint8 [n].
  std::vector<ExampleFeature> features = {};
  // Whether to locate all records before the first is read, so that they can be read in any order.
  // Compressed files are always read sequentially.
  bool random_access = true;
};

struct ImageFolderSource {
  // The size that images are resized to, in pixels. If both are 0, images keep their own sizes.
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;  // see ImageOptions::channels (train/formats/image.h)
  // The class folders. The label of an image is the index of its folder in this list. If empty, all
  // folders that are not hidden, in alphabetical order.
  std::vector<std::string> classes = {};
  bool ignore_orientation = false;  // see ImageOptions::ignore_orientation
};

// The image files in a folder with one subfolder per class.
struct ImageFolderFiles {
  std::vector<std::string> classes;  // names of the subfolders
  std::vector<std::string> paths;    // in alphabetical order within a class
  std::vector<int32_t> labels;       // the label of each path, an index into `classes`
};

// Lists the .png, .jpg and .jpeg files in and below the class folders. Skips hidden files and
// folders, whose names begin with a dot, and system folders such as __MACOSX and @eaDir. Returns
// NotFound if `directory` or one of `classes` does not exist, and InvalidArgument if there are no
// images or, with empty `classes`, if a folder has no images.
absl::StatusOr<ImageFolderFiles> ListImageFolder(const std::string& directory,
                                                 const std::vector<std::string>& classes = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_SOURCES_H_
