// SPDX-License-Identifier: Apache-2.0
#include "framework/core/file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

// The largest transfer per read or write call. Linux itself transfers just under 2 GiB per call.
constexpr size_t kMaxTransfer = size_t{1} << 30;

absl::Status FileError(int error, absl::string_view path, absl::string_view what) {
  return SystemError(error, absl::StrCat(path, ": ", what));
}

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

absl::Status NotRegular(absl::string_view path, mode_t mode) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": not a regular file; expected a file, got ", KindOf(mode)));
}

absl::Status RefusedLink(absl::string_view path) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": cannot open; expected a regular file, got a symbolic link"));
}

absl::Status WriteAll(int fd, absl::string_view path, absl::string_view data) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), std::min(data.size(), kMaxTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return WriteError(n < 0 ? errno : EIO, absl::StrCat(path, ": cannot write"));
    data.remove_prefix(n);
  }
  return absl::OkStatus();
}

// Appends to a new file. Large files bypass the page cache where the file system supports it:
// copying into newly allocated cache pages takes several times as much CPU time as all the other
// work, and training competes for the CPU.
class Appender {
 public:
  // `bytes` is the final size of the file.
  Appender(int fd, absl::string_view path, uint64_t bytes) : fd_(fd), path_(path) {
    if (bytes < kBlock) return;
    block_.reset(static_cast<char*>(std::aligned_alloc(kAlignment, kBlock)));
    if (block_ != nullptr && !SetDirect(true)) block_ = nullptr;
  }

  absl::Status Append(absl::string_view data) {
    if (block_ == nullptr) return WriteAll(fd_, path_, data);
    while (!data.empty()) {
      const size_t n = std::min(data.size(), kBlock - filled_);
      std::memcpy(block_.get() + filled_, data.data(), n);
      filled_ += n;
      data.remove_prefix(n);
      if (filled_ == kBlock) MF_RETURN_IF_ERROR(WriteBlock());
    }
    return absl::OkStatus();
  }

  // Writes the bytes that are still buffered.
  absl::Status Finish() {
    if (filled_ == 0) return absl::OkStatus();
    SetDirect(false);  // the rest is not a multiple of the alignment
    return WriteAll(fd_, path_, {block_.get(), std::exchange(filled_, 0)});
  }

 private:
  static constexpr size_t kBlock = size_t{1} << 20, kAlignment = 4096;

  bool SetDirect(bool direct) {
    const int flags = fcntl(fd_, F_GETFL);
    return flags >= 0 && fcntl(fd_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
  }

  absl::Status WriteBlock() {
    absl::string_view data(block_.get(), std::exchange(filled_, 0));
    const ssize_t n = write(fd_, data.data(), data.size());
    if (n == static_cast<ssize_t>(data.size())) return absl::OkStatus();
    SetDirect(false);  // a partial write, or the disk has larger sectors
    data.remove_prefix(std::max<ssize_t>(n, 0));
    return WriteAll(fd_, path_, data);
  }

  const int fd_;
  const absl::string_view path_;
  std::unique_ptr<char, decltype(&std::free)> block_{nullptr, std::free};  // if null, no direct I/O
  size_t filled_ = 0;                                                      // bytes of block_ in use
};

// Reserves the file's disk space, to detect a full disk before anything is written.
absl::Status Reserve(int fd, absl::string_view path, uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  int error;
  do {
    error = posix_fallocate(fd, 0, bytes);
  } while (error == EINTR);
  if (error == 0 || error == EOPNOTSUPP || error == EINVAL) return absl::OkStatus();
  struct statvfs disk;
  const uint64_t free = fstatvfs(fd, &disk) == 0 ? uint64_t{disk.f_bavail} * disk.f_frsize : 0;
  return WriteError(error, absl::StrCat(path, ": cannot reserve space; needs ", bytes,
                                        " bytes, but only ", free, " are free"));
}

// The file under its temporary name. The destructor removes it unless it was renamed.
struct TemporaryFile {
  std::string path;
  int fd = -1;
  bool renamed = false;

  ~TemporaryFile() {
    if (fd >= 0) close(fd);
    if (!path.empty() && !renamed) unlink(path.c_str());
  }
};

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

// The path of a file to write, and its components.
struct Target {
  std::string path;
  std::string directory;
  std::string base;
};

absl::StatusOr<Target> TargetOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  absl::string_view directory = ".", base = path;
  if (slash != absl::string_view::npos) {
    directory = slash == 0 ? "/" : path.substr(0, slash);
    base = path.substr(slash + 1);
  }
  Target target{std::string(path), std::string(directory), std::string(base)};
  if (target.base.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": cannot write; expected the name of a file, got the name of a directory"));
  }
  struct stat info;
  // Root could rename a file over /dev/null, which would replace the device.
  if (stat(target.path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return NotRegular(path, info.st_mode);
  }
  return target;
}

