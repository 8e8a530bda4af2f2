// SPDX-License-Identifier: Apache-2.0
//
// Options of the datasets that read files: Dataset::FromCsv, FromNpy, FromNpz, FromTFRecords and
// FromImageFolder.
//
//   Dataset::FromCsv("iris.csv", {.label = "species", .csv = {.num_threads = 2}})
//   Dataset::FromTFRecords({"train-*.tfrecord"},
//                          {.features = {FixedLenFeature{.name = "image", .shape = {784}},
//                                        FixedLenFeature{.name = "label", .dtype = DT_INT64}}})
//   Dataset::FromImageFolder("flowers", {.height = 224, .width = 224, .channels = 3})
//
// Dataset::status() or the read of a row returns the error: NotFound or another code if a file
// cannot be read; DataLoss, naming the file, the record and the field, if it is damaged.
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
  // The column of the labels: rows are {features, label}, where `features` is a float vector of all
  // other columns. Empty: each column is a component, a scalar.
  std::string label = "";
  // Which columns to read, and how to parse them. The whole file is parsed at once, by
  // `num_threads` threads, and held in memory. All files of a pattern must have the same columns.
  CsvOptions csv = {};
};

struct TFRecordSource {
  // The components of a row. Empty: one component, the bytes of the record, uint8 [n].
  std::vector<ExampleFeature> features = {};
  // Locates all records first, so that they can be read in any order. A compressed file is always
  // read sequentially.
  bool random_access = true;
};

struct ImageFolderSource {
  // The size to which images are resized. 0: as in the file.
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;  // see ImageOptions::channels
  // The folders, in label order. Empty: all folders that are not hidden, in alphabetical order.
  std::vector<std::string> classes = {};
  bool ignore_orientation = false;  // see ImageOptions
};

// The image files in a folder with one subfolder per class.
struct ImageFolderFiles {
  std::vector<std::string> classes;  // names of the subfolders
  std::vector<std::string> paths;    // in alphabetical order within a class
  std::vector<int32_t> labels;       // for each path, an index into `classes`
};

// Lists the .png, .jpg and .jpeg files below the class folders. Skips hidden files and folders,
// whose names begin with a dot, and those that systems create (__MACOSX, @eaDir). NotFound if
// `directory` or one of `classes` does not exist; InvalidArgument if there are no images or, with
// empty `classes`, if a folder has none.
absl::StatusOr<ImageFolderFiles> ListImageFolder(const std::string& directory,
                                                 const std::vector<std::string>& classes = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_SOURCES_H_
