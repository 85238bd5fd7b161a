# SPDX-License-Identifier: MIT
"""The version, which is the `sandmux` program's: a test holds them together."""

VERSION = "0.1.0"
