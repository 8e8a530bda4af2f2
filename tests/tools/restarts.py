# SPDX-License-Identifier: Apache-2.0
"""Code shared by tests whose training runs end early and resume from their checkpoints."""

import shutil
import subprocess

import programs

SECONDS = 90  # no job takes 10 s; a longer job hangs
PREEMPTED, INTERRUPTED = 75, 130
SAVE = ["--checkpoint_dir=saved", "--checkpoint_every=100", "--loss_log=part.log",
        "--save_variables=part.safetensors"]


class RestartsTestCase(programs.ProgramTest):
    """Trains once undisturbed, for comparison."""

    STEPS = 2000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train = [programs.FASHION_MNIST, *programs.TRAIN_TINY, "--model=mlp",
                     f"--steps={cls.STEPS}"]
        cls.train_undisturbed("whole", cls.STEPS)

    @classmethod
    def train_undisturbed(cls, name, steps):
        subprocess.run([*cls.train, f"--steps={steps}", "--replicas=2", f"--loss_log={name}.log",
                        f"--save_variables={name}.safetensors"], cwd=cls.root, check=True,
                       timeout=SECONDS, capture_output=True)

    def setUp(self):
        shutil.rmtree(self.root / "saved", ignore_errors=True)

    def last_saved(self):
        return max((int(p.name[5:]) for p in (self.root / "saved").glob("step-*")), default=0)

    def wait_for_step(self, step):
        """Waits until a checkpoint of this step or a later one has been saved."""
        programs.wait_until(lambda: self.last_saved() >= step, f"a checkpoint of step {step}")

    def check_same_bits(self, undisturbed="whole"):
        for name in ("log", "safetensors"):
            self.assertEqual((self.root / f"part.{name}").read_bytes(),
                             (self.root / f"{undisturbed}.{name}").read_bytes(), name)
