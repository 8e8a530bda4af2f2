// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/formats/npy.h"
#include "train/formats/npz.h"

namespace mirrorflow {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kDamaged = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;

constexpr char kFolder[] = "tests/references/formats/";

std::string Stored(absl::string_view name) { return absl::StrCat(kFolder, name); }

// Returns component `c` of all rows, in order, as doubles.
absl::StatusOr<std::vector<double>> TryColumn(const Dataset& dataset, int c) {
  std::vector<double> values;
  const auto source = dataset.MakeIterator();
  for (SourceBatch batch;;) {
    MF_ASSIGN_OR_RETURN(const bool more, source->Next(&batch));
    if (!more) return values;
    const Tensor& t = batch.components[c];
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      values.push_back(t.dtype() == DT_FLOAT   ? t.flat<float>()[i]
                       : t.dtype() == DT_INT32 ? t.flat<int32_t>()[i]
                       : t.dtype() == DT_INT64 ? static_cast<double>(t.flat<int64_t>()[i])
                                               : t.flat<uint8_t>()[i]);
    }
  }
}

std::vector<double> Column(const Dataset& dataset, int c) {
  absl::StatusOr<std::vector<double>> values = TryColumn(dataset, c);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *std::move(values) : std::vector<double>{};
}

absl::Status ErrorOf(const Dataset& dataset) { return TryColumn(dataset, 0).status(); }

constexpr char kTable[] = "width,kind,height\n1,b,4\n2.5,a,5\n3,b,6\n";

TEST(FromCsvTest, CsvColumnsBecomeFeaturesAndLabel) {
  const std::string path = WriteTemporary("table.csv", kTable);
  const CsvOptions csv = {.columns = {{.name = "width"},
                                      {.name = "kind", .vocabulary = {"a", "b"}},
                                      {.name = "height"}}};
  const Dataset rows = Dataset::FromCsv(path, {.label = "kind", .csv = csv});
  EXPECT_EQ(rows.size(), 3);
  EXPECT_THAT(Column(rows.Batch(2), 0), ElementsAre(1, 4, 2.5, 5, 3, 6));
  EXPECT_THAT(Column(rows, 1), ElementsAre(1, 0, 1));
  const auto iterator = rows.Batch(3).MakeIterator();
  SourceBatch batch;
  ASSERT_TRUE(*iterator->Next(&batch));
  EXPECT_EQ(batch.components[0].TypeString(), "float[3,2]");
  EXPECT_EQ(batch.components[1].TypeString(), "int32[3]");
  const Dataset columns = Dataset::FromCsv(path, {.csv = csv});
  EXPECT_THAT(Column(columns, 0), ElementsAre(1, 2.5, 3));
  EXPECT_THAT(Column(columns, 2), ElementsAre(4, 5, 6));
}

TEST(FromCsvTest, ErrorsNameFileRecordAndColumn) {
  EXPECT_THAT(ErrorOf(Dataset::FromCsv(WriteTemporary("text.csv", kTable), {})),
              IsError(kDamaged, "text.csv: ", "'kind'"));
  EXPECT_THAT(Dataset::FromCsv("/no/such.csv", {}).status(),
              IsError(absl::StatusCode::kNotFound, "/no/such.csv", "No such file"));
  const std::string path = WriteTemporary("numbers.csv", "a,b\n1,2\nx,3\n");
  const Dataset bad =
      Dataset::FromCsv(path, {.csv = {.columns = {{.name = "a", .dtype = DT_FLOAT}}}});
  EXPECT_THAT(bad.status(),
              IsError(absl::StatusCode::kDataLoss, "line 3, column 'a'", "expected", "got"));
  EXPECT_THAT(ErrorOf(Dataset::FromCsv(WriteTemporary("two.csv", "a,b\n1,2\n"), {.label = "c"})),
              IsError(kInvalid, "label column 'c'"));
}

TEST(FromNpyTest, EachFileIsAComponent) {
  const std::string x = TemporaryPath("x.npy"), y = TemporaryPath("y.npy");
  ASSERT_TRUE(WriteNpy(x, Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6})).ok());
  ASSERT_TRUE(WriteNpy(y, Tensor::Vector<int32_t>({7, 8, 9})).ok());
  const Dataset rows = Dataset::FromNpy({x, y});
  EXPECT_EQ(rows.size(), 3);
  EXPECT_THAT(Column(rows.Batch(2), 0), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Column(rows.Skip(1), 1), ElementsAre(8, 9));
  EXPECT_THAT(ErrorOf(Dataset::FromNpy({x, "/no/such.npy"})), IsError(kNotFound, "/no/such.npy"));
  EXPECT_THAT(ErrorOf(Dataset::FromNpy({})), IsError(kInvalid, "no components"));
}

