"""Code that a model may write in training, and what it is told.

A case is its code, the status, and a text that the model must find in what comes back; for some,
tier by tier.
"""

from __future__ import annotations

from dataclasses import dataclass

DENIED = "[not permitted: there is no network, no other process, and no file but in the work"
WALL = "[timed out after 2s]"
# Of processor time; on a busy machine the clock may be first.
TIME = ("[timed out after 1s of processor time]", WALL)


@dataclass(frozen=True)
class Case:
    """Attributes:
    code: the source.
    status: one of several, separated by a bar.
    says: what the text must contain, one of several; by tier where tiers differ.
    partial: what was printed before, which must be there too.
    """

    code: str
    status: str
    says: str | tuple[str, ...] | dict[str, str]
    partial: str = ""

    def expected(self, tier: str) -> tuple[str, ...]:
        says = self.says[tier] if isinstance(self.says, dict) else self.says
        return (says,) if isinstance(says, str) else says


# Those of the list of what it must survive.
LISTED = {
    "fork bomb": Case("import os\nwhile True: os.fork()", "error", DENIED),
    "daemonised child": Case(
        "import os, time\nprint('a')\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(99)",
        "error", DENIED, "a",
    ),
    "subprocess": Case("import subprocess\nsubprocess.run(['ls'])", "error", DENIED),
    "shell": Case("import os\nprint(os.system('touch /tmp/leak_shell'))", "ok", ("-1", "32512")),
    "multiprocessing": Case(
        "import multiprocessing as m\np = m.Process(target=print)\np.start()", "error", DENIED
    ),
    "endless loop": Case("print('a')\nwhile True: pass", "timeout", TIME, "a"),
    "endless loop in the middle of a line": Case(
        "for n in range(999): print(n, end=' ')\nwhile True: pass", "timeout", TIME, "997 998 "
    ),
    "endless sleep": Case("print('a')\nimport time\ntime.sleep(1e6)", "timeout", WALL, "a"),
    "all signals ignored": Case(
        "import signal\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n"
        "  except (OSError, ValueError): pass\nprint('a')\nwhile True: pass",
        "timeout", TIME, "a",
    ),
    "thread that is no daemon": Case(
        "import threading, time\nprint('a')\nthreading.Thread(target=time.sleep, args=(1e6,)).start()",
        "timeout", WALL, "a",
    ),
    "deep recursion": Case("def f(n): return f(n + 1)\nf(0)", "error", "RecursionError"),
    "deep recursion without its limit": Case(
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1)\nprint('a')\nf(0)",
        "error|killed|timeout", ("[killed: SIGSEGV]", "MemoryError", "RecursionError", *TIME), "a",
    ),
    "memory bomb": Case("print('a')\nx = bytearray(100 << 30)", "error", "MemoryError", "a"),
    "memory bomb, slowly": Case(
        "print('a')\nx = []\nwhile True: x.append(bytearray(1 << 24))", "error|killed|timeout",
        ("MemoryError", "[killed: SIGKILL", *TIME), "a",
    ),
    "thread bomb": Case(
        "import threading, time\nprint('a')\n"
        "while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "error|timeout|killed", ("can't start new thread", "[killed: more than 128 threads]", "MemoryError", *TIME), "a",
    ),
    "memfd": Case("import os\nos.memfd_create('x')", "error", DENIED),
    "endless output": Case("while True: print('x' * 9999)", "output", "[output truncated: ", "xxx"),
    "big file": Case(
        "f = open('leak_big', 'wb')\nfor _ in range(99): f.write(bytes(1 << 20))", "error",
        {"bwrap": "File too large", "landlock": DENIED},
    ),
    "many files": Case(
        "for n in range(99):\n  with open(f'leak_{n}', 'wb') as f: f.write(bytes(1 << 20))", "error",
        {"bwrap": "No space left on device", "landlock": DENIED},
    ),
    "the environment": Case("import os\nprint(sorted(os.environ))", "ok", "'LANG'"),
    "proc": Case(
        "print(open('/proc/self/environ').read())", "error",
        {"bwrap": "No such file", "landlock": DENIED},
    ),
    "host files": Case(
        "print(open('/etc/passwd').read())", "error",
        {"bwrap": "No such file", "landlock": DENIED},
    ),
    "symlink to a secret": Case(
        "import os\nos.symlink('/etc/shadow', 'leak')\nprint(open('leak').read())", "error",
        {"bwrap": "No such file", "landlock": DENIED},
    ),
    "writing outside": Case(
        "open('/tmp/leak', 'w').write('x')", "error",
        # There is a /tmp where Python is in it.
        ("No such file or directory", "Read-only file system", DENIED),
    ),
    "TCP": Case(
        "import socket\nsocket.create_connection(('10.0.0.1', 80), 1)", "error", DENIED
    ),
    "UDP": Case(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(b'x', ('10.0.0.1', 53))",
        "error", DENIED,
    ),
    "loopback": Case(
        "import socket\nsocket.create_server(('127.0.0.1', 0))", "error", DENIED
    ),
    "killing the parent": Case("import os\nos.kill(os.getppid(), 9)", "error", DENIED),
    "killing everyone": Case("import os\nos.kill(-1, 9)", "error", DENIED),
    "killing process 1": Case("import os\nos.kill(1, 9)", "error", DENIED),
    "namespaces": Case(
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.unshare(0x10000000), os.strerror(ctypes.get_errno()))",
        "ok", "-1 Operation not permitted",
    ),
    "a number with too many digits": Case("7 ** 200000", "error", "4300 digits"),
    "a number with too many digits, printed": Case("print(7 ** 200000)", "error", "4300 digits"),
    "a power without end": Case("print('a')\n7 ** 10**8 % 5", "timeout", TIME, "a"),
    "sys.exit": Case("import sys\nprint('a')\nsys.exit(3)", "error", "[exited with code 3]", "a"),
    "sys.exit with words": Case("import sys\nsys.exit('wrong')", "error", "wrong"),
    "os._exit": Case("import os\nprint('a')\nos._exit(3)", "error", "[exited with code 3]", "a"),
    "os._exit as if well": Case("import os\nprint('a')\nos._exit(0)", "ok", "a"),
    "closed stdout": Case("import os\nprint('a')\nos.close(1)\nprint(1)", "error", "Bad file descriptor", "a"),
    "closed stdout object": Case("import sys\nsys.stdout.close()\n1 + 1", "error", "closed file"),
    "binary output": Case("import sys\nsys.stdout.buffer.write(bytes(range(256)))\nNone", "ok", "ABC"),
    "surrogates printed": Case(r"print('\ud800')", "ok", r"\ud800"),
    "a surrogate in the source": Case("print('\ud800')", "error", "surrogates not allowed"),
    "NUL in the source": Case("print(1)\0", "error", "null bytes"),
    "input": Case("input()", "error", "EOFError"),
    "segmentation fault": Case(
        "import ctypes\nprint('a')\nctypes.string_at(0)", "killed", "[killed: SIGSEGV]", "a"
    ),
    "segmentation fault in the middle of a line": Case(
        "import ctypes, sys\nprint('a', end='')\nsys.stderr.write('b')\nctypes.string_at(0)", "killed",
        "[killed: SIGSEGV]", "a",
    ),
    "os._exit in the middle of a line": Case("import os\nprint('a', end='')\nos._exit(0)", "ok", "a"),
    "abort": Case("import os\nprint('a')\nos.abort()", "killed", "[killed: SIGABRT]", "a"),
    "no output": Case("x = 1", "ok", "[no output; use print()]"),
    "syntax error": Case("def f(:\n  pass", "error", "SyntaxError"),
}  # fmt: skip

LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
ERROR = "print(os.strerror(ctypes.get_errno()))"

# More ways out, up, or on.
ATTACKS = {
    "a signal through a file's owner": Case(
        "import fcntl, os\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, os.getppid())",
        "error", ("not implemented", DENIED),
    ),
    "clone as a raw call": Case(
        LIBC + "print(libc.syscall(56, 17, 0, 0, 0, 0) if os.uname().machine == 'x86_64' else -1)\n"
        + ERROR, "ok", "-1",
    ),
    "clone3 as a raw call": Case(
        LIBC + "b = (ctypes.c_uint64 * 11)()\nb[4] = 17\n"
        "print(libc.syscall(435, ctypes.byref(b), 88))\n" + ERROR,
        "ok", "-1\nFunction not implemented",
    ),
    "system calls of 32 bits": Case(
        "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\n"
        "m.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n"
        "f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n"
        "print('pid', f())",
        "killed", ("[killed: SIGSYS]", "[killed: SIGSEGV]"),
    ),
    "calls of the x32 ABI": Case(
        LIBC + "print(libc.syscall(0x40000000 | 57))", "ok|killed", ("-1", "[killed: SIGSYS]")
    ),
    "life after its parent": Case(
        LIBC + "print(libc.prctl(1, 0, 0, 0, 0))\n" + ERROR, "ok", "-1\nFunction not implemented"
    ),
    "memory of its parent": Case(
        LIBC + "b = ctypes.create_string_buffer(8)\nclass V(ctypes.Structure):\n"
        "  _fields_ = [('p', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
        "v = V(ctypes.addressof(b), 8)\n"
        "print(libc.process_vm_readv(os.getppid(), ctypes.byref(v), 1, ctypes.byref(v), 1, 0))\n"
        + ERROR, "ok", "-1\nOperation not permitted",
    ),
    "limits raised": Case(
        "import resource as r\nr.setrlimit(r.RLIMIT_AS, (-1, -1))", "error",
        ("not allowed to raise", DENIED),
    ),
    "limits of its parent": Case(
        "import os, resource as r\nprint(r.prlimit(os.getppid(), r.RLIMIT_NOFILE, (0, 0)))", "error",
        ("not implemented", DENIED),
    ),
    "descriptors of the zygote": Case(
        "import os\nopen_ones = []\nfor n in range(3, 4096):\n  try: os.fstat(n)\n  except OSError: continue\n"
        "  open_ones.append(n)\nprint(open_ones)",
        "ok", "[]",
    ),
    "objects of the zygote": Case(
        "import gc, socket\n[s.send(b'{\"ended\": 0}') for s in gc.get_objects() "
        "if isinstance(s, socket.socket) and s.fileno() >= 0]",
        "error|ok", ("Bad file descriptor", "[]"),
    ),
    "the modes of host files": Case(
        "import os\nfor path in ('/usr/bin/env', os.__file__):\n  try: os.chmod(path, 0o777); print('got', path)\n"
        "  except OSError as e: print(e.strerror)",
        "ok", "Operation not permitted",
    ),
    "an executable of its own": Case(
        "import os\nopen('leak', 'w').write('#!/bin/sh')\nos.chmod('leak', 0o755)\nos.execv('leak', ['leak'])",
        "error", DENIED,
    ),
    "device files": Case(
        "import os, stat\nos.mknod('leak', 0o600 | stat.S_IFBLK, os.makedev(254, 0))", "error", DENIED
    ),
    "a file system mounted": Case(
        LIBC + "print(libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None))\n" + ERROR,
        "ok", "-1\nOperation not permitted",
    ),
    "io_uring": Case(
        LIBC + "print(libc.syscall(425, 8, ctypes.create_string_buffer(120)))\n" + ERROR,
        "ok", "-1\nOperation not permitted",
    ),
    "a keyring": Case(
        LIBC + "print(libc.syscall(250, 0, -3, 0))\n" + ERROR, "ok", "-1\nOperation not permitted"
    ),
    "shared memory": Case(
        LIBC + "print(libc.shmget(1, 1 << 20, 0o1666))\n" + ERROR, "ok",
        "-1\nOperation not permitted",
    ),
    "files in shared memory": Case(
        "from multiprocessing import shared_memory as s\nx = s.SharedMemory('leak', True, 1 << 30)\n"
        "x.buf[:] = bytes(1 << 30)",
        "error|killed", ("Permission", "No space", "File too large", "[killed: SIGBUS]", "MemoryError"),
    ),
    "a folder that cannot be removed": Case(
        "import os\nfor _ in range(3):\n  os.mkdir('leak')\n  os.chdir('leak')\n"
        "open('leak', 'w').close()\nos.chmod('.', 0)\nos.chmod('/sandbox', 0)\nprint('a')",
        "ok|error", {"bwrap": "a", "landlock": DENIED},
    ),
    "folders without end": Case(
        "import os\nfor _ in range(3000):\n  os.mkdir('leak')\n  os.chdir('leak')\nprint('a')",
        "ok|error", {"bwrap": "a", "landlock": DENIED},
    ),
    "files without end": Case(
        "n = 0\nwhile True:\n  open(f'leak{n}', 'w').close()\n  n += 1", "error|killed",
        {"bwrap": "[killed: more than 10000 files and folders]", "landlock": DENIED},
    ),
    "folders beside each other without end": Case(
        "import os\nn = 0\nwhile True:\n  os.mkdir(str(n))\n  n += 1", "error|killed",
        {"bwrap": "[killed: more than 10000 files and folders]", "landlock": DENIED},
    ),
    "modes of what it made": Case(
        "import os\nos.mkdir('leak', 0)\nos.umask(0o777)\nos.mkdir('leak2')\nprint('a')", "ok|error",
        {"bwrap": "a", "landlock": DENIED},
    ),
    "attributes of the work directory": Case(
        "import os\nos.setxattr('.', 'user.note', b'1')", "error", DENIED
    ),
    "times of the work directory": Case("import os\nos.utime('.', (1, 1))", "error", DENIED),
    "modes of devices": Case("import os\nos.chmod('/dev/null', 0o666)", "error", DENIED),
    "times of devices": Case("import os\nos.utime('/dev/zero')", "error", DENIED),
    "host files emptied": Case(
        "import os\nfor f in (lambda: os.truncate(os.__file__, 0),\n"
        "    lambda: os.open(os.__file__, os.O_RDONLY | os.O_TRUNC)):\n"
        "  try: f(); print('got')\n  except OSError as e: print(e.strerror)",
        "ok", {"bwrap": "Read-only file system", "landlock": "Operation not permitted\nOperation not"},
    ),
    "messages to sockets of the host": Case(
        "import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)", "error",
        ("not implemented", DENIED),
    ),
    "locks on host files": Case(
        "import fcntl, os\nfcntl.flock(open(os.__file__), fcntl.LOCK_EX)", "error", DENIED
    ),
    "locks on parts of host files": Case(
        "import fcntl, os\nfcntl.lockf(open(os.__file__), fcntl.LOCK_SH)", "error", DENIED
    ),
    "a look at the locks of others": Case(
        "import fcntl, os, struct\nfcntl.fcntl(open(os.__file__), fcntl.F_GETLK, struct.pack('hhqqi', 1, 0, 0, 1, 0))",
        "error", DENIED,
    ),
    "a pipe of packets": Case(
        "import fcntl, os\nfcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT)", "error", "not implemented"
    ),
    "descriptors of its own for a thread": Case(
        LIBC + "print(libc.syscall(436, 900, 900, 2))\n" + ERROR, "ok", "-1\nFunction not implemented"
    ),
    "watching folders of the host": Case(
        LIBC + "print(libc.inotify_init1(0))\n" + ERROR, "ok", "-1\nOperation not permitted"
    ),
    "threads by raw calls": Case(
        LIBC + "import mmap, time\nprint('a')\n"
        "code = mmap.mmap(-1, 4096, prot=7)\n"
        "n = 0\nimport threading\nthreading.stack_size(32768)\n"
        "while True:\n  threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "killed|error|timeout",
        ("[killed: more than 128 threads]", "can't start new thread", "MemoryError"), "a",
    ),
    "a thread with descriptors of its own": Case(
        LIBC + "print(libc.syscall(56, 0x10000 | 0x800 | 0x100, 0, 0, 0, 0) "
        "if os.uname().machine == 'x86_64' else -1)\n" + ERROR, "ok", "-1",
    ),
    "signals pending": Case(
        "import ctypes\nlibc = ctypes.CDLL(None)\nt = ctypes.c_int()\n"
        "print(sum(libc.syscall(222, 1, 0, ctypes.byref(t)) == 0 for _ in range(3000)) < 2000 "
        "if __import__('os').uname().machine == 'x86_64' else True)",
        "ok", "True",
    ),
    "errors without a place to be told": Case(
        "import os\nos.closerange(0, 64)\n1 / 0", "error", "[exited with code 1]"
    ),
    "the processor's limit lowered": Case(
        "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (0, 0))\nwhile True: pass",
        "killed|timeout", ("[killed: SIGKILL]", "[timed out"),
    ),
    "a signal of a limit": Case(
        "import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)", "killed", "[killed: SIGXCPU]"
    ),
    "exceptions that break their printing": Case(
        "class E(Exception):\n  def __str__(self): raise SystemExit(0)\nraise E", "error", "E"
    ),
    "exit handlers that do not end": Case(
        "import atexit, time\natexit.register(time.sleep, 99)\nprint('a')", "ok|timeout", ("a", WALL)
    ),
    "a value whose repr does not end": Case(
        "class R:\n  def __repr__(self):\n    while True: pass\nprint('a')\nR()", "timeout", TIME, "a"
    ),
    "a regular expression without end": Case(
        "import re\nprint('a')\nre.match(r'(a+)+$', 'a' * 50 + 'b')", "timeout", TIME, "a"
    ),
    "timers": Case(
        "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.1)\ntime.sleep(9)", "killed",
        "[killed: SIGALRM]",
    ),
    "stopping itself": Case("import os, signal\nprint('a')\nos.kill(os.getpid(), signal.SIGSTOP)", "timeout", WALL, "a"),
    "output of the zygote forged": Case(
        "import os\nprint('a')\nfor n in range(3, 99):\n  try: os.write(n, b'{\"ended\": 0}')\n  except OSError: pass",
        "ok", "a",
    ),
    "a thread that outlives the code": Case(
        "import threading, time\ndef f():\n  while True: time.sleep(0.01)\n"
        "threading.Thread(target=f, daemon=True).start()\nprint('a')",
        "ok", "a",
    ),
    "builtins replaced": Case(
        "import builtins\nbuiltins.print = None\nbuiltins.repr = None\n1 + 1", "error", "TypeError"
    ),
    "the standard library replaced": Case(
        "import os, sys\nos._exit = None\nsys.stdout.flush = None\nprint('a')", "ok|error|killed", "a"
    ),
}  # fmt: skip

