// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/file.h"
#include "framework/core/file_kind.h"
#include "framework/core/log.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "train/data/image_ops.h"
#include "train/data/sources.h"
#include "train/formats/image.h"

namespace mirrorflow {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> ReadBytes(const std::string& path) {
  MF_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  MF_RETURN_IF_ERROR(Buffer::CheckAvailable(file.size()));
  std::string bytes(file.size(), '\0');
  MF_RETURN_IF_ERROR(file.Read(0, bytes.size(), bytes.data()));
  return bytes;
}

FileReader ImageFile() {
  static constexpr FileKind kKinds[] = {FileKind::kPng, FileKind::kJpeg};
  return {"a PNG or JPEG image", FileReader::Use::kData, kKinds};
}

bool HasExtension(const fs::path& path, std::initializer_list<absl::string_view> extensions) {
  const std::string own = absl::AsciiStrToLower(path.extension().string());
  return std::find(extensions.begin(), extensions.end(), own) != extensions.end();
}

bool IsImage(const fs::path& path) { return HasExtension(path, {".png", ".jpg", ".jpeg"}); }

bool IsOtherImage(const fs::path& path) {
  return HasExtension(
      path, {".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", ".heic", ".avif"});
}

// Returns whether programs create entries of this name next to a user's files. .git,
// .ipynb_checkpoints, .DS_Store and ._x.jpg begin with a dot. The other names are folders that
// macOS zip archives, NAS servers, Windows and ext4 create.
bool IsHidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return absl::StartsWith(name, ".") || name == "__MACOSX" || name == "@eaDir" ||
         name == "#recycle" || name == "$RECYCLE.BIN" || name == "System Volume Information" ||
         name == "lost+found";
}

absl::Status ErrorOf(const std::string& path, const std::error_code& error) {
  return absl::ErrnoToStatus(error.value(), absl::StrCat(path, ": cannot be listed"));
}

// The entries that are skipped when the folders are listed.
struct LeftOut {
  std::vector<std::string> broken_links;   // may have pointed to images
  std::vector<std::string> other_formats;  // images other than PNG and JPEG
  std::vector<std::string> not_files;      // named like images, but not files
  std::vector<std::string> linked_folders;
};

// Returns whether the entry is a link whose target does not exist or is inaccessible.
bool IsBroken(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_symlink(error) && !fs::exists(entry.status(error));
}

absl::StatusOr<std::vector<std::string>> ListClasses(const std::string& directory,
                                                     LeftOut* left_out) {
  std::vector<std::string> classes;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (IsHidden(it->path())) continue;
    // A broken link is assumed to be a class folder if its name has no extension.
    if (IsBroken(*it) && !it->path().has_extension()) {
      left_out->broken_links.push_back(it->path().string());
    }
    if (it->is_directory(error)) classes.push_back(it->path().filename().string());
  }
  if (error) return ErrorOf(directory, error);
  std::sort(classes.begin(), classes.end());
  return classes;
}

// Returns the images in and below a folder, in alphabetical order.
absl::StatusOr<std::vector<std::string>> ListImages(const fs::path& folder, LeftOut* left_out) {
  std::vector<std::string> paths;
  std::vector<std::string> named_folders;  // folders named like images
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const fs::path& path = it->path();
    if (IsHidden(path)) {
      it.disable_recursion_pending();
      continue;
    }
    const bool has_name = IsImage(path) || IsOtherImage(path);
    if (IsBroken(*it) && !IsOtherImage(path)) {
      // A link without an extension may have pointed to a folder of images.
      if (has_name || !path.has_extension()) left_out->broken_links.push_back(path.string());
    } else if (it->is_directory(error)) {
      if (it->is_symlink(error)) {
        left_out->linked_folders.push_back(path.string());
      } else if (has_name) {
        named_folders.push_back(path.string());
      }
    } else if (has_name) {
      (IsOtherImage(path)           ? left_out->other_formats
       : it->is_regular_file(error) ? paths
                                    : left_out->not_files)
          .push_back(path.string());
    }
  }
  if (error) return ErrorOf(folder.string(), error);
  std::sort(paths.begin(), paths.end());
  for (std::string& named : named_folders) {
    const std::string prefix = absl::StrCat(named, "/");
    const auto inside = std::lower_bound(paths.begin(), paths.end(), prefix);
    const bool has_images = inside != paths.end() && absl::StartsWith(*inside, prefix);
    if (!has_images) left_out->not_files.push_back(std::move(named));
  }
  return paths;
}

// Returns an error if there are broken links: without their images, the classes would have fewer
// rows than the user expects.
absl::Status CheckLinks(const std::string& directory, const std::vector<std::string>& broken) {
  if (broken.empty()) return absl::OkStatus();
  const std::string& first = *std::min_element(broken.begin(), broken.end());
  std::error_code error;
  const std::string target = fs::read_symlink(first, error).string();
  return absl::NotFoundError(absl::StrCat(
      directory, ": ", broken.size(), " broken link", broken.size() == 1 ? "" : "s",
      "; fetch the images (git annex get, dvc pull) or delete the links; expected images, got ",
      Printable(first), " -> ", Printable(target)));
}

