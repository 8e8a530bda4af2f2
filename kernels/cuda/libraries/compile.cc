// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/compile.h"

#include <nvrtc.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/core/file.h"
#include "framework/core/log.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/graph/sharding.h"
#include "kernels/cuda/code/code_files.h"
#include "kernels/cuda/device/cuda_status.h"

namespace mirrorflow {
namespace {

std::atomic<int64_t> num_compilations{0};

// Returns the architecture to compile for, for example `sm_90` if all GPUs have compute capability
// 9.0. If their compute capabilities differ, returns the lowest, for example `compute_80`, and the
// driver compiles the code further for each GPU.
absl::StatusOr<std::string> ArchOfThisMachine() {
  int num_gpus = 0;
  MF_RETURN_IF_CUDA_ERROR(cudaGetDeviceCount(&num_gpus));
  int lowest = 0, highest = 0;
  for (int gpu = 0; gpu < num_gpus; ++gpu) {
    int major = 0, minor = 0;
    MF_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu));
    MF_RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu));
    const int capability = 10 * major + minor;
    lowest = gpu == 0 ? capability : std::min(lowest, capability);
    highest = std::max(highest, capability);
  }
  return absl::StrCat(lowest == highest ? "sm_" : "compute_", lowest);
}

absl::Status NvrtcStatus(nvrtcResult result, absl::string_view call) {
  if (result == NVRTC_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", nvrtcGetErrorString(result)));
}

std::vector<std::string> OptionsFor(const std::string& arch) {
  return {absl::StrCat("--gpu-architecture=", arch),
          absl::StrCat("-DMF_MAX_AXES=", kMaxAxes),
          "--std=c++17",
          "-default-device",
          "--disable-warnings",
          "--split-compile=0"};  // compiles functions in parallel, on all cores
}

class NvrtcProgram {
 public:
  ~NvrtcProgram() {
    if (program_ != nullptr) nvrtcDestroyProgram(&program_);
  }
  absl::StatusOr<std::string> Compile(const std::string& source, const std::string& arch) {
    std::vector<const char*> texts, names;
    for (const CodeFile& file : CudaCodeFiles()) {
      names.push_back(file.name);
      texts.push_back(file.text);
    }
    MF_RETURN_IF_ERROR(
        NvrtcStatus(nvrtcCreateProgram(&program_, source.c_str(), "plan.cu",
                                       static_cast<int>(names.size()), texts.data(), names.data()),
                    "nvrtcCreateProgram"));
    const std::vector<std::string> options = OptionsFor(arch);
    std::vector<const char*> option_texts;
    for (const std::string& option : options) option_texts.push_back(option.c_str());
    const nvrtcResult result =
        nvrtcCompileProgram(program_, static_cast<int>(option_texts.size()), option_texts.data());
    if (result != NVRTC_SUCCESS) {
      return absl::InternalError(absl::StrCat("NVRTC failed to compile the plan's kernels: ",
                                              nvrtcGetErrorString(result), "\n", Log()));
    }
    ++num_compilations;
    const bool is_binary = arch[0] == 's';  // `sm_90`
    const auto get_size = is_binary ? nvrtcGetCUBINSize : nvrtcGetPTXSize;
    const auto get = is_binary ? nvrtcGetCUBIN : nvrtcGetPTX;
    const std::string what = is_binary ? "nvrtcGetCUBIN" : "nvrtcGetPTX";
    size_t size = 0;
    MF_RETURN_IF_ERROR(NvrtcStatus(get_size(program_, &size), what + "Size"));
    std::string code(size, '\0');
    MF_RETURN_IF_ERROR(NvrtcStatus(get(program_, code.data()), what));
    return code;
  }

 private:
  // Returns the first lines of the log, because the errors of a hundred kernels would fill many
  // screens.
  std::string Log() const {
    constexpr size_t kMaxLines = 20;
    size_t size = 0;
    if (nvrtcGetProgramLogSize(program_, &size) != NVRTC_SUCCESS || size == 0) return "";
    std::string log(size, '\0');
    if (nvrtcGetProgramLog(program_, log.data()) != NVRTC_SUCCESS) return "";
    std::vector<std::string> lines = absl::StrSplit(log.c_str(), '\n');
    if (lines.size() > kMaxLines) lines.resize(kMaxLines);
    return absl::StrJoin(lines, "\n");
  }

  nvrtcProgram program_ = nullptr;
};

// ---- The cache on disk ----
//
// The cache files are programs, and a checksum does not protect them against other users.
// Therefore this user must own the folder and the file, and no other user may have write access.

constexpr uint64_t kMaxCachedBytes = uint64_t{256} << 20;

std::string FolderOfEnvironment() {
  const char* const own = getenv("MIRRORFLOW_KERNEL_CACHE");
  if (own != nullptr) return absl::string_view(own) == "none" ? "" : own;
  if (const char* const xdg = getenv("XDG_CACHE_HOME")) {
    return absl::StrCat(xdg, "/mirrorflow/kernels");
  }
  const char* const home = getenv("HOME");
  return home != nullptr ? absl::StrCat(home, "/.cache/mirrorflow/kernels") : "";
}

// Returns the FNV-1a hash. It names the file, which also holds the whole key for comparison.
uint64_t HashOf(const std::string& key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// Returns whether `path` exists and only this user can change it.
bool IsOwn(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && info.st_uid == geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Returns the cache folder, after creating it if necessary, or an empty string if no folder can be
// used.
std::string CacheFolder() {
  std::string folder = FolderOfEnvironment();
  if (folder.empty()) return "";
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  }
  if (!error && IsOwn(folder)) return folder;
  static std::once_flag warned;
  std::call_once(warned, [&] {
    LogWarning(absl::StrCat(folder, ": compiled kernels are not cached; expected a folder that ",
                            "this user owns and that no other user can write to"));
  });
  return "";
}

std::string FileOf(const std::string& key) {
  const std::string folder = CacheFolder();
  return folder.empty() ? "" : absl::StrCat(folder, "/", absl::Hex(HashOf(key), absl::kZeroPad16));
}

// A file holds the key's length in decimal digits, a newline, the key, kDigits hexadecimal digits
// of a checksum, and the code.
constexpr size_t kDigits = 16;

std::string ReadCached(const std::string& key) {
  const std::string path = FileOf(key);
  if (path.empty()) return "";
  const absl::StatusOr<InputFile> file = InputFile::Open(path, InputFile::Links::kRefuse);
  if (!file.ok() || !IsOwn(path) || file->size() > kMaxCachedBytes) return "";
  std::string all(file->size(), '\0');
  if (!file->Read(0, all.size(), all.data()).ok()) return "";
  const std::string head = absl::StrCat(key.size(), "\n", key);
  if (all.size() < head.size() + kDigits || all.compare(0, head.size(), head) != 0) return "";
  std::string code = all.substr(head.size() + kDigits);
  // A truncated or modified file is treated as missing.
  const std::string sum = absl::StrCat(absl::Hex(HashOf(code), absl::kZeroPad16));
  return all.compare(head.size(), kDigits, sum) == 0 ? code : "";
}

// Writes a file to the cache. Readers see either the whole file or no file. A failure is harmless:
// the next process recompiles the code.
void WriteCached(const std::string& key, const std::string& code) {
  const std::string path = FileOf(key);
  if (path.empty()) return;
  const std::string length = absl::StrCat(key.size(), "\n");
  const std::string sum = absl::StrCat(absl::Hex(HashOf(code), absl::kZeroPad16));
  if (!WriteFileAtomically(path, {length, key, sum, code}).ok()) return;
  using std::filesystem::perms;
  std::error_code ignored;  // after a failure, the umask determines the permissions
  std::filesystem::permissions(path, perms::owner_read | perms::owner_write, ignored);
}

// Returns a key that contains everything that the compiled code depends on.
std::string KeyOf(const std::string& source, const std::string& arch) {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  std::string key =
      absl::StrCat("nvrtc ", major, ".", minor, " ", absl::StrJoin(OptionsFor(arch), " "), "\n");
  for (const CodeFile& file : CudaCodeFiles()) absl::StrAppend(&key, file.text);
  return absl::StrCat(key, source);
}

}  // namespace

absl::StatusOr<std::string> CompileCudaFor(const std::string& source, const std::string& arch) {
  return NvrtcProgram().Compile(source, arch);
}

CudaLibrary::~CudaLibrary() { cudaLibraryUnload(library_); }

absl::StatusOr<cudaKernel_t> CudaLibrary::Find(const std::string& name) const {
  cudaKernel_t kernel = nullptr;
  MF_RETURN_IF_CUDA_ERROR(cudaLibraryGetKernel(&kernel, library_, name.c_str()));
  return kernel;
}

namespace {

// A program that this process has compiled or is compiling. Threads that request the same program
// wait for its compilation.
struct Loaded {
  Mutex mu;
  std::weak_ptr<const CudaLibrary> library ABSL_GUARDED_BY(mu);

  bool IsExpired() {
    MutexLock lock(&mu);
    return library.expired();
  }
};

// Returns the entry for `key`. Removes the entries of programs that are no longer in use.
std::shared_ptr<Loaded> EntryOf(const std::string& key) {
  struct Table {
    Mutex mu;
    std::map<std::string, std::shared_ptr<Loaded>> loaded ABSL_GUARDED_BY(mu);
  };
  static auto* const table = new Table();
  MutexLock lock(&table->mu);
  std::erase_if(table->loaded, [](const auto& each) {
    return each.second.use_count() == 1 && each.second->IsExpired();
  });
  std::shared_ptr<Loaded>& entry = table->loaded[key];
  if (entry == nullptr) entry = std::make_shared<Loaded>();
  return entry;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaLibrary>> CompileCuda(const std::string& source) {
  MF_ASSIGN_OR_RETURN(const std::string arch, ArchOfThisMachine());
  const std::string key = KeyOf(source, arch);
  const std::shared_ptr<Loaded> entry = EntryOf(key);
  MutexLock lock(&entry->mu);
  if (auto library = entry->library.lock()) return library;
  std::string code = ReadCached(key);
  if (code.empty()) {
    MF_ASSIGN_OR_RETURN(code, CompileCudaFor(source, arch));
    WriteCached(key, code);
  }
  cudaLibrary_t handle = nullptr;
  MF_RETURN_IF_CUDA_ERROR(
      cudaLibraryLoadData(&handle, code.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  auto library = std::make_shared<const CudaLibrary>(handle);
  entry->library = library;
  return library;
}

int64_t NumCudaCompilations() { return num_compilations.load(); }

}  // namespace mirrorflow