absl::Status OpenTemporary(const Target& target, TemporaryFile* file) {
  // Keeps the name within the file system's limit of 255 bytes.
  const std::string prefix =
      absl::StrCat(target.directory, "/.", absl::string_view(target.base).substr(0, 200), ".");
  for (int attempt = 0; attempt < 16; ++attempt) {
    uint64_t random;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) continue;
    std::string path = absl::StrFormat("%s%016x.tmp", prefix, random);
    file->fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file->fd >= 0) {
      file->path = std::move(path);
      return absl::OkStatus();
    }
    if (errno != EEXIST && errno != EINTR) {
      return FileError(errno, target.path, "cannot create a file in its directory");
    }
  }
  return absl::UnavailableError(
      absl::StrCat(target.path, ": no free temporary name in its directory"));
}

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(absl::string_view path, Links links) {
  std::string name(path);
  // Without O_NONBLOCK, open would block on a pipe that has no writer.
  const int refusal = links == Links::kRefuse ? O_NOFOLLOW : 0;
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | refusal);
  if (fd < 0 && errno == ELOOP && refusal != 0) return RefusedLink(path);
  if (fd < 0) return FileError(errno, path, "cannot open");
  InputFile file(fd, 0, std::move(name));
  struct stat info;
  if (fstat(fd, &info) != 0) return FileError(errno, path, "cannot stat");
  if (!S_ISREG(info.st_mode)) return NotRegular(path, info.st_mode);
  file.size_ = info.st_size;
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(other.size_), path_(std::move(other.path_)) {}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status InputFile::Read(uint64_t offset, size_t size, void* out) const {
  char* to = static_cast<char*>(out);
  const uint64_t end = offset + size;
  while (size > 0) {
    const ssize_t n = pread(fd_, to, std::min(size, kMaxTransfer), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, path_, "cannot read");
    if (n == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": the file ends too early; expected ", end, " bytes, got ", offset));
    }
    to += n;
    offset += n;
    size -= n;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWholeFile(absl::string_view path, uint64_t max_bytes) {
  MF_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": too large; expected at most ",
                                                     max_bytes, " bytes, got ", file.size()));
  }
  std::string contents(file.size(), '\0');
  MF_RETURN_IF_ERROR(file.Read(0, contents.size(), contents.data()));
  return contents;
}

absl::Status WriteFileAtomically(absl::string_view path, absl::Span<const absl::string_view> pieces,
                                 absl::FunctionRef<absl::Status(absl::string_view)> before_call) {
  MF_ASSIGN_OR_RETURN(const Target target, TargetOf(path));
  Descriptor parent{open(target.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (parent.fd < 0) return FileError(errno, path, "cannot open its directory");
  uint64_t bytes = 0;
  for (absl::string_view piece : pieces) bytes += piece.size();

  MF_RETURN_IF_ERROR(before_call("open"));
  TemporaryFile file;
  MF_RETURN_IF_ERROR(OpenTemporary(target, &file));
  MF_RETURN_IF_ERROR(before_call("reserve"));
  MF_RETURN_IF_ERROR(Reserve(file.fd, path, bytes));
  Appender appender(file.fd, path, bytes);
  for (absl::string_view piece : pieces) {
    MF_RETURN_IF_ERROR(before_call("write"));
    MF_RETURN_IF_ERROR(appender.Append(piece));
  }
  MF_RETURN_IF_ERROR(appender.Finish());
  MF_RETURN_IF_ERROR(before_call("fsync"));
  // Never retried: after an error, the kernel may have dropped the pages and marked them clean.
  if (fsync(file.fd) != 0) return FileError(errno, path, "cannot fsync");
  MF_RETURN_IF_ERROR(before_call("close"));
  if (close(std::exchange(file.fd, -1)) != 0) return FileError(errno, path, "cannot close");
  MF_RETURN_IF_ERROR(before_call("rename"));
  if (rename(file.path.c_str(), target.path.c_str()) != 0) {
    return FileError(errno, path, "cannot rename the finished file");
  }
  file.renamed = true;
  MF_RETURN_IF_ERROR(before_call("fsync_directory"));
  // Ignores EINVAL: on some file systems, directories cannot be synced.
  if (fsync(parent.fd) != 0 && errno != EINVAL) {
    return FileError(errno, path, "cannot fsync its directory");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> OpenForAppending(absl::string_view path, const AppendOptions& options) {
  const std::string name(path);
  const bool is_new = options.existing == ExistingFile::kRefuse;
  const bool follow = options.links == InputFile::Links::kFollow;
  // Without O_NONBLOCK, open would block on a pipe that has no reader. O_TRUNC is not used because
  // it would empty a file before the checks below can reject it.
  Descriptor file{open(name.c_str(),
                       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK |
                           (is_new ? O_EXCL : 0) | (follow ? 0 : O_NOFOLLOW),
                       options.mode)};
  if (file.fd < 0 && errno == ELOOP && !follow) return RefusedLink(path);
  if (file.fd < 0 && errno == ENXIO) {
    struct stat found;  // a pipe without a reader, or a socket
    if (stat(name.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
      return NotRegular(path, found.st_mode);
    }
    return FileError(ENXIO, path, "cannot open");
  }
  if (file.fd < 0) return FileError(errno, path, errno == ENOENT ? "cannot create" : "cannot open");
  struct stat info;
  if (fstat(file.fd, &info) != 0) return FileError(errno, path, "cannot stat");
  if (!S_ISREG(info.st_mode)) return NotRegular(path, info.st_mode);
  if (options.existing == ExistingFile::kReplace && ftruncate(file.fd, 0) != 0) {
    return WriteError(errno, absl::StrCat(path, ": cannot truncate"));
  }
  return std::exchange(file.fd, -1);
}

absl::Status AppendTo(int fd, absl::string_view path, absl::string_view data) {
  return WriteAll(fd, path, data);
}

absl::Status CheckWritable(absl::string_view path) {
  MF_ASSIGN_OR_RETURN(const Target target, TargetOf(path));
  TemporaryFile file;
  return OpenTemporary(target, &file);
}

absl::StatusOr<int> OpenLauncherFile(absl::string_view path) {
  const bool is_descriptor = absl::StartsWith(path, "/proc/") && !absl::StrContains(path, "/../");
  using Links = InputFile::Links;
  return OpenForAppending(path, {.existing = ExistingFile::kReplace,
                                 .links = is_descriptor ? Links::kFollow : Links::kRefuse});
}

}  // namespace mirrorflow