void WarnOfLeftOut(const std::string& directory, absl::string_view what,
                   const std::vector<std::string>& paths) {
  if (paths.empty()) return;
  const std::string& first = *std::min_element(paths.begin(), paths.end());
  LogWarning(absl::StrCat(directory, ": skipped ", paths.size(), " ", what, ", such as ",
                          Printable(first)));
}

absl::StatusOr<ImageFolderFiles> List(const std::string& directory,
                                      const std::vector<std::string>& classes) {
  ImageFolderFiles files;
  files.classes = classes;
  LeftOut left_out;
  if (classes.empty()) {
    MF_ASSIGN_OR_RETURN(files.classes, ListClasses(directory, &left_out));
  }
  std::string empty;  // the first class without images
  for (size_t label = 0; label < files.classes.size(); ++label) {
    const std::string& name = files.classes[label];
    MF_ASSIGN_OR_RETURN(std::vector<std::string> paths,
                        ListImages(fs::path(directory) / name, &left_out));
    if (paths.empty() && empty.empty()) empty = name;
    files.labels.insert(files.labels.end(), paths.size(), static_cast<int32_t>(label));
    std::move(paths.begin(), paths.end(), std::back_inserter(files.paths));
  }
  MF_RETURN_IF_ERROR(CheckLinks(directory, left_out.broken_links));
  const std::vector<std::string>& others = left_out.other_formats;
  const std::string got_others =
      others.empty() ? "" : absl::StrCat(", only files such as ", Printable(others[0]));
  if (files.paths.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        directory, ": expected one folder per class with .png or .jpg files, got ",
        files.classes.empty() ? "no folders" : "no images in its folders", got_others));
  }
  if (!empty.empty() && classes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        directory, ": a class has no images; add .png or .jpg files, or list only ",
        "the other classes in ImageFolderSource::classes; expected images, got none in '",
        Printable(empty), "'", got_others));
  }
  WarnOfLeftOut(directory, "images that are not PNG or JPEG", others);
  WarnOfLeftOut(directory, "entries that are named like images but are not files",
                left_out.not_files);
  WarnOfLeftOut(directory, "links to folders, which are not followed", left_out.linked_folders);
  return files;
}

}  // namespace

absl::StatusOr<ImageFolderFiles> ListImageFolder(const std::string& directory,
                                                 const std::vector<std::string>& classes) {
  return ExplainFile(List(directory, classes), directory,
                     {"a folder of images", FileReader::Use::kData, {}});
}

namespace {

absl::StatusOr<ImageFolderFiles> OpenImageFolder(const std::string& directory,
                                                 const ImageFolderSource& source) {
  if (source.height < 0 || source.width < 0 || (source.height == 0) != (source.width == 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("FromImageFolder(): expected a height and a width of at least 1, or neither, ",
                     "got ", source.height, " and ", source.width));
  }
  return ListImageFolder(directory, source.classes);
}

// Returns the paths relative to the directory.
std::vector<std::string> NamesBelow(const fs::path& directory,
                                    const std::vector<std::string>& paths) {
  const size_t prefix = (directory / "").string().size();
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const std::string& path : paths) names.push_back(path.substr(std::min(prefix, path.size())));
  return names;
}

Dataset ReadImages(ImageFolderFiles files, const ImageFolderSource& source) {
  const auto shared = std::make_shared<const ImageFolderFiles>(std::move(files));
  const auto rows = static_cast<int64_t>(shared->paths.size());
  return Dataset::FromRandomAccess(rows, [shared, source](int64_t i, Row* row) -> absl::Status {
    const std::string& path = shared->paths[i];
    MF_ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(path));
    absl::StatusOr<Tensor> image = DecodeImage(
        bytes, {.channels = source.channels, .ignore_orientation = source.ignore_orientation});
    if (image.ok() && source.height > 0) {
      image = images::Resize(*image, source.height, source.width);
    }
    if (!image.ok()) return ExplainFile(Annotate(image.status(), path), path, ImageFile());
    *row = {*std::move(image), Tensor::Scalar<int32_t>(shared->labels[i])};
    return absl::OkStatus();
  });
}

}  // namespace

Dataset Dataset::FromImageFolder(const std::string& directory, const ImageFolderSource& source) {
  absl::StatusOr<ImageFolderFiles> files = OpenImageFolder(directory, source);
  if (!files.ok()) return OrError(files.status());
  const std::vector<std::string> names = NamesBelow(directory, files->paths);
  return ReadImages(*std::move(files), source).ReadFromNames(names);
}

}  // namespace mirrorflow
