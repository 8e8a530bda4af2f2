// SPDX-License-Identifier: Apache-2.0
//
// Cgroup: the CPU and memory limits of this process's control groups, which containers, Kubernetes,
// SLURM and systemd set. A group's limit applies to all groups below it, so each answer is the
// smallest for this process's group and its ancestors. CPU sets (cpuset) are not covered: they are
// part of the affinity (UsableCpus). Missing and malformed files limit nothing.
//
//   const std::optional<double> cpus = Cgroup().Cpus();  // 1.5 in a pod with `cpu: 1500m`
#ifndef MIRRORFLOW_FRAMEWORK_CORE_CGROUP_H_
#define MIRRORFLOW_FRAMEWORK_CORE_CGROUP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mirrorflow {

class Cgroup {
 public:
  // Finds the groups in the files below `root`: proc/self/cgroup, proc/self/mountinfo, and what is
  // mounted there. Tests pass a folder.
  explicit Cgroup(std::string root = "");

  // How many CPUs' time the process may use; nullopt if that is not limited.
  std::optional<double> Cpus() const;
  // How many bytes of memory the process may use; nullopt if that is not limited.
  std::optional<uint64_t> MemoryLimit() const;
  // How much of it is left. Cached files do not count as used, because the system drops them when
  // memory is needed. `free_swap`: the machine's, of which this process may use a part.
  std::optional<uint64_t> MemoryLeft(uint64_t free_swap) const;

 private:
  // The folders of this process's group and of its ancestors.
  struct Hierarchy {
    bool is_v2;
    std::vector<std::string> folders;
  };
  Hierarchy Find(const std::string& controller) const;

  const std::string root_;
};

// The memory of this machine, or what the control groups allow if that is less.
uint64_t UsableMemory(const Cgroup& cgroup = Cgroup());

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_CGROUP_H_
