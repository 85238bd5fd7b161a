#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes keys.txt: the key schedule and sealed records, computed from
PROTOCOL.md, RFC 7748, RFC 8439 and libsodium's description of crypto_kx and
secretstream with Python's standard library alone.  The file is frozen."""
import hashlib
import pathlib
import struct

P = 2 ** 255 - 19


# ---- X25519 (RFC 7748) ---------------------------------------------------

def x25519(scalar, point):
    k = bytearray(scalar)
    k[0] &= 248
    k[31] = k[31] & 127 | 64
    k = int.from_bytes(k, "little")
    u = int.from_bytes(point, "little") & (2 ** 255 - 1)
    x2, z2, x3, z3, swap = 1, 0, u, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb = d * a % P, c * b % P
        aa, bb = a * a % P, b * b % P
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, u * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def public(secret):
    return x25519(secret, b"\x09" + bytes(31))


# ---- the key schedule ----------------------------------------------------

def blake(data, key=b"", size=32):
    return hashlib.blake2b(data, digest_size=size, key=key).digest()


def f(data):
    return struct.pack(">I", len(data)) + data


def schedule(versions, token, session, link, host_secret, core_secret, s):
    hp, cp = public(host_secret), public(core_secret)
    hello = (f"SANDMUX-HELLO {versions} {token} {cp.hex()}\n").encode()
    t = blake(f(b"sandmux-link-1") + f(versions.encode()) +
              f(token.encode()) + f(session.encode()) +
              f(struct.pack(">I", link)) + f(hp) + f(hello))
    shared = x25519(host_secret, cp)
    assert shared == x25519(core_secret, hp)
    both = blake(shared + hp + cp, size=64)
    k_ah, k_ha = both[:32], both[32:]    # the host is crypto_kx's client
    made = {"host_secret": host_secret, "core_secret": core_secret,
            "host_public": hp, "core_public": cp, "hello": hello, "t": t,
            "k_ha": blake(b"H" + t + s, k_ha),
            "k_ah": blake(b"A" + t + s, k_ah)}
    if link == 1:
        s = blake(b"S" + t + k_ah, k_ha)
    made["s"] = s
    return made


# ---- secretstream --------------------------------------------------------

def rounds(x):
    def quarter(a, b, c, d):
        for p, q, r, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8),
                           (c, d, b, 7)):
            x[p] = x[p] + x[q] & 0xffffffff
            v = x[r] ^ x[p]
            x[r] = (v << n | v >> 32 - n) & 0xffffffff

    for _ in range(10):
        quarter(0, 4, 8, 12)
        quarter(1, 5, 9, 13)
        quarter(2, 6, 10, 14)
        quarter(3, 7, 11, 15)
        quarter(0, 5, 10, 15)
        quarter(1, 6, 11, 12)
        quarter(2, 7, 8, 13)
        quarter(3, 4, 9, 14)


def state(key, tail):
    return list(struct.unpack("<16I", b"expand 32-byte k" + key + tail))


def hchacha20(key, tail):
    x = state(key, tail)
    rounds(x)
    return struct.pack("<8I", *x[:4], *x[12:])


def chacha20(key, nonce, count, data):
    out = b""
    for i in range(0, len(data), 64):
        start = state(key, struct.pack("<I", count) + nonce)
        x = start[:]
        rounds(x)
        block = struct.pack("<16I", *(a + b & 0xffffffff
                                      for a, b in zip(x, start)))
        out += bytes(a ^ b for a, b in zip(data[i:i + 64], block))
        count += 1
    return out


def poly1305(key, data):
    r = int.from_bytes(key[:16], "little") & 0x0ffffffc0ffffffc0ffffffc0fffffff
    acc = 0
    for i in range(0, len(data), 16):
        acc = (acc + int.from_bytes(data[i:i + 16] + b"\1", "little")) * r % \
            (2 ** 130 - 5)
    return (acc + int.from_bytes(key[16:], "little") &
            (1 << 128) - 1).to_bytes(16, "little")


class Stream:
    def __init__(self, key, header):
        self.key = hchacha20(key, header[:16])
        self.count, self.inonce = 1, header[16:]

    def record(self, plain):
        n = struct.pack(">I", len(plain) + 17)
        nonce = struct.pack("<I", self.count) + self.inonce
        tag = chacha20(self.key, nonce, 1, bytes(64))
        body = chacha20(self.key, nonce, 2, plain)
        # libsodium pads behind the text by this much, block included
        pad = bytes((16 - 64 + len(plain)) % 16)
        mac = poly1305(chacha20(self.key, nonce, 0, bytes(64))[:32],
                       n + bytes(-len(n) % 16) + tag + body + pad +
                       struct.pack("<QQ", len(n), 64 + len(plain)))
        self.inonce = bytes(a ^ b for a, b in zip(self.inonce, mac))
        self.count += 1
        return n + tag[:1] + body + mac


# ---- the vectors ---------------------------------------------------------

VERSIONS = "0001-0001"
SESSION = "00112233445566778899aabbccddeeff"


def secret(label):
    return hashlib.sha256(label.encode()).digest()


def build():
    out, s = ["# Frozen: see make_keys.py", ""], bytes(32)
    for link, token in ((1, "0123456789abcdef" * 2),
                        (2, "fedcba9876543210" * 2),
                        (0x01020304, "00" * 16)):
        made = schedule(VERSIONS, token, SESSION, link,
                        secret(f"host {link}"), secret(f"core {link}"), s)
        s = made["s"]
        out += [f"link {link:08x}", f"versions {VERSIONS}", f"token {token}",
                f"session {SESSION}"]
        out += [f"{k} {v.hex()}" for k, v in made.items()]
        # Three records each way, of several lengths, under fixed headers.
        for way, key in (("ah", made["k_ah"]), ("ha", made["k_ha"])):
            header = secret(f"header {way} {link}")[:24]
            stream = Stream(key, header)
            out.append(f"{way}_header {header.hex()}")
            for size in (72, 17, 300):
                plain = bytes((i * 7 + link + size) % 256
                              for i in range(size))
                out += [f"{way}_plain {plain.hex()}",
                        f"{way}_record {stream.record(plain).hex()}"]
        out.append("")
    return "\n".join(out)


def self_test():
    # RFC 7748, 5.2 and 6.1
    assert x25519(bytes.fromhex(
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
        bytes.fromhex("e6db6867583030db3594c1a424b15f7c"
                      "726624ec26b3353b10a903a6d0ab1c4c")).hex() == \
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    # RFC 8439, 2.5.2
    assert poly1305(bytes.fromhex(
        "85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b"),
        b"Cryptographic Forum Research Group").hex() == \
        "a8061dc1305136c6c22b8baf0c0127a9"


if __name__ == "__main__":
    self_test()
    (pathlib.Path(__file__).parent / "keys.txt").write_text(build())
