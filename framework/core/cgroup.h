// SPDX-License-Identifier: Apache-2.0
//
// Cgroup: the CPU, memory and task limits of this process's control groups, which containers,
// Kubernetes, SLURM and systemd set. A group's limit applies to all groups below it, so each
// function returns the minimum over this process's group and its ancestors. CPU sets (cpuset) are
// not covered: they show up in the affinity mask (UsableCpus). Missing and malformed files impose
// no limit.
//
//   const std::optional<double> cpus = Cgroup().Cpus();  // 1.5 in a pod with `cpu: 1500m`
#ifndef MIRRORFLOW_FRAMEWORK_CORE_CGROUP_H_
#define MIRRORFLOW_FRAMEWORK_CORE_CGROUP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mirrorflow {

class Cgroup {
 public:
  // Reads proc/self/cgroup, proc/self/mountinfo and the mount points that they name, all below
  // `root`. Tests pass a temporary folder.
  explicit Cgroup(std::string root = "") : root_(std::move(root)) {}

  // Returns how many CPUs' worth of time the process may use, or nullopt if there is no limit.
  std::optional<double> Cpus() const;
  // Returns how many bytes of memory the process may use, or nullopt if there is no limit.
  std::optional<uint64_t> MemoryLimit() const;
  // Returns how many more bytes of memory and swap the process may use, or nullopt if there is no
  // limit. The page cache does not count as used, because the system drops it when memory runs
  // short. `free_swap` is the machine's free swap; a group can limit how much of it the process may
  // use.
  std::optional<uint64_t> MemoryLeft(uint64_t free_swap) const;
  // Returns the path of the `pids.max` file of the innermost group that has reached its limit on
  // tasks, or an empty string if none has.
  std::string ReachedTaskLimit() const;

 private:
  // The folders of this process's group and its ancestors.
  struct Hierarchy {
    bool is_v2;
    std::vector<std::string> folders;
  };
  Hierarchy Find(const std::string& controller) const;

  const std::string root_;
};

// Returns this machine's memory in bytes, or the control groups' limit if that is lower.
uint64_t UsableMemory(const Cgroup& cgroup = Cgroup());

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_CGROUP_H_
