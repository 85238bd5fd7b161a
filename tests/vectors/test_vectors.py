# SPDX-License-Identifier: MIT
"""The frozen vectors are what the independent scripts compute."""
import importlib.util
import pathlib

HERE = pathlib.Path(__file__).parent


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_wire():
    assert load("make_wire").build() == (HERE / "wire.txt").read_text()


def test_keys():
    module = load("make_keys")
    module.self_test()
    assert module.build() == (HERE / "keys.txt").read_text()