# What must work.
BENIGN = {
    "threads": Case(
        "import threading\nt = [threading.Thread(target=print, args=(n,)) for n in range(3)]\n"
        "[x.start() for x in t]\n[x.join() for x in t]\nprint('end')", "ok", "end",
    ),
    "thread pool": Case(
        "from concurrent.futures import ThreadPoolExecutor as P\nlist(P(4).map(abs, [-1, 2]))",
        "ok", "[1, 2]",
    ),
    "asyncio": Case(
        "import asyncio\nasync def f():\n  await asyncio.sleep(0.01)\n  return 5\nasyncio.run(f())",
        "ok", "5",
    ),
    "numpy": Case("import numpy as np\nnp.linalg.det(np.eye(3) * 2).round()", "ok", "8.0"),
    "sympy": Case("from sympy import *\nx = symbols('x')\nsolve(x**2 - 2, x)", "ok", "[-sqrt(2), sqrt(2)]"),
    "fractions": Case("from fractions import Fraction as F\nF(1, 3) + F(1, 6)", "ok", "Fraction(1, 2)"),
    "files": Case(
        "with open('a.txt', 'w') as f: f.write('hello')\nopen('a.txt').read()", "ok|error",
        {"bwrap": "hello", "landlock": DENIED},
    ),
    "a signal to itself": Case(
        "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('got'))\n"
        "os.kill(os.getpid(), signal.SIGUSR1)", "ok", "got",
    ),
    "flags of a descriptor": Case(
        "import os\nr, w = os.pipe()\nos.set_blocking(r, False)\nos.get_blocking(r)", "ok", "False"
    ),
    "annotations": Case("def f(x: int) -> str: pass\nf.__annotations__['x'] is int", "ok", "True"),
    "an annotation that is not there": Case("def f(x: nonsense): pass", "error", "NameError"),
    "the last expression": Case("x = 2\nx + 3  # sum", "ok", "5"),
    "an assignment last": Case("print('a')\ny = 1  # not shown", "ok", "a"),
    "a call over several lines": Case("max(\n  1,\n  2,\n)", "ok", "2"),
    "a definition last": Case("print('a')\ndef f():\n  return 1", "ok", "a"),
    "None last": Case("print('a')\nNone", "ok", "a"),
    "a string with braces": Case("'{x}' + \"'\"", "ok", "{x}"),
    "an error after output": Case("print('a')\n1 / 0", "error", "ZeroDivisionError", "a"),
    "dataclasses and pickle": Case(
        "import pickle\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))).__name__", "ok", "'A'"
    ),
    "random numbers": Case("import random\nrandom.random() != random.random()", "ok", "True"),
}  # fmt: skip
