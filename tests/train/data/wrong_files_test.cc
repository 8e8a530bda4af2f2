// SPDX-License-Identifier: Apache-2.0
//
// Passes every reader one file of each kind that it cannot read.
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/file_kind.h"
#include "framework/graph/graph_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/registry.h"
#include "tests/support/files.h"
#include "tests/support/foreign_files.h"
#include "tests/support/is_error.h"
#include "train/checkpoint/checkpoint_contents.h"
#include "train/checkpoint/directory.h"
#include "train/data/dataset.h"
#include "train/data/sources.h"
#include "train/formats/csv.h"
#include "train/formats/idx.h"
#include "train/formats/npy.h"
#include "train/formats/npz.h"
#include "train/formats/tf_record.h"
#include "train/safetensors/safetensors.h"

namespace mirrorflow {
namespace {

// Returns the error from the dataset or from reading its first row.
absl::Status ReadRow(const Dataset& dataset) {
  MF_RETURN_IF_ERROR(dataset.status());
  SourceBatch batch;
  return dataset.Batch(1).MakeIterator()->Next(&batch).status();
}

absl::Status ReadRecord(const std::string& path) {
  MF_ASSIGN_OR_RETURN(const auto reader, TfRecordReader::Open(path));
  std::string record;
  return reader->Next(&record).status();
}

struct Reader {
  std::string name;
  std::string ending;  // file name suffix
  std::set<FileKind> own;
  std::function<absl::Status(const std::string& path)> read;
};

std::vector<Reader> Readers() {
  using K = FileKind;
  const auto graph = [](const std::string& path) { return ReadGraphFile(path, AllOps()).status(); };
  return {
      {"graph", ".pb", {K::kGraphDef}, graph},
      {"graph as text", ".pbtxt", {K::kGraphDefText}, graph},
      {"graph in text form", ".txt", {K::kGraphTextForm}, graph},
      {"variables", "", {K::kSafetensors}, [](auto& p) { return ReadSafetensors(p).status(); }},
      {"npy", "", {K::kNpy}, [](auto& p) { return ReadNpy(p).status(); }},
      {"mapped npy", "", {K::kNpy}, [](auto& p) { return MapNpy(p).status(); }},
      {"npy dataset", "", {K::kNpy}, [](auto& p) { return ReadRow(Dataset::FromNpy({p})); }},
      {"npz", "", {K::kNpz}, [](auto& p) { return ReadNpz(p).status(); }},
      {"names of npz", "", {K::kNpz}, [](auto& p) { return NpzNames(p).status(); }},
      {"npz dataset", "", {K::kNpz}, [](auto& p) { return ReadRow(Dataset::FromNpz(p, {"x"})); }},
      {"idx", "", {K::kIdx, K::kGzip}, [](auto& p) { return ReadIdx(p).status(); }},
      {"records", "", {K::kTfRecord, K::kGzip, K::kEmpty}, ReadRecord},
      {"record dataset",
       "",
       {K::kTfRecord, K::kGzip},
       [](auto& p) { return ReadRow(Dataset::FromTFRecords({p}, {})); }},
      {"record dataset in order",
       "",
       {K::kTfRecord, K::kGzip},
       [](auto& p) { return ReadRow(Dataset::FromTFRecords({p}, {.random_access = false})); }},
      {"csv", "", {K::kGzip}, [](auto& p) { return ReadCsv(p).status(); }},
      {"csv without header",
       "",
       {K::kGzip},
       [](auto& p) { return ReadCsv(p, {.header = false}).status(); }},
      {"csv dataset", "", {K::kGzip}, [](auto& p) { return ReadRow(Dataset::FromCsv(p, {})); }},
      {"folder of images",
       "",
       {},
       [](auto& p) { return ReadRow(Dataset::FromImageFolder(p, {})); }},
      {"checkpoints", "", {}, [](auto& p) { return ListCheckpoints(p).status(); }},
      {"checkpoints to write",
       "",
       {},
       [](auto& p) { return CheckpointDirectory::Open(p).status(); }},
  };
}

// These readers take a folder's path and read an image or the two checkpoint files inside it.
std::vector<Reader> ReadersOfFolders() {
  using K = FileKind;
  return {
      {"image",
       "/class/image.png",
       {K::kPng, K::kJpeg},
       [](auto& p) { return ReadRow(Dataset::FromImageFolder(p, {})); }},
      {"manifest",
       "/manifest.json",
       {K::kJson},
       [](auto& p) { return ReadCheckpointContents(p).status(); }},
  };
}

void ExpectNamed(const Reader& reader, const ForeignFile& file, const absl::Status& status,
                 const std::string& path) {
  const std::string what = absl::StrCat(reader.name, " of ", file.name);
  ASSERT_NE(status, absl::OkStatus()) << what;
  const bool is_empty = file.kind == FileKind::kEmpty;  // any error code is right for an empty file
  EXPECT_TRUE(is_empty || absl::IsInvalidArgument(status) || absl::IsDataLoss(status))
      << what << status;
  EXPECT_THAT(status, IsError(status.code(), path, file.token)) << what;
}

TEST(WrongFilesTest, EveryReaderNamesEveryOtherKind) {
  int pairs = 0;
  for (const Reader& reader : Readers()) {
    for (const ForeignFile& file : ForeignFiles()) {
      if (reader.own.count(file.kind) > 0) continue;
      const std::string path =
          WriteTemporary(absl::StrCat("wrong/", file.name, reader.ending), file.contents);
      ExpectNamed(reader, file, reader.read(path), path);
      ++pairs;
    }
  }
  EXPECT_GT(pairs, 700);
}

TEST(WrongFilesTest, ErrorsNameFilesInsideFolders) {
  for (const Reader& reader : ReadersOfFolders()) {
    for (const ForeignFile& file : ForeignFiles()) {
      if (reader.own.count(file.kind) > 0 || file.name.find(".data-") != std::string::npos)
        continue;
      const std::string folder = absl::StrCat("inside/", reader.name, "/", file.name);
      const std::string path = WriteTemporary(folder + reader.ending, file.contents);
      ExpectNamed(reader, file, reader.read(TemporaryPath(folder)), path);
    }
  }
}

TEST(WrongFilesTest, EveryReaderNamesFolderOfSavedModel) {
  WriteTemporary("saved/saved_model.pb", "x");
  WriteTemporary("saved/variables/variables.index", "x");
  for (const Reader& reader : Readers()) {
    const std::string path = absl::StrCat(TemporaryPath("saved"), reader.ending);
    if (!reader.ending.empty()) {
      std::filesystem::create_directories(path);
      WriteTemporary(absl::StrCat("saved", reader.ending, "/saved_model.pb"), "x");
    }
    ExpectNamed(reader, {FileKind::kSavedModelFolder, "saved", "SavedModel", ""}, reader.read(path),
                path);
  }
}

TEST(WrongFilesTest, EmptyShardBetweenRecordsIsSkipped) {
  std::string record;
  for (const ForeignFile& file : ForeignFiles()) {
    if (file.kind == FileKind::kTfRecord) record = file.contents;
  }
  const std::string empty = WriteTemporary("empty.tfrecord", "");
  const std::string full = WriteTemporary("full.tfrecord", record);
  const Dataset rows = Dataset::FromTFRecords({empty, full}, {});
  EXPECT_TRUE(rows.status().ok()) << rows.status();
  EXPECT_EQ(rows.size(), 1);
}

}  // namespace
}  // namespace mirrorflow
