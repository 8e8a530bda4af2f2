#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Two workers with one replica each, started by Open MPI. On several hosts, add `-H a,b`: mpirun must
# then run on the first of them, whose address it tells the workers, and MIRRORFLOW_SECRET_FILE must
# name a file that all hosts share.
set -euo pipefail
exec mpirun -n 2 --bind-to none ${MIRRORFLOW_SECRET_FILE:+-x MIRRORFLOW_SECRET_FILE} \
  fashion_mnist --replicas=1 "$@"
