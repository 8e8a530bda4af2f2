// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/rdma_devices.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mirrorflow {
namespace {

// Returns the entries of the folder; none if it does not exist.
std::vector<std::filesystem::path> EntriesOf(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator i(folder, error), end; !error && i != end;
       i.increment(error)) {
    entries.push_back(i->path());
  }
  return entries;
}

bool HasLine(const std::filesystem::path& file, absl::string_view line) {
  std::ifstream in(file);
  std::string first;
  return std::getline(in, first) && first == line;
}

}  // namespace

bool HasRdma(absl::string_view network_device, const std::string& sysfs) {
  const auto belongs = [&](const std::filesystem::path& rdma_device) {
    std::error_code error;
    // Both devices belong to one card, or this is a software device on top of the network device.
    if (std::filesystem::exists(rdma_device / "device/net" / std::string(network_device), error) ||
        HasLine(rdma_device / "parent", network_device)) {
      return true;
    }
    // RoCE: each address of a port names its network device.
    for (const std::filesystem::path& port : EntriesOf(rdma_device / "ports")) {
      const std::vector<std::filesystem::path> names = EntriesOf(port / "gid_attrs/ndevs");
      if (std::any_of(names.begin(), names.end(), [&](const std::filesystem::path& name) {
            return HasLine(name, network_device);
          })) {
        return true;
      }
    }
    return false;
  };
  const auto devices = EntriesOf(absl::StrCat(sysfs, "/class/infiniband"));
  return std::any_of(devices.begin(), devices.end(), belongs);
}

}  // namespace mirrorflow
