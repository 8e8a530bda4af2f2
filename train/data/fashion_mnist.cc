// SPDX-License-Identifier: Apache-2.0
#include "train/data/fashion_mnist.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "train/formats/idx.h"

namespace mirrorflow {
namespace {

constexpr absl::string_view kDebianDirectory = "/usr/share/datasets/fashion-mnist";
constexpr absl::string_view kRemedy =
    "; install the Debian package dataset-fashion-mnist, or set data_dir or FASHION_MNIST_DIR to "
    "the directory";

// Returns whether the path does not exist. A path that exists but cannot be read causes a different
// error.
bool Missing(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

std::string DirectoryOf(const FashionMnist::Options& options) {
  if (!options.data_dir.empty()) return options.data_dir;
  const char* variable = std::getenv("FASHION_MNIST_DIR");
  return std::string(variable != nullptr && *variable != '\0' ? absl::string_view(variable)
                                                              : kDebianDirectory);
}

struct IdxFile {
  std::string path;
  Tensor tensor;
};

// Reads `name` in `directory`, with or without the suffix .gz. Its elements must be uint8.
absl::StatusOr<IdxFile> ReadFile(const std::string& directory, absl::string_view name) {
  std::string path = absl::StrCat(directory, "/", name);
  if (Missing(path)) path += ".gz";
  if (Missing(path)) {
    return absl::NotFoundError(absl::StrCat(
        directory, Missing(directory) ? ": no such directory" : ": a Fashion-MNIST file is missing",
        "; expected ", name, " or ", name, ".gz, got neither", kRemedy));
  }
  MF_ASSIGN_OR_RETURN(Tensor tensor, ReadIdx(path));
  if (tensor.dtype() != DT_UINT8) {
    return absl::DataLossError(absl::StrCat(path, ": wrong element type; expected uint8, got ",
                                            DataTypeName(tensor.dtype())));
  }
  return IdxFile{std::move(path), std::move(tensor)};
}

absl::StatusOr<Tensor> ImagesOf(const IdxFile& file, bool shape_images) {
  constexpr int kSize = FashionMnist::kImageSize;
  const Shape& shape = file.tensor.shape();
  if (shape.rank() != 3 || shape.dim(1) != kSize || shape.dim(2) != kSize) {
    return absl::DataLossError(absl::StrCat(file.path, ": wrong image size; expected [N,", kSize,
                                            ",", kSize, "], got ", shape.ToString()));
  }
  const int64_t n = shape.dim(0);
  MF_ASSIGN_OR_RETURN(Tensor images,
                      Tensor::Allocate(DT_FLOAT, shape_images ? Shape({n, kSize, kSize, 1})
                                                              : Shape({n, kSize * kSize})));
  std::array<float, 256> scaled;
  for (int i = 0; i < 256; ++i) scaled[i] = i / 255.0f;
  const absl::Span<const uint8_t> pixels = file.tensor.flat<uint8_t>();
  float* out = images.data<float>();
  for (uint8_t pixel : pixels) *out++ = scaled[pixel];
  return images;
}

absl::StatusOr<Tensor> LabelsOf(const IdxFile& file) {
  const Shape& shape = file.tensor.shape();
  if (shape.rank() != 1) {
    return absl::DataLossError(
        absl::StrCat(file.path, ": wrong label shape; expected [N], got ", shape.ToString()));
  }
  if (shape.dim(0) == 0) {
    return absl::DataLossError(
        absl::StrCat(file.path, ": no labels; expected at least one label, got none"));
  }
  MF_ASSIGN_OR_RETURN(Tensor labels, Tensor::Allocate(DT_INT32, shape));
  const absl::Span<const uint8_t> from = file.tensor.flat<uint8_t>();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] >= FashionMnist::kNumClasses) {
      return absl::DataLossError(absl::StrCat(file.path, ": label ", i,
                                              " is out of range; expected 0 to ",
                                              FashionMnist::kNumClasses - 1, ", got ", from[i]));
    }
    labels.data<int32_t>()[i] = from[i];
  }
  return labels;
}

}  // namespace

absl::StatusOr<Dataset> FashionMnist::Open(const Options& options) {
  const std::string directory = DirectoryOf(options);
  const absl::string_view prefix = options.split == Split::kTrain ? "train" : "t10k";
  // Read the labels first: their file is small, and reading it reveals most mistakes.
  MF_ASSIGN_OR_RETURN(const IdxFile label_file,
                      ReadFile(directory, absl::StrCat(prefix, "-labels-idx1-ubyte")));
  MF_ASSIGN_OR_RETURN(Tensor labels, LabelsOf(label_file));
  MF_ASSIGN_OR_RETURN(const IdxFile image_file,
                      ReadFile(directory, absl::StrCat(prefix, "-images-idx3-ubyte")));
  MF_ASSIGN_OR_RETURN(Tensor images, ImagesOf(image_file, options.shape_images));
  if (images.shape().dim(0) != labels.shape().dim(0)) {
    return absl::DataLossError(absl::StrCat(
        image_file.path, ": image count differs from the label count; expected ",
        labels.shape().dim(0), " as in ", label_file.path, ", got ", images.shape().dim(0)));
  }
  return Dataset::FromTensors({std::move(images), std::move(labels)});
}

}  // namespace mirrorflow
