// SPDX-License-Identifier: Apache-2.0
#include "framework/core/system_error.h"

#include <netdb.h>
#include <sys/resource.h>

#include <cerrno>

#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// Sets the process's soft limit on a resource to `soft` for the object's lifetime.
class Limited {
 public:
  Limited(__rlimit_resource_t resource, rlim_t soft) : resource_(resource) {
    getrlimit(resource, &before_);
    rlimit limit = before_;
    limit.rlim_cur = soft;
    setrlimit(resource, &limit);
  }
  ~Limited() { setrlimit(resource_, &before_); }

 private:
  const __rlimit_resource_t resource_;
  rlimit before_;
};

TEST(SystemErrorTest, OpenFileLimitsAreResourceErrorsThatNameTheLimit) {
  for (const auto& error : {SystemError(EMFILE, "here"), NetworkError(EMFILE, "here")}) {
    EXPECT_EQ(error, absl::ResourceExhaustedError(
                         "here: the process has reached its limit on open files (`ulimit -n`)"));
  }
  EXPECT_EQ(SystemError(ENFILE, "here"),
            absl::ResourceExhaustedError(
                "here: this host has reached its limit on open files (/proc/sys/fs/file-max)"));
}

TEST(SystemErrorTest, TooLargeFileNamesLimitOrFileSystem) {
  EXPECT_EQ(SystemError(EFBIG, "here").message(),
            "here: the file is too large for its file system");
  const Limited limited(RLIMIT_FSIZE, 1 << 20);
  EXPECT_EQ(
      SystemError(EFBIG, "here"),
      absl::ResourceExhaustedError("here: the file has reached the size limit (`ulimit -f`)"));
}

TEST(SystemErrorTest, OtherErrorsKeepTheirCode) {
  EXPECT_EQ(SystemError(ENOENT, "here"), absl::NotFoundError("here: No such file or directory"));
  EXPECT_EQ(NetworkError(ECONNREFUSED, "here"), absl::UnavailableError("here: Connection refused"));
  EXPECT_EQ(WriteError(EIO, "here"), absl::ResourceExhaustedError("here: Input/output error"));
}

TEST(SystemErrorTest, ResolveErrorForLackOfDescriptorsNamesTheLimit) {
  EXPECT_EQ(NameError(EAI_NONAME, "here").code(), absl::StatusCode::kUnavailable);
  const Limited limited(RLIMIT_NOFILE, 3);
  const absl::Status error = NameError(EAI_NONAME, "here");
  EXPECT_THAT(error, IsError(absl::StatusCode::kResourceExhausted, "ulimit -n"));
}

}  // namespace
}  // namespace mirrorflow
