# SPDX-License-Identifier: MIT
"""Where sandboxes of the provider are made: docker as root and not, the
openshell stand-in in its cage, local in a throw-away root.

A place makes SandmuxSandboxEnvironments.  `root`: a command may be anybody's
there; `default_root`: one without a user is root's.
"""
import contextlib
import os
import shutil
import subprocess
import tempfile

import anyio
import spine
from docker_fixture import docker_program, image, remove, start

import sandmux
from sandmux._provider import SandmuxSandboxEnvironment
