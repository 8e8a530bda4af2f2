// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/host_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/crc32c.h"
#include "framework/core/system_error.h"
#include "framework/runtime/usable_cpus.h"

namespace mirrorflow {
namespace {

std::string ReadFirstLine(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

}  // namespace

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown host";
}

std::string HostIdentity() {
  char network[64] = {};
  const ssize_t size = readlink("/proc/self/ns/net", network, sizeof(network) - 1);
  return absl::StrCat(ReadFirstLine("/proc/sys/kernel/random/boot_id"), " ", geteuid(), " ",
                      absl::string_view(network, size < 0 ? 0 : size));
}

std::string UsableCpuList() {
  const std::vector<int> cpus = UsableCpus();
  std::vector<std::string> ranges;
  for (size_t i = 0; i < cpus.size(); ++i) {
    const int first = cpus[i];
    while (i + 1 < cpus.size() && cpus[i + 1] == cpus[i] + 1) ++i;
    ranges.push_back(first == cpus[i] ? absl::StrCat(first) : absl::StrCat(first, "-", cpus[i]));
  }
  return absl::StrJoin(ranges, ",");
}

absl::StatusOr<std::string> BuildIdentity() {
  static constexpr char kProgram[] = "/proc/self/exe";
  const auto failed = [] {
    return NetworkError(errno, absl::StrCat(kProgram, ": cannot read the program's executable"));
  };
  const int fd = open(kProgram, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed();
  const absl::Cleanup close_file = [fd] { close(fd); };
  // Workers trust each other, so a checksum suffices to distinguish builds. It takes a millisecond.
  std::vector<char> buffer(1 << 18);
  uint32_t crc = 0;
  int64_t bytes = 0;
  for (ssize_t size; (size = read(fd, buffer.data(), buffer.size())) != 0;) {
    if (size < 0) return failed();
    crc = Crc32c({buffer.data(), static_cast<size_t>(size)}, crc);
    bytes += size;
  }
  return absl::StrCat(absl::Hex(crc, absl::kZeroPad8), " of ", bytes, " bytes");
}

}  // namespace mirrorflow
