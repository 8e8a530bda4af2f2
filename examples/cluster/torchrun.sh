#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Starts two workers with one replica each under PyTorch's torchrun. For several hosts, run it on
# each host with --nnodes, --node_rank, --master_addr and --master_port instead of --standalone, and set
# MIRRORFLOW_SECRET_FILE.
set -euo pipefail
exec torchrun --standalone --no-python --nproc_per_node=2 fashion_mnist --replicas=1 "$@"
