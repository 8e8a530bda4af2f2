// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/machine.h"

#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace mirrorflow {
namespace {

// Returns the value of `name : value` for the first processor.
std::string CpuInfo(absl::string_view name) {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (parts.size() == 2 && absl::StripAsciiWhitespace(parts[0]) == name) {
      return std::string(absl::StripAsciiWhitespace(parts[1]));
    }
  }
  return "unknown";
}

}  // namespace

std::string DescribeMachine() {
  const double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  utsname system{};
  uname(&system);
  return absl::StrFormat("%s (family %s, model %s), %.0f GB, %s %s, %d cores",
                         CpuInfo("model name"), CpuInfo("cpu family"), CpuInfo("model"),
                         bytes / (1 << 30), system.sysname, system.release,
                         sysconf(_SC_NPROCESSORS_ONLN));
}

std::optional<int64_t> MemoryFigure(absl::string_view process, absl::string_view figure) {
  std::ifstream status(absl::StrCat("/proc/", process, "/status"));
  int64_t kib = 0;
  for (std::string line; std::getline(status, line);) {  // such as `VmHWM:     1234 kB`
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(": \t"), absl::SkipEmpty());
    if (words.size() == 3 && words[0] == figure && absl::SimpleAtoi(words[1], &kib)) {
      return kib << 10;
    }
  }
  return std::nullopt;
}

std::string OneDnnVersion() {
  struct Version {  // the first members of dnnl_version_t
    int major, minor, patch;
  };
  const auto version = reinterpret_cast<const Version* (*)()>(dlsym(RTLD_DEFAULT, "dnnl_version"));
  if (version == nullptr) return "none";
  return absl::StrCat(version()->major, ".", version()->minor, ".", version()->patch);
}

PinnedTo::PinnedTo(int core, int count) {
  sched_getaffinity(0, sizeof(before_), &before_);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int i = 0; i < count; ++i) CPU_SET(core + i, &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
}

PinnedTo::~PinnedTo() { sched_setaffinity(0, sizeof(before_), &before_); }

}  // namespace mirrorflow
