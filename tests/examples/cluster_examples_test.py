#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the scheduler examples give a stopped job time to save, and restart it from checkpoints that outlive it.

Debian's Python runs this test, because it has Debian's PyYAML.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

import yaml

EXAMPLES = pathlib.Path("examples/cluster").resolve()
PREEMPTED = 75
FAILS_AGAIN = {2, 3, 5, 6}
# The minimum time that a job must have to save. Kubernetes' default is half of it.
GRACE_SECONDS = 60


def documents(name):
    """Returns a file's YAML documents by kind."""
    with open(EXAMPLES / name, encoding="utf-8") as file:
        return {document["kind"]: document for document in yaml.safe_load_all(file)}


def flags(words):
    """Returns the values of all --NAME=VALUE words by name."""
    return dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)


class KubernetesTest(unittest.TestCase):

    def check_pod(self, pod, container, words):
        """Checks that the pod has time to save, in a volume that outlives it."""
        self.assertEqual(pod["restartPolicy"], "Never")
        self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], GRACE_SECONDS)
        checkpoints = flags(words)
        self.assertIn("checkpoint_every", checkpoints)
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        at = next(path for path in mounts if checkpoints["checkpoint_dir"].startswith(path + "/"))
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        claim = volumes[mounts[at]]["persistentVolumeClaim"]["claimName"]
        self.assertEqual(claim, documents("jobset.yaml")["PersistentVolumeClaim"]["metadata"]["name"])

    def check_probes(self, container, words):
        """Checks that Kubernetes probes the metrics port, on which the worker listens for all hosts."""
        host, _, port = flags(words)["metrics"].rpartition(":")
        self.assertEqual(host, "0.0.0.0")
        ports = {port["name"]: port["containerPort"] for port in container["ports"] if "name" in port}
        for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
            self.assertEqual(container[probe]["httpGet"], {"path": path, "port": "metrics"})
        self.assertEqual(str(ports["metrics"]), port)

    def test_jobset_restarts_what_can_succeed(self):
        spec = documents("jobset.yaml")["JobSet"]["spec"]
        self.assertGreater(spec["failurePolicy"]["maxRestarts"], 0)
        self.assertIn(("FailJobSet", ["PodFailurePolicy"]),
                      [(rule["action"], rule["onJobFailureReasons"])
                       for rule in spec["failurePolicy"]["rules"]])
        [job] = spec["replicatedJobs"]
        job = job["template"]["spec"]
        pod = job["template"]["spec"]
        [container] = pod["containers"]
        actions = {}
        for rule in job["podFailurePolicy"]["rules"]:
            self.assertEqual(rule["onExitCodes"]["operator"], "In")
            self.assertEqual(rule["onExitCodes"]["containerName"], container["name"])
            actions.update({code: rule["action"] for code in rule["onExitCodes"]["values"]})
        self.assertEqual(actions, {PREEMPTED: "Ignore", **{code: "FailJob" for code in FAILS_AGAIN}})
        script = container["args"][0]
        self.assertIn("\nexec fashion_mnist ", script)
        # The other workers wait for a lost one only if Kubernetes replaces only its pod.
        self.assertGreater(job["backoffLimit"], 0)
        self.assertIn("rejoin_timeout", flags(script.split()))
        self.check_pod(pod, container, script.split())
        self.check_probes(container, script.split())
        # Without this, a worker that waits for the others has no DNS name under which they can find
        # it.
        self.assertIs(spec["network"]["publishNotReadyAddresses"], True)

    def test_jobset_counts_its_workers(self):
        [job] = documents("jobset.yaml")["JobSet"]["spec"]["replicatedJobs"]
        job = job["template"]["spec"]
        [container] = job["template"]["spec"]["containers"]
        env = {variable["name"]: variable.get("value") for variable in container["env"]}
        self.assertEqual(job["completionMode"], "Indexed")
        self.assertEqual(job["parallelism"], job["completions"])
        self.assertEqual(env["MIRRORFLOW_NUM_WORKERS"], str(job["completions"]))

    def test_trainjob_restarts(self):
        both = documents("trainjob.yaml")
        runtime, train = both["TrainingRuntime"], both["TrainJob"]["spec"]
        self.assertEqual(train["runtimeRef"], {"kind": "TrainingRuntime",
                                               "name": runtime["metadata"]["name"]})
        spec = runtime["spec"]["template"]["spec"]
        self.assertGreater(spec["failurePolicy"]["maxRestarts"], 0)
        [job] = spec["replicatedJobs"]
        self.assertEqual(job["template"]["spec"]["backoffLimit"], 0)
        pod = job["template"]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        self.check_pod(pod, container, train["trainer"]["args"])
        self.check_probes(container, train["trainer"]["args"])


class SlurmTest(unittest.TestCase):

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))

    def write_program(self, name, text):
        path = self.root / name
        path.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        path.chmod(0o700)

    def run_job(self, code):
        """Runs the script with an srun whose workers exit with `code`, one after another. Returns
        the script's exit code and the calls to srun and scontrol."""
        log = self.root / f"calls_{code}"
        self.write_program("srun", f'echo "srun $*" >> {log}\n'
                           f'stat -c "secret %a" "$MIRRORFLOW_SECRET_FILE" >> {log}\n'
                           # srun exits with the highest exit code of its tasks; SIGKILL counts as 128 + 9.
                           f'[[ {code} == 0 || $* != *--kill-on-bad-exit=1* ]] || exit 137\n'
                           f'exit {code}')
        self.write_program("scontrol", f'echo "scontrol $*" >> {log}')
        env = {"PATH": f"{self.root}:{os.environ['PATH']}", "HOME": str(self.root),
               "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "8"}
        result = subprocess.run(["bash", EXAMPLES / "slurm.sbatch"], env=env, check=False, timeout=60)
        self.assertEqual(list(self.root.glob("tmp.*")), [], "the secret is left behind")
        return result.returncode, log.read_text(encoding="utf-8").splitlines()

    def test_stopped_job_is_requeued(self):
        code, [srun, secret, *rest] = self.run_job(PREEMPTED)
        self.assertEqual(code, PREEMPTED)
        self.assertEqual(secret, "secret 600")
        self.assertEqual(rest, ["scontrol requeue 7"])
        # The option must be explicit, because a cluster may have a different default.
        self.assertIn("--kill-on-bad-exit=0", srun.split())
        given = flags(srun.split())
        self.assertIn("checkpoint_every", given)
        self.assertTrue(given["checkpoint_dir"].endswith("/7"), given)

    def test_finished_job_is_not_requeued(self):
        for code in (0, 4, *FAILS_AGAIN):
            ended, calls = self.run_job(code)
            self.assertEqual(ended, code)
            self.assertFalse([call for call in calls if call.startswith("scontrol")])

    def test_slurm_sends_the_signal_and_requeues_the_job(self):
        text = (EXAMPLES / "slurm.sbatch").read_text(encoding="utf-8")
        options = {}
        for line in text.splitlines():
            if line.startswith("#SBATCH --"):
                name, _, value = line.split()[1][2:].partition("=")
                options[name] = value
        self.assertIn("requeue", options)
        self.assertEqual(options["open-mode"], "append")
        # Without the prefix B:, SLURM sends the signal to the job's steps, not only to the script.
        signal, seconds = options["signal"].split("@")
        self.assertEqual(signal, "TERM")
        self.assertGreaterEqual(int(seconds), GRACE_SECONDS)


if __name__ == "__main__":
    unittest.main()
