// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/checkpoint_contents.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/crc32c.h"
#include "framework/core/failpoint.h"
#include "framework/core/file.h"
#include "framework/core/file_kind.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "train/safetensors/safetensors_header.h"

namespace mirrorflow {
namespace {

constexpr char kVariablesFile[] = "variables.safetensors";
constexpr char kStateFile[] = "state.safetensors";
constexpr char kManifestFile[] = "manifest.json";
constexpr uint64_t kMaxHeaderBytes = sizeof(uint64_t) + kMaxSafetensorsHeaderBytes;

// Failpoints before each step of WriteFileAtomically.
class FileFailpoints {
 public:
  explicit FileFailpoints(absl::string_view prefix)
      : points_(MakePoints(prefix, std::make_index_sequence<std::size(kWriteSteps)>())) {}

  absl::Status Pass(absl::string_view step) {
    for (size_t i = 0; i < points_.size(); ++i) {
      if (step == kWriteSteps[i]) return points_[i].Pass();
    }
    return absl::OkStatus();
  }

 private:
  using Points = std::array<Failpoint, std::size(kWriteSteps)>;
  template <size_t... i>
  static Points MakePoints(absl::string_view prefix, std::index_sequence<i...>) {
    return {Failpoint(absl::StrCat(prefix, "/", kWriteSteps[i]))...};
  }

  Points points_;
};

FileFailpoints data_failpoints("checkpoint/data");
FileFailpoints manifest_failpoints("checkpoint/manifest");

absl::string_view BytesOf(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.raw()), tensor.bytes()};
}

absl::Status CheckSum(absl::string_view path, absl::string_view what, uint32_t expected,
                      uint32_t got) {
  if (expected == got) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "%s: %s: damaged; expected a checksum of %08x, got %08x", path, what, expected, got));
}

// Adds to the error what kind of file has replaced a checkpoint's file, such as a Git LFS pointer.
// The code remains DataLoss, because the checkpoint is damaged in any case.
absl::Status Replaced(const absl::Status& error, const std::string& path) {
  static constexpr FileKind kKinds[] = {FileKind::kJson, FileKind::kSafetensors, FileKind::kText};
  return absl::DataLossError(
      ExplainFile(error, path, {"a checkpoint file", FileReader::Use::kVariables, kKinds})
          .message());
}

// Opens a checkpoint file. Returns DataLoss if it is a link, a pipe or a directory.
absl::StatusOr<InputFile> OpenFile(const std::string& path) {
  absl::StatusOr<InputFile> file = InputFile::Open(path, InputFile::Links::kRefuse);
  if (absl::IsFailedPrecondition(file.status())) {
    return absl::DataLossError(file.status().message());
  }
  return file;
}

absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& path) {
  MF_ASSIGN_OR_RETURN(const InputFile file, OpenFile(path));
  if (file.size() > kMaxManifestBytes) {
    return absl::DataLossError(absl::StrCat(path, ": too large; expected at most ",
                                            kMaxManifestBytes, " bytes, got ", file.size()));
  }
  std::string text(file.size(), '\0');
  MF_RETURN_IF_ERROR(file.Read(0, text.size(), text.data()));
  absl::StatusOr<CheckpointManifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return Replaced(Annotate(manifest.status(), path), path);
  return manifest;
}

// Verifies a safetensors file's size and header, before the header is parsed. CheckTensors verifies
// the tensors.
absl::Status CheckHeader(const std::string& path, const CheckpointFile& expected) {
  MF_ASSIGN_OR_RETURN(const InputFile file, OpenFile(path));
  if (file.size() != expected.bytes) {
    const absl::Status error = absl::DataLossError(absl::StrCat(
        path, ": expected ", expected.bytes, " bytes, as in the manifest, got ", file.size()));
    return Replaced(error, path);
  }
  const uint64_t size = expected.header_bytes;
  if (size > std::min(file.size(), kMaxHeaderBytes)) {
    return absl::DataLossError(
        absl::StrCat(path, ": wrong header size in the manifest; expected at most ", file.size(),
                     " bytes, got ", size));
  }
  std::string header(size, '\0');
  MF_RETURN_IF_ERROR(file.Read(0, size, header.data()));
  return CheckSum(path, "header", expected.header_crc32c, Crc32c(header));
}

