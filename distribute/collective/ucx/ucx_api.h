// SPDX-License-Identifier: Apache-2.0
//
// Loads UCX on first use. Merely linking it would install its signal handlers and start its threads
// in every program.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_UCX_UCX_API_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_UCX_UCX_API_H_

#include <ucp/api/ucp.h>

#include "absl/status/statusor.h"

namespace mirrorflow {

// The UCX functions, by name.
struct UcxApi {
#define MF_UCX_FUNCTIONS(F)     \
  F(ucp_config_read)            \
  F(ucp_config_modify)          \
  F(ucp_config_release)         \
  F(ucp_init_version)           \
  F(ucp_cleanup)                \
  F(ucp_worker_create)          \
  F(ucp_worker_destroy)         \
  F(ucp_worker_get_address)     \
  F(ucp_worker_release_address) \
  F(ucp_worker_progress)        \
  F(ucp_worker_get_efd)         \
  F(ucp_worker_arm)             \
  F(ucp_worker_signal)          \
  F(ucp_ep_create)              \
  F(ucp_ep_close_nbx)           \
  F(ucp_tag_send_nbx)           \
  F(ucp_tag_recv_nbx)           \
  F(ucp_request_check_status)   \
  F(ucp_request_cancel)         \
  F(ucp_request_free)           \
  F(ucs_status_string)
#define MF_UCX_MEMBER(name) decltype(&::name) name;
  MF_UCX_FUNCTIONS(MF_UCX_MEMBER)
#undef MF_UCX_MEMBER
};

// Loads libucp once. Sets environment variables before the first load, so call it before other
// threads can read them. Returns Unavailable if the library is missing.
absl::StatusOr<const UcxApi*> LoadUcx();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_UCX_UCX_API_H_
