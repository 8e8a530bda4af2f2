// SPDX-License-Identifier: Apache-2.0
#include "framework/core/file_kind.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/foreign_files.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

TEST(FileKindTest, EveryKindIsRecognisedAndNamed) {
  for (const ForeignFile& file : ForeignFiles()) {
    const std::string path = WriteTemporary(absl::StrCat("kinds/", file.name), file.contents);
    EXPECT_EQ(FileKindRowOf(KindOfFile(path)).name, FileKindRowOf(file.kind).name) << file.name;
    EXPECT_THAT(std::string(FileKindRowOf(file.kind).name), HasSubstr(file.token));
  }
}

TEST(FileKindTest, ModelFoldersAreRecognised) {
  WriteTemporary("saved/saved_model.pb", "x");
  WriteTemporary("run/step-000000400/manifest.json", "{}");
  WriteTemporary("run/step-000000400/variables.safetensors", "x");
  WriteTemporary("ckpt/model.ckpt-1.index", "x");
  WriteTemporary("other/x.txt", "x");
  EXPECT_EQ(KindOfFile(TemporaryPath("saved")), FileKind::kSavedModelFolder);
  EXPECT_EQ(KindOfFile(TemporaryPath("run")), FileKind::kCheckpointFolder);
  EXPECT_EQ(KindOfFile(TemporaryPath("run/step-000000400")), FileKind::kCheckpointFolder);
  EXPECT_EQ(KindOfFile(TemporaryPath("ckpt")), FileKind::kTensorFlowCheckpoint);
  EXPECT_EQ(KindOfFile(TemporaryPath("other")), FileKind::kUnknown);
  EXPECT_EQ(KindOfFile(TemporaryPath("no such file")), FileKind::kUnknown);
}

// A valid header checksum is stronger evidence than the file's name or its last bytes.
TEST(FileKindTest, RecordsThatLookLikeCheckpointAtTheEndAreRecords) {
  const auto files = ForeignFiles();
  const auto contents = [&](FileKind kind) {
    return std::find_if(files.begin(), files.end(), [&](const auto& f) { return f.kind == kind; })
        ->contents;
  };
  const std::string records = contents(FileKind::kTfRecord);
  const std::string table = contents(FileKind::kTensorFlowCheckpoint);
  EXPECT_EQ(KindOfFile(WriteTemporary("end/x.tfrecord", records + table)), FileKind::kTfRecord);
  EXPECT_EQ(KindOfFile(WriteTemporary("end/x.data-00000-of-00001", records)), FileKind::kTfRecord);
}

// A prefix of a file may be recognised as any kind, but recognition must not read past its end.
TEST(FileKindTest, EveryPrefixHasAKind) {
  for (const ForeignFile& file : ForeignFiles()) {
    for (size_t n = 0; n <= file.contents.size(); ++n) {
      const std::string start = file.contents.substr(0, n);
      EXPECT_FALSE(FileKindRowOf(KindOfBytes(start, n)).name.empty());
      EXPECT_FALSE(FileKindRowOf(KindOfBytes(start, file.contents.size())).name.empty());
    }
  }
}

TEST(FileKindTest, TableWhoseFirstColumnIsNamedLikeAMagicNumberIsText) {
  for (const char* const name : {"PAR1", "GGUF", "BZh9", "ARROW1"}) {
    EXPECT_EQ(KindOfBytes(absl::StrCat(name, ",x\n1,2\n"), 10), FileKind::kText) << name;
  }
}

TEST(FileKindTest, ErrorNamesPathBothKindsAndRemedy) {
  const std::string path =
      WriteTemporary("x.npy", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  static constexpr FileKind kKinds[] = {FileKind::kNpy};
  const FileReader reader = {"an npy file", FileReader::Use::kData, kKinds};
  const absl::Status error = ExplainFile(absl::DataLossError("x"), path, reader);
  EXPECT_THAT(error, IsError(absl::StatusCode::kInvalidArgument, absl::StrCat(path, ": "),
                             "an npy file", "a git LFS pointer", "git lfs pull"));
  // Errors that do not concern the file's kind are returned unchanged.
  for (const absl::Status& other : {absl::NotFoundError("x"), absl::ResourceExhaustedError("x"),
                                    absl::PermissionDeniedError("x")}) {
    EXPECT_EQ(ExplainFile(other, path, reader), other);
  }
  const std::string own = WriteTemporary("own.npy", "\x93NUMPY and more");
  EXPECT_EQ(ExplainFile(absl::DataLossError("x"), own, reader), absl::DataLossError("x"));
}

}  // namespace
}  // namespace mirrorflow