TEST(FromNpzTest, PicksArraysByName) {
  const std::string path = TemporaryPath("arrays.npz");
  ASSERT_TRUE(WriteNpz(path, {{"x", Tensor::Of<float>({2, 1}, {1, 2})},
                              {"y", Tensor::Vector<int32_t>({3, 4})},
                              {"z", Tensor::Scalar<float>(5)}})
                  .ok());
  EXPECT_THAT(Column(Dataset::FromNpz(path, {"y", "x"}), 0), ElementsAre(3, 4));
  EXPECT_THAT(ErrorOf(Dataset::FromNpz(path, {"y", "w"})), IsError(kNotFound, "got 'w'"));
}

// The files were written by TensorFlow. Example 3 has neither a label nor tags.
TEST(FromTFRecordsTest, ReadsExamplesOfAllFilesInAnyOrder) {
  const TFRecordSource source = {
      .features = {
          FixedLenFeature{.name = "image", .shape = {6}},
          FixedLenFeature{
              .name = "label", .dtype = DT_INT64, .default_value = Tensor::Scalar<int64_t>(-100)}}};
  const std::vector<double> labels = {0, -1, static_cast<double>(int64_t{2} << 40), -100,
                                      static_cast<double>(int64_t{4} << 40)};
  std::vector<double> twice = labels;
  twice.insert(twice.end(), labels.begin(), labels.end());
  for (const char* const second : {"examples.tfrecord", "examples_gzip.tfrecord"}) {
    for (const bool random_access : {true, false}) {
      TFRecordSource with = source;
      with.random_access = random_access;
      const Dataset rows =
          Dataset::FromTFRecords({Stored("examples.tfrecord"), Stored(second)}, with);
      EXPECT_EQ(Column(rows.Batch(3), 1), twice);
      EXPECT_THAT(Column(rows.Skip(6).Take(1), 0), ElementsAre(1, 1.25, 1.5, 1.75, 2, 2.25));
      EXPECT_EQ(Column(rows.Skip(9), 1), std::vector<double>({labels[4]}));
      const bool is_indexed = random_access && second == std::string("examples.tfrecord");
      EXPECT_EQ(rows.size(), is_indexed ? std::make_optional<int64_t>(10) : std::nullopt);
      if (!is_indexed) continue;
      std::vector<double> shuffled = Column(rows.Shuffle(3).Batch(4), 1);
      EXPECT_NE(shuffled, twice);
      std::sort(shuffled.begin(), shuffled.end());
      std::vector<double> sorted = twice;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(shuffled, sorted);
    }
  }
}

TEST(FromTFRecordsTest, ErrorsNameFileRecordAndFeature) {
  const TFRecordSource source = {.features = {FixedLenFeature{.name = "label", .dtype = DT_INT64}}};
  for (const bool random_access : {true, false}) {
    TFRecordSource with = source;
    with.random_access = random_access;
    const Dataset rows = Dataset::FromTFRecords({Stored("examples.tfrecord")}, with);
    EXPECT_THAT(ErrorOf(rows), IsError(kDamaged, "examples.tfrecord: record 3", "feature 'label'"));
    EXPECT_EQ(Column(rows.IgnoreErrors(1), 0).size(), 4u);
  }
  EXPECT_THAT(Dataset::FromTFRecords({"/no/such.tfrecord"}, source).status(),
              IsError(absl::StatusCode::kNotFound, "/no/such.tfrecord", "No such file"));
  EXPECT_THAT(ErrorOf(Dataset::FromTFRecords({}, source)), IsError(kInvalid, "one file"));
  const std::string cut = WriteTemporary("cut.tfrecord", "\1\2\3 and 9 more bytes");
  EXPECT_THAT(ErrorOf(Dataset::FromTFRecords({cut}, {})),
              IsError(kDamaged, "cut.tfrecord: record 0", "expected"));
}

TEST(FromTFRecordsTest, WithoutFeaturesRowsAreRecordBytes) {
  const Dataset rows = Dataset::FromTFRecords({Stored("examples.tfrecord")}, {});
  EXPECT_EQ(rows.size(), 5);
  EXPECT_GT(Column(rows.Take(1), 0).size(), 20u);
}

