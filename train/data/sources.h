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
// Errors are returned by Dataset::status() or when a row is read: NotFound or another code if a
// file cannot be read; DataLoss, naming the file, the record and the field, if it is damaged.
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
  // The label column. Rows are then {features, label}, with a float vector of all other columns as
  // `features`. If empty, each column is a scalar component.
  std::string label = "";
  // Which columns to read, and how to parse them. `num_threads` threads parse the whole file at
  // once, and it is held in memory. All files that match a pattern must have the same columns.
  CsvOptions csv = {};
};

struct TFRecordSource {
  // The components of a row. Empty: one component with the record's bytes, uint8 [n].
  std::vector<ExampleFeature> features = {};
  // Whether to locate all records first, so that they can be read in any order. Compressed files
  // are always read sequentially.
  bool random_access = true;
};

struct ImageFolderSource {
  // The size to which images are resized. 0 keeps the file's size.
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;  // see ImageOptions::channels
  // The class folders, in label order. Empty: all folders that are not hidden, in alphabetical
  // order.
  std::vector<std::string> classes = {};
  bool ignore_orientation = false;  // see ImageOptions
};

// The image files in a folder with one subfolder per class.
struct ImageFolderFiles {
  std::vector<std::string> classes;  // names of the subfolders
  std::vector<std::string> paths;    // in alphabetical order within a class
  std::vector<int32_t> labels;       // the label of each path, an index into `classes`
};

// Lists the .png, .jpg and .jpeg files in and below the class folders. Skips hidden files and
// folders, whose names begin with a dot, and system folders such as __MACOSX and
// @eaDir. NotFound if `directory` or one of `classes` does not exist; InvalidArgument if there are
// no images or, with empty `classes`, if a folder has no images.
absl::StatusOr<ImageFolderFiles> ListImageFolder(const std::string& directory,
                                                 const std::vector<std::string>& classes = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_SOURCES_H_
