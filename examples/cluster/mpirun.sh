#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Starts two workers with one replica each under Open MPI. For several hosts, add `-H a,b`. Run
# mpirun on the first of them, because it gives the workers that host's address, and let
# MIRRORFLOW_SECRET_FILE name a file that all hosts share.
set -euo pipefail
exec mpirun -n 2 --bind-to none ${MIRRORFLOW_SECRET_FILE:+-x MIRRORFLOW_SECRET_FILE} \
  fashion_mnist --replicas=1 "$@"
