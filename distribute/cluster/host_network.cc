// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/host_network.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "distribute/cluster/connections/tcp_socket.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {
namespace {

// Returns whether the two addresses are equal, regardless of their ports.
bool SameAddress(const sockaddr* a, const sockaddr_storage& b) {
  if (a == nullptr || a->sa_family != b.ss_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

absl::StatusOr<sockaddr_storage> SocketAddressTowards(const HostPort& peer) {
  MF_ASSIGN_OR_RETURN(const Addresses found, Resolve(peer));
  // Connecting a datagram socket sends nothing, but makes the kernel choose the local address.
  sockaddr_storage local = {};
  socklen_t size = sizeof(local);
  const OwnedSocket made(socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (made.fd() < 0) {
    return NetworkError(errno, absl::StrCat(peer.ToString(), ": cannot create a socket"));
  }
  if (connect(made.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(made.fd(), reinterpret_cast<sockaddr*>(&local), &size) != 0) {
    return NetworkError(errno, absl::StrCat(peer.ToString(), ": no route to this address"));
  }
  return local;
}

}  // namespace

absl::StatusOr<std::string> AddressTowards(const HostPort& peer) {
  MF_ASSIGN_OR_RETURN(const sockaddr_storage local, SocketAddressTowards(peer));
  char text[NI_MAXHOST];
  if (const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&local), sizeof local, text,
                                    sizeof text, nullptr, 0, NI_NUMERICHOST)) {
    return NameError(error, peer.ToString());
  }
  return std::string(text);
}

absl::StatusOr<std::string> NetworkDeviceTowards(const HostPort& peer) {
  MF_ASSIGN_OR_RETURN(const sockaddr_storage local, SocketAddressTowards(peer));
  ifaddrs* devices = nullptr;
  if (getifaddrs(&devices) != 0) {
    return NetworkError(errno, "cannot list the network devices");
  }
  const absl::Cleanup free_devices = [devices] { freeifaddrs(devices); };
  for (const ifaddrs* device = devices; device != nullptr; device = device->ifa_next) {
    if (SameAddress(device->ifa_addr, local)) return std::string(device->ifa_name);
  }
  return absl::UnavailableError(absl::StrCat(peer.ToString(),
                                             ": no network device has the source address of "
                                             "the route to it"));
}

namespace {

// Returns the directory's entries; none if it does not exist or cannot be read.
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
    // Both devices are on one card, or the RDMA device is implemented in software on top of the
    // network device.
    if (std::filesystem::exists(rdma_device / "device/net" / std::string(network_device), error) ||
        HasLine(rdma_device / "parent", network_device)) {
      return true;
    }
    // RoCE: each address of a port names its network device.
    for (const std::filesystem::path& port : EntriesOf(rdma_device / "ports")) {
      for (const std::filesystem::path& name : EntriesOf(port / "gid_attrs/ndevs")) {
        if (HasLine(name, network_device)) return true;
      }
    }
    return false;
  };
  return std::ranges::any_of(EntriesOf(absl::StrCat(sysfs, "/class/infiniband")), belongs);
}

}  // namespace mirrorflow
