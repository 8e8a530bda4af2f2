// SPDX-License-Identifier: Apache-2.0
//
// However a checkpoint is damaged, reading it fails rather than returning different contents.
#include "train/checkpoint/checkpoint_contents.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/core/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr absl::StatusCode kDamaged = absl::StatusCode::kDataLoss;

class CheckpointContentsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
    contents_.tensors["weights"] = Tensor::Vector<float>({1, 2, 3});
    contents_.tensors["count"] = Tensor::Vector<int64_t>({4});
    contents_.metadata["mirrorflow.step"] = "7";
    CheckpointContents data = {.variables = contents_};
    data.manifest.step = 7;
    ASSERT_EQ(WriteCheckpointContents(path_, data), absl::OkStatus());
  }
  std::string Path(const char* name) const { return absl::StrCat(path_, "/", name); }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void Write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  absl::Status ErrorOfReading() const { return ReadCheckpointContents(path_).status(); }

  const std::string path_ = TemporaryPath("step-000000007");
  Safetensors contents_;
};

TEST(NonFiniteTensorsTest, TensorsWithInfinityOrNanAreNamed) {
  const auto reduced = [](DataType dtype, uint16_t bits) {
    Tensor tensor = *Tensor::Allocate(dtype, {2});
    reinterpret_cast<uint16_t*>(tensor.raw())[1] = bits;
    return tensor;
  };
  const float inf = std::numeric_limits<float>::infinity();
  const Safetensors contents = {{
      {"double", Tensor::Vector<double>({1, -std::numeric_limits<double>::infinity()})},
      {"float", Tensor::Vector<float>({inf, 1})},
      {"nan", Tensor::Scalar<float>(std::nanf(""))},
      {"half", reduced(DT_HALF, 0x7c00)},
      {"bfloat16", reduced(DT_BFLOAT16, 0xff80)},
      {"largest float", Tensor::Scalar<float>(std::numeric_limits<float>::max())},
      {"largest double", Tensor::Scalar<double>(std::numeric_limits<double>::max())},
      {"largest half", reduced(DT_HALF, 0x7bff)},
      {"largest bfloat16", reduced(DT_BFLOAT16, 0x7f7f)},
      {"integers", Tensor::Vector<int32_t>({0x7f800000, -1})},
      {"none", *Tensor::Allocate(DT_FLOAT, {0})},
  }};
  EXPECT_THAT(NonFiniteTensors(contents),
              testing::ElementsAre("bfloat16", "double", "float", "half", "nan"));
}

TEST_F(CheckpointContentsTest, ReadReturnsWhatWasWritten) {
  const auto data = ReadCheckpointContents(path_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->manifest.step, 7);
  EXPECT_EQ(data->variables.metadata, contents_.metadata);
  ASSERT_EQ(data->variables.tensors.size(), 2u);
  EXPECT_EQ(data->variables.tensors.at("weights").flat<float>()[2], 3);
}

// A checkpoint that is reported as damaged is removed, but this one may be intact.
TEST_F(CheckpointContentsTest, CheckpointThatCannotBeExaminedIsNotReportedAsDamaged) {
  const std::string path = Path(std::string(300, 'x').c_str());  // longer than any valid file name
  EXPECT_THAT(ReadCheckpointContents(path).status(),
              IsError(absl::StatusCode::kInvalidArgument, path, "too long"));
}

// A manifest that is larger than kMaxManifestBytes could not be read back.
TEST_F(CheckpointContentsTest, TooLargeManifestIsNotWritten) {
  CheckpointContents data = {.variables = contents_};
  data.manifest.state["text"] = std::string(kMaxManifestBytes, 'x');
  EXPECT_THAT(WriteCheckpointContents(path_, data),
              IsError(absl::StatusCode::kResourceExhausted, "manifest", "at most"));
}