// Creates a folder with two classes and three images.
std::string MakeImageFolder(const std::string& name) {
  const std::filesystem::path root = TemporaryPath(name);
  std::filesystem::remove_all(root);
  for (const auto& [from, to] :
       std::map<std::string, std::string>{{"rgb.png", "roses/b.PNG"},
                                          {"rgb_444.jpg", "roses/more/a.jpg"},
                                          {"grey.png", "daisies/c.png"}}) {
    std::filesystem::create_directories((root / to).parent_path());
    std::filesystem::copy_file(Stored(from), root / to);
  }
  std::ofstream(root / "daisies/readme.txt") << "no image";
  return root.string();
}

TEST(FromImageFolderTest, LabelsAreTheIndicesOfTheSortedFolders) {
  const std::string folder = MakeImageFolder("flowers");
  const auto files = ListImageFolder(folder);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->classes, ElementsAre("daisies", "roses"));
  EXPECT_THAT(files->paths, ElementsAre(EndsWith("daisies/c.png"), EndsWith("roses/b.PNG"),
                                        EndsWith("roses/more/a.jpg")));
  const Dataset rows = Dataset::FromImageFolder(folder, {.height = 8, .width = 9});
  EXPECT_THAT(Column(rows, 1), ElementsAre(0, 1, 1));
  const auto iterator = rows.Shuffle(1).Batch(3).MakeIterator();
  SourceBatch batch;
  const auto more = iterator->Next(&batch);
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ(batch.components[0].TypeString(), "uint8[3,8,9,3]");
  EXPECT_THAT(Column(Dataset::FromImageFolder(
                         folder, {.height = 1, .width = 1, .classes = {"roses", "daisies"}}),
                     1),
              ElementsAre(0, 0, 1));
  EXPECT_EQ(Column(Dataset::FromImageFolder(folder, {.channels = 1}).Take(1), 0).size(), 19u * 23u);
}

TEST(FromImageFolderTest, HiddenFilesAndFoldersAreIgnored) {
  const std::string folder = MakeImageFolder("hidden");
  const auto want = ListImageFolder(folder);
  ASSERT_TRUE(want.ok()) << want.status();
  for (const char* const name :
       {".ipynb_checkpoints/c-checkpoint.png", ".git/x.png", "__MACOSX/daisies/._c.png",
        "@eaDir/c.png", "daisies/._c.png", "daisies/.c.png", "roses/@eaDir/a.jpg/thumb.jpg",
        "roses/more/.ipynb_checkpoints/a-checkpoint.jpg", "$RECYCLE.BIN/x.png", "#recycle/x.png",
        "lost+found/x.png"}) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::copy_file(Stored("rgb.png"), path);
  }
  for (const char* const name :
       {".DS_Store", "Thumbs.db", "daisies/.DS_Store", "daisies/Thumbs.db", "roses/desktop.ini"}) {
    std::ofstream(std::filesystem::path(folder) / name) << "not an image";
  }
  const auto files = ListImageFolder(folder);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->classes, want->classes);
  EXPECT_EQ(files->paths, want->paths);
  EXPECT_EQ(files->labels, want->labels);
  EXPECT_THAT(Column(Dataset::FromImageFolder(folder, {.height = 1, .width = 1}), 1),
              ElementsAre(0, 1, 1));
  // A hidden folder is a class if the caller names it.
  EXPECT_THAT(ListImageFolder(folder, {".git"})->labels, ElementsAre(0));
}

TEST(FromImageFolderTest, FolderWithoutImagesIsRejectedUnlessClassesAreNamed) {
  const std::string folder = MakeImageFolder("empty_class");
  std::filesystem::create_directories(folder + "/asters");
  EXPECT_THAT(ErrorOf(Dataset::FromImageFolder(folder, {})),
              IsError(kInvalid, "empty_class: ", "'asters'"));
  const auto named = ListImageFolder(folder, {"asters", "daisies", "roses"});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(named->labels, ElementsAre(1, 2, 2));
}

TEST(FromImageFolderTest, ImagesOfOtherFormatsAreReported) {
  const std::string folder = MakeImageFolder("other_formats");
  std::ofstream(folder + "/roses/x.webp") << "image";
  testing::internal::CaptureStderr();
  EXPECT_TRUE(ListImageFolder(folder).ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("WARNING: "), HasSubstr("x.webp")));
}

