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
// Errors are in Dataset::status(), or returned when a row is read: NotFound and others for a file
// that cannot be read, DataLoss for one that is damaged, with the file, the record and the field.
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
  // Rows {features, label}: all other columns as one float vector, and this column. Empty: each
  // column is a component, a scalar.
  std::string label = "";
  // Which columns there are and how they are parsed. The whole file is parsed at once, by
  // `num_threads`, and held in memory. The files of a pattern must have the same columns.
  CsvOptions csv = {};
};

struct TFRecordSource {
  // The components of a row. Empty: the bytes of the record, uint8 [n].
  std::vector<ExampleFeature> features = {};
  // Finds the places of all records at first, so that they can be read in any order. A compressed
  // file is always read from its beginning to its end.
  bool random_access = true;
};

struct ImageFolderSource {
  // The size of the images, to which they are resized. 0: as in the file.
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;  // as ImageOptions::channels
  // The folders, in the order of the labels. Empty: all that are not hidden, in alphabetical order.
  std::vector<std::string> classes = {};
  bool ignore_orientation = false;  // as ImageOptions::ignore_orientation
};

// The image files of a folder with a subfolder for each class.
struct ImageFolderFiles {
  std::vector<std::string> classes;  // names of the subfolders
  std::vector<std::string> paths;    // in alphabetical order within a class
  std::vector<int32_t> labels;       // of each path, an index of `classes`
};

// Lists the .png, .jpg and .jpeg files below the class folders. Leaves out hidden files and
// folders, whose names begin with a dot, and those that systems create (__MACOSX, @eaDir). NotFound
// if `directory` or one of `classes` does not exist; InvalidArgument if there is no image, or none
// in a folder while `classes` is empty.
absl::StatusOr<ImageFolderFiles> ListImageFolder(const std::string& directory,
                                                 const std::vector<std::string>& classes = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_DATA_SOURCES_H_
