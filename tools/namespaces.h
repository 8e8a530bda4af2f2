// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_NAMESPACES_H_
#define MIRRORFLOW_TOOLS_NAMESPACES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/bench_workers.h"

namespace mirrorflow {

// A limit of the link between two namespaces, in each direction.
struct Link {
  const char* rate;  // of tools/namespaces
  const char* name;
};
inline constexpr Link kVirtualEthernet = {"none", "veth"}, k8Gbit = {"8gbit", "8 Gbit/s"},
                      k2Gbit = {"2gbit", "2 Gbit/s"};

// Two network namespaces of this process, made by the program tools/namespaces, as hosts of two
// workers. The destructor deletes them.
class Namespaces {
 public:
  // Unavailable, with the reason, if they cannot be made.
  static absl::StatusOr<std::unique_ptr<Namespaces>> Create(const Link& link);
  ~Namespaces();
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

  const WorkerHosts& hosts() const { return hosts_; }

 private:
  Namespaces();
  absl::Status Run(const std::string& command) const;

  WorkerHosts hosts_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_NAMESPACES_H_
