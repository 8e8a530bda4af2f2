#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills training runs while they save checkpoints, damages the checkpoints, and resumes."""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import programs
from programs import BAD_INPUT, CLUSTER, MIRRORFLOW, RESOURCES, USAGE

SECONDS = 60  # time limit; a run takes less than 5 s
STEPS = 40
# How often a training run is killed at a random time. A single kill rarely finds a bug.
KILLS = int(os.environ.get("MIRRORFLOW_KILLS", "10"))
TRAIN = [*programs.TRAIN_TINY, "--model=mlp", "--replicas=2", f"--steps={STEPS}"]


class CheckpointsTest(programs.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("--loss_log=whole.log", "--save_variables=whole.safetensors")

    @classmethod
    def train(cls, *flags, prefix=(), **environment):
        return subprocess.run(
            [*prefix, programs.FASHION_MNIST, *TRAIN, *flags], cwd=cls.root, timeout=SECONDS,
            env={**os.environ, **environment}, text=True, capture_output=True, check=False)

    def setUp(self):
        shutil.rmtree(self.root / "saved", ignore_errors=True)

    def train_saving(self, *flags, **options):
        return self.train("--checkpoint_dir=saved", "--checkpoint_every=5", "--loss_log=part.log",
                          "--save_variables=part.safetensors", *flags, **options)

    def checkpoints(self):
        return sorted(p.name for p in (self.root / "saved").glob("step-*"))

    def check_is_whole(self):
        """Checks that every checkpoint is undamaged."""
        result = subprocess.run([MIRRORFLOW, "checkpoint", "saved"], cwd=self.root, text=True,
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def check_goes_on(self, *flags):
        """Checks that the next run ends with the same bits as an undisturbed one, and removes
        incomplete checkpoints."""
        result = self.train_saving(*flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("log", "safetensors"):
            self.assertEqual((self.root / f"part.{name}").read_bytes(),
                             (self.root / f"whole.{name}").read_bytes(), name)
        names = [p.name for p in (self.root / "saved").iterdir()]
        self.assertCountEqual(names, ["events.jsonl", "lock", "step-000000035", "step-000000040"])
        events = [json.loads(l) for l in (self.root / "saved/events.jsonl").read_text().splitlines()]
        self.assertLessEqual({e["event"] for e in events}, {"joined", "started", "saved"})
        self.assertEqual([e["step"] for e in events if e["event"] == "saved"][-1], 40)
        return result

    def test_killed_at_every_failpoint_of_a_save(self):
        listed = subprocess.run([MIRRORFLOW, "failpoints"], text=True, capture_output=True,
                                check=True).stdout.split()
        # No step is saved twice here; directory_test covers that.
        failpoints = [name for name in listed
                      if name.startswith("checkpoint/") and name != "checkpoint/replace"]
        self.assertGreater(len(failpoints), 15)
        for name, save in itertools.product(failpoints, (1, 3)):
            with self.subTest(f"{name} of save {save}"):
                self.setUp()
                result = self.train_saving(MIRRORFLOW_FAILPOINTS=f"{name}=kill#{save}")
                self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
                self.check_is_whole()
                before = self.checkpoints()
                resumed = self.check_goes_on()
                if before:
                    self.assertIn(f"resumed from saved/{before[-1]}", resumed.stderr)

    def test_killed_at_random_times(self):
        generator = random.Random(7)
        for _ in range(KILLS):
            command = [programs.FASHION_MNIST, *TRAIN, "--checkpoint_dir=saved",
                       "--checkpoint_every=1", "--loss_log=part.log",
                       "--save_variables=part.safetensors"]
            process = subprocess.Popen(command, cwd=self.root, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(generator.uniform(0.02, 0.4))
            process.kill()
            process.wait()
            if (self.root / "saved").exists():
                self.check_is_whole()
        result = self.train_saving("--checkpoint_every=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("log", "safetensors"):
            self.assertEqual((self.root / f"part.{name}").read_bytes(),
                             (self.root / f"whole.{name}").read_bytes(), name)

    def test_damaged_checkpoint_is_named_and_an_older_one_used_on_request(self):
        self.train_saving()
        file = self.root / "saved/step-000000040/variables.safetensors"
        contents = bytearray(file.read_bytes())
        contents[-100] ^= 4
        file.write_bytes(contents)
        checked = subprocess.run([MIRRORFLOW, "checkpoint", "saved"], cwd=self.root, text=True,
                                 capture_output=True, check=False)
        self.assertEqual(checked.returncode, BAD_INPUT)
        self.assertIn("step-000000035  ok", checked.stdout)
        self.assertIn("step-000000040  DAMAGED", checked.stdout)
        result = self.train_saving()
        self.assertEqual(result.returncode, BAD_INPUT, result.stderr)
        self.assertRegex(result.stderr,
                         "ERROR DATA_LOSS saved/step-000000040/variables.safetensors: tensor '.*'")
        resumed = self.check_goes_on("--resume=latest_valid")
        self.assertRegex(resumed.stderr, "WARNING: .*damaged .*saved/step-000000040/")
        self.assertIn("resumed from saved/step-000000035", resumed.stderr)

    def test_file_of_a_checkpoint_that_is_not_a_regular_file_is_damage(self):
        self.train_saving()
        for name in ("manifest.json", "variables.safetensors"):
            file = self.root / "saved/step-000000040" / name
            file.rename(self.root / "kept")
            for replace in (os.mkfifo, os.mkdir, lambda path: os.symlink("../../kept", path)):
                with self.subTest(name):
                    replace(file)
                    checked = subprocess.run([MIRRORFLOW, "checkpoint", "saved"], cwd=self.root,
                                             check=False, capture_output=True, timeout=60)
                    self.assertEqual(checked.returncode, BAD_INPUT)
                    result = self.train_saving()
                    self.assertEqual(result.returncode, BAD_INPUT, result.stderr)
                    self.assertIn(f"ERROR DATA_LOSS saved/step-000000040/{name}: ", result.stderr)
                    if file.is_dir() and not file.is_symlink():
                        file.rmdir()
                    else:
                        file.unlink()
            (self.root / "kept").rename(file)

    def test_what_cannot_be_resumed_is_an_error(self):
        result = self.train_saving("--resume=latest_valid")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertRegex(result.stderr, "saved: .*found none")
        self.train_saving()
        result = self.train_saving("--resume=never")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("saved/step-000000040: exists", result.stderr)
        result = self.train_saving("--model=cnn")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertIn("'dense/kernel': expected float[1600,128], got float[784,512]",
                      result.stderr)
        result = self.train_saving("--global_batch_size=20")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertRegex(result.stderr, "global_batch_size: expected 10, .*got 20")
        for flag in ("--resume=newest", "--keep=1", "--checkpoint_every=-1",
                     "--max_failed_saves=0"):
            result = self.train_saving(flag)
            self.assertEqual(result.returncode, USAGE, result.stderr)
            self.assertIn(flag.split("=")[0], result.stderr)

    def test_directory_in_use_is_an_error_that_names_the_owner(self):
        owner = subprocess.Popen(
            [programs.FASHION_MNIST, *TRAIN, "--steps=100000000", "--checkpoint_dir=saved"],
            cwd=self.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not (self.root / "saved/lock").exists() or not (
                    self.root / "saved/lock").read_text():
                time.sleep(0.01)
            result = self.train_saving("--checkpoint_lock_timeout=1s")
        finally:
            owner.kill()
            owner.wait()
        self.assertEqual(result.returncode, CLUSTER)
        self.assertRegex(result.stderr, f"saved: .*process {owner.pid} on ")

    def on_small_disk(self, options, script, *flags):
        """Runs the training with `saved` on a separate file system."""
        (self.root / "saved").mkdir()
        prefix = ["unshare", "--map-root-user", "--mount", "sh", "-c",
                  f'mount -t tmpfs -o {options} tmpfs saved && {script} "$@"; code=$?; '
                  "ls -A saved >&2; exit $code", "sh"]
        if subprocess.run([*prefix[:4], "-c", "mount -t tmpfs tmpfs saved"], cwd=self.root,
                          capture_output=True, check=False).returncode != 0:
            self.skipTest("cannot mount a file system")
        return self.train_saving(*flags, prefix=prefix)

    def test_full_disk_is_a_warning_and_then_an_error(self):
        # A checkpoint takes 5.4 MB.
        result = self.on_small_disk("size=8m", "", "--max_failed_saves=3")
        self.assertEqual(result.returncode, RESOURCES, result.stderr)
        self.assertRegex(result.stderr, r"WARNING: .*not saved \(1 of at most 2")
        self.assertIn("needs 5", result.stderr)
        self.assertIn("ERROR RESOURCE_EXHAUSTED 3 saves", result.stderr)
        self.assertIn("step-000000005", result.stderr)  # the earlier checkpoint stays
        self.assertNotIn(".tmp", result.stderr.splitlines()[-1])

    def test_training_goes_on_if_a_save_fails(self):
        result = self.on_small_disk("size=8m", "", "--max_failed_saves=100")
        # The last save has also failed, so the error is reported after all other output.
        self.assertEqual(result.returncode, RESOURCES, result.stderr)
        self.assertIn("test_accuracy=", result.stdout)
        self.assertEqual((self.root / "part.log").read_bytes(),
                         (self.root / "whole.log").read_bytes())

    def test_read_only_directory_is_found_at_the_start(self):
        result = self.on_small_disk("ro", "")
        self.assertEqual(result.returncode, USAGE, result.stderr)
        self.assertRegex(result.stderr, "ERROR .* --checkpoint_dir: saved/lock: cannot open")

    def test_mistakes_of_the_command_are_errors(self):
        for args in ([], ["a", "b"]):
            result = subprocess.run([MIRRORFLOW, "checkpoint", *args], text=True,
                                    capture_output=True, check=False)
            self.assertEqual(result.returncode, USAGE)
        result = subprocess.run([MIRRORFLOW, "checkpoint", "nowhere"], cwd=self.root, text=True,
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, BAD_INPUT)
        result = self.train_saving(MIRRORFLOW_FAILPOINTS="checkpoint/renam=kill")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("did you mean checkpoint/rename?", result.stderr)


if __name__ == "__main__":
    programs.main()