TEST(FromImageFolderTest, BrokenLinksAreErrors) {
  namespace fs = std::filesystem;
  const std::string folder = MakeImageFolder("broken_links");
  const auto error = [&] { return ErrorOf(Dataset::FromImageFolder(folder, {})); };
  // A link to an existing image counts as an image. A broken link to a file of another type is
  // ignored.
  fs::create_symlink("b.PNG", folder + "/roses/c.png");
  fs::create_symlink("missing", folder + "/roses/readme.txt");
  fs::create_symlink("missing", folder + "/README.md");
  ASSERT_TRUE(ListImageFolder(folder).ok()) << ListImageFolder(folder).status();
  EXPECT_EQ(ListImageFolder(folder)->paths.size(), 4u);

  fs::create_symlink("../.git/annex/objects/xx", folder + "/roses/more/2.png");
  fs::create_symlink("../.git/annex/objects/yy", folder + "/roses/more/1.jpg");
  EXPECT_EQ(ListImageFolder(folder).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(error(), IsError(kNotFound, "2 broken links", "git annex get",
                               "roses/more/1.jpg -> ../.git/annex/objects/yy"));
  EXPECT_THAT(ErrorOf(Dataset::FromImageFolder(folder, {.classes = {"roses"}})),
              IsError(kNotFound, "2 broken links"));
  EXPECT_TRUE(ListImageFolder(folder, {"daisies"}).ok());
  fs::remove(folder + "/roses/more/1.jpg");
  fs::remove(folder + "/roses/more/2.png");

  fs::create_symlink("loop.png", folder + "/roses/loop.png");
  EXPECT_THAT(error(), IsError(kNotFound, "1 broken link; "));
  fs::remove(folder + "/roses/loop.png");
  // These links stand for a class, or a part of one, on a disk that is not mounted.
  for (const char* const link : {"/tulips", "/roses/some"}) {
    fs::create_symlink("/no/such/disk", folder + link);
    EXPECT_THAT(error(), IsError(kNotFound, absl::StrCat(link, " -> /no/such/disk")));
    fs::remove(folder + link);
  }
}

TEST(FromImageFolderTest, PipesDevicesAndFoldersNamedLikeImagesAreReported) {
  namespace fs = std::filesystem;
  const std::string folder = MakeImageFolder("not_files");
  ASSERT_EQ(mkfifo((folder + "/roses/pipe.png").c_str(), 0600), 0);
  fs::create_symlink("/dev/null", folder + "/roses/device.png");
  fs::create_directory(folder + "/roses/folder.jpg");
  fs::rename(folder + "/roses/more",
             folder + "/roses/more.png");  // the image in this folder is still read
  fs::create_directory_symlink(folder + "/daisies", folder + "/roses/link");
  testing::internal::CaptureStderr();
  const auto files = ListImageFolder(folder);
  const std::string printed = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->paths.size(), 3u);
  EXPECT_THAT(printed, HasSubstr(" 3 entries "));
  EXPECT_THAT(printed, HasSubstr("roses/device.png\n"));
  EXPECT_THAT(printed, HasSubstr(" 1 links "));
  EXPECT_THAT(printed, HasSubstr("roses/link\n"));
}

TEST(FromImageFolderTest, BadFoldersAndFilesAreErrors) {
  const std::string folder = MakeImageFolder("bad");
  EXPECT_THAT(Dataset::FromImageFolder("/no/such", {}).status(),
              IsError(absl::StatusCode::kNotFound, "/no/such", "No such file"));
  EXPECT_THAT(Dataset::FromImageFolder(folder, {.classes = {"tulips"}}).status(),
              IsError(absl::StatusCode::kNotFound, folder, "tulips"));
  EXPECT_THAT(ErrorOf(Dataset::FromImageFolder(folder + "/daisies", {})),
              IsError(kInvalid, "got no folder"));
  EXPECT_THAT(ErrorOf(Dataset::FromImageFolder(folder, {.height = 3})),
              IsError(kInvalid, "or neither"));
  std::ofstream(folder + "/roses/b.PNG") << "damaged";
  const Dataset rows = Dataset::FromImageFolder(folder, {.height = 8, .width = 8});
  EXPECT_THAT(ErrorOf(rows), IsError(kInvalid, "row 1", "roses/b.PNG"));
  testing::internal::CaptureStderr();
  EXPECT_THAT(Column(rows.IgnoreErrors(1), 1), ElementsAre(0, 1));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("skipped 1 "));
}

}  // namespace
}  // namespace mirrorflow