TEST_F(CheckpointContentsTest, EveryWrongLengthIsDetected) {
  for (const char* file : {"variables.safetensors", "manifest.json"}) {
    const std::string bytes = Read(Path(file));
    for (size_t size = 0; size < bytes.size(); ++size) {
      Write(Path(file), bytes.substr(0, size));
      EXPECT_THAT(ErrorOfReading(), IsError(kDamaged, Path(file))) << size;
    }
    Write(Path(file), bytes + '\0');
    EXPECT_THAT(ErrorOfReading(), IsError(kDamaged, Path(file)));
    Write(Path(file), bytes);
  }
  EXPECT_TRUE(ReadCheckpointContents(path_).ok());
}

TEST_F(CheckpointContentsTest, EveryFlippedBitIsDetectedAndItsTensorNamed) {
  const std::string file = Path("variables.safetensors"), bytes = Read(file);
  const size_t header = ReadCheckpointContents(path_)->manifest.variables.header_bytes;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    Write(file, flipped);
    // Tensors with 8-byte elements come first in the file.
    const char* const where = bit / 8 < header       ? "header: damaged"
                              : bit / 8 < header + 8 ? "tensor 'count': damaged"
                                                     : "tensor 'weights': damaged";
    EXPECT_THAT(ErrorOfReading(), IsError(kDamaged, where)) << bit;
  }
}

// The checksums are right, but the manifest describes another file.
TEST_F(CheckpointContentsTest, TensorsThatDifferFromTheManifestAreDetected) {
  const auto rewrite = [&](const char* from, const char* to) {
    std::string text = Read(Path("manifest.json"));
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::strlen(from), to);
    const std::string begin = "\"manifest\":";
    const size_t body = text.find(begin) + begin.size();
    const uint32_t crc = Crc32c(absl::string_view(text).substr(body, text.size() - body - 2));
    text.replace(std::strlen("{\"crc32c\":\""), 8, absl::StrCat(absl::Hex(crc, absl::kZeroPad8)));
    Write(Path("manifest.json"), text);
  };
  rewrite("\"weights\"", "\"weight\"");
  EXPECT_THAT(ErrorOfReading(), IsError(kDamaged, "tensor 'weight':", "missing"));
  rewrite("\"weight\"", "\"weights\"");
  rewrite("[3]", "[4]");
  EXPECT_THAT(ErrorOfReading(), IsError(kDamaged, "tensor 'weights':", "expected float[4]"));
  rewrite("[4]", "[3]");
  EXPECT_TRUE(ReadCheckpointContents(path_).ok());
  rewrite("variables.safetensors", "manifest.json");
  EXPECT_THAT(ErrorOfReading(), IsError(kDamaged, "manifest.json"));
}

TEST_F(CheckpointContentsTest, LinksAreRejected) {
  const std::string file = Path("variables.safetensors"), elsewhere = TemporaryPath("elsewhere");
  std::filesystem::rename(file, elsewhere);
  ASSERT_EQ(symlink(elsewhere.c_str(), file.c_str()), 0);
  EXPECT_THAT(ErrorOfReading(), IsError(kDamaged, "symbolic link"));
  std::filesystem::remove(file);
  std::filesystem::rename(elsewhere, file);
  EXPECT_TRUE(ReadCheckpointContents(path_).ok());

  const std::string link = TemporaryPath("link");
  std::filesystem::remove(link);
  std::filesystem::create_directory_symlink(path_, link);
  EXPECT_THAT(ReadCheckpointContents(link).status(), IsError(absl::StatusCode::kDataLoss, link));
}

TEST_F(CheckpointContentsTest, MissingFilesAreNamed) {
  std::filesystem::remove(Path("variables.safetensors"));
  EXPECT_THAT(ErrorOfReading(), IsError(absl::StatusCode::kNotFound, "variables.safetensors"));
  std::filesystem::remove(Path("manifest.json"));
  EXPECT_THAT(ErrorOfReading(), IsError(absl::StatusCode::kNotFound, "manifest.json"));
  std::filesystem::remove(path_);
  EXPECT_THAT(ReadCheckpointContents(path_).status(),
              IsError(absl::StatusCode::kNotFound, path_, "no such checkpoint"));
}

}  // namespace
}  // namespace mirrorflow