absl::Status CheckTensors(const std::string& path, const CheckpointFile& file,
                          const Safetensors& contents) {
  for (const auto& [name, expected] : file.tensors) {
    const std::string what = absl::StrCat("tensor '", Printable(name), "'");
    const auto found = contents.tensors.find(name);
    if (found == contents.tensors.end()) {
      return absl::DataLossError(
          absl::StrCat(path, ": ", what, ": missing; the manifest lists it"));
    }
    const Tensor& tensor = found->second;
    if (tensor.dtype() != expected.dtype || tensor.shape() != expected.shape) {
      return absl::DataLossError(absl::StrCat(
          path, ": ", what, ": expected ", DataTypeName(expected.dtype), expected.shape.ToString(),
          ", as in the manifest, got ", tensor.TypeString()));
    }
    MF_RETURN_IF_ERROR(CheckSum(path, what, expected.crc32c, Crc32c(BytesOf(tensor))));
  }
  for (const auto& [name, tensor] : contents.tensors) {
    if (file.tensors.contains(name)) continue;
    return absl::DataLossError(
        absl::StrCat(path, ": tensor '", Printable(name), "': not in the manifest"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Safetensors> ReadFile(const std::string& directory, const CheckpointFile& file) {
  const std::string path = absl::StrCat(directory, "/", file.name);
  MF_RETURN_IF_ERROR(CheckHeader(path, file));
  MF_ASSIGN_OR_RETURN(Safetensors contents, ReadSafetensors(path));
  MF_RETURN_IF_ERROR(CheckTensors(path, file, contents));
  return contents;
}

// Writes a safetensors file. Returns the manifest's entry for it.
absl::StatusOr<CheckpointFile> WriteFile(const std::string& directory, const char* name,
                                         const Safetensors& contents) {
  MF_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Create(contents));
  MF_RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(directory, "/", name), file.pieces(),
                          [](absl::string_view step) { return data_failpoints.Pass(step); }));
  CheckpointFile written = {.name = name,
                            .bytes = file.bytes(),
                            .header_bytes = file.header().size(),
                            .header_crc32c = Crc32c(file.header())};
  for (const auto& [name, tensor] : contents.tensors) {
    written.tensors[name] = {tensor.dtype(), tensor.shape(), Crc32c(BytesOf(tensor))};
  }
  return written;
}

// Returns whether any element has all bits of `exponent` set, which means infinity or NaN.
template <typename Bits>
bool HasExponent(const Tensor& tensor, Bits exponent) {
  const auto* const bits = reinterpret_cast<const Bits*>(tensor.raw());
  return std::any_of(bits, bits + tensor.num_elements(),
                     [exponent](Bits b) { return (b & exponent) == exponent; });
}

}  // namespace

absl::Status WriteCheckpointContents(const std::string& path, const CheckpointContents& data) {
  CheckpointManifest manifest = data.manifest;
  MF_ASSIGN_OR_RETURN(manifest.variables, WriteFile(path, kVariablesFile, data.variables));
  if (!data.state_tensors.tensors.empty()) {
    MF_ASSIGN_OR_RETURN(manifest.state_tensors, WriteFile(path, kStateFile, data.state_tensors));
  }
  const std::string text = FormatManifest(manifest);
  if (text.size() > kMaxManifestBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        path, ": the numbers and strings that callbacks save are too large; expected at most ",
        kMaxManifestBytes, " bytes for the manifest, got ", text.size(),
        "; save large values as tensors"));
  }
  return WriteFileAtomically(absl::StrCat(path, "/", kManifestFile), {text},
                             [](absl::string_view step) { return manifest_failpoints.Pass(step); });
}

absl::StatusOr<CheckpointContents> ReadCheckpointContents(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat(path, ": no such checkpoint"));
  }
  if (error) return SystemError(error.value(), absl::StrCat(path, ": cannot stat"));
  if (!std::filesystem::is_directory(status)) {
    return absl::DataLossError(absl::StrCat(path, ": not a directory"));
  }
  CheckpointContents data;
  MF_ASSIGN_OR_RETURN(data.manifest, ReadManifest(absl::StrCat(path, "/", kManifestFile)));
  MF_ASSIGN_OR_RETURN(data.variables, ReadFile(path, data.manifest.variables));
  if (!data.manifest.state_tensors.name.empty()) {
    MF_ASSIGN_OR_RETURN(data.state_tensors, ReadFile(path, data.manifest.state_tensors));
  }
  return data;
}

bool IsFinite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DT_FLOAT:
      return !HasExponent<uint32_t>(tensor, 0x7f800000);
    case DT_DOUBLE:
      return !HasExponent<uint64_t>(tensor, 0x7ff0000000000000);
    case DT_HALF:
      return !HasExponent<uint16_t>(tensor, 0x7c00);
    case DT_BFLOAT16:
      return !HasExponent<uint16_t>(tensor, 0x7f80);
    default:
      return true;
  }
}

std::vector<std::string> NonFiniteTensors(const Safetensors& contents) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : contents.tensors) {
    if (!IsFinite(tensor)) names.push_back(name);
  }
  return names;
}

}  // namespace mirrorflow
