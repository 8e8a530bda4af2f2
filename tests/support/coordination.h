// SPDX-License-Identifier: Apache-2.0
//
// A cluster whose workers are threads of this process and use the real coordination service.
#ifndef MIRRORFLOW_TESTS_SUPPORT_COORDINATION_H_
#define MIRRORFLOW_TESTS_SUPPORT_COORDINATION_H_

#include <memory>
#include <string>
#include <vector>

#include "distribute/cluster/coordination/coordination_client.h"
#include "distribute/cluster/coordination/coordination_server.h"

namespace mirrorflow {

inline constexpr char kTestSecret[] = "a secret of the tests";

// Returns the options of a worker whose coordination service listens on `port` of this host.
CoordinationClient::Options TestWorkerOptions(int port, int worker, int num_workers);

class CoordinatedCluster {
 public:
  // Starts the service and registers all workers.
  explicit CoordinatedCluster(int num_workers);

  const std::vector<std::unique_ptr<CoordinationClient>>& clients() const { return clients_; }

 private:
  std::unique_ptr<CoordinationServer> server_;
  std::vector<std::unique_ptr<CoordinationClient>> clients_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_COORDINATION_H_
