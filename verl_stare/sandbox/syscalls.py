"""Which system calls a model's code may make, and the filter that the kernel holds it to.

What is listed as allowed works; what is listed as refused fails with EPERM, which Python reports as
"Operation not permitted"; any other call does not exist (ENOSYS), so that new ones are not let in
and libraries fall back to older ones. The filter is compiled by libseccomp through pyseccomp.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import socket
import tempfile
import termios
from typing import Any

from verl_stare.sandbox.confine import INSTRUCTION_SIZE, OWN_PID, operand

_ALLOWED = """
read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close dup
dup2 dup3 pipe pipe2 access faccessat faccessat2 stat fstat lstat newfstatat statx fstatfs statfs
readlink readlinkat getcwd chdir fchdir getdents getdents64 fadvise64 umask mkdir mkdirat rmdir
unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat copy_file_range sendfile
mmap mremap munmap mprotect madvise mincore msync mlock munlock mlock2 brk futex futex_waitv
set_robust_list set_tid_address rseq membarrier sched_yield arch_prctl exit exit_group
restart_syscall getpid getppid gettid getpgid getpgrp getsid getuid geteuid getgid getegid setrlimit
getresuid getresgid getgroups getcpu sched_getaffinity sched_getparam sched_getscheduler
sched_get_priority_max sched_get_priority_min getpriority uname sysinfo getrusage getrlimit times
capget rt_sigaction rt_sigprocmask rt_sigpending rt_sigsuspend rt_sigreturn rt_sigtimedwait
sigaltstack pause alarm getitimer setitimer timer_create timer_settime timer_gettime
timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime signalfd signalfd4
eventfd eventfd2 clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time poll ppoll
select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 getrandom
wait4 waitid sendto recvfrom sendmsg recvmsg shutdown getsockopt getsockname getpeername
"""
_REFUSED = """
fork vfork execve execveat socket connect bind listen accept accept4 tkill rt_sigqueueinfo
rt_tgsigqueueinfo pidfd_open pidfd_getfd pidfd_send_signal ptrace process_vm_readv process_vm_writev
process_madvise process_mrelease kcmp memfd_create memfd_secret shmget shmat shmctl shmdt semget
semop semtimedop semctl msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_timedsend mq_timedreceive
mq_notify mq_getsetattr io_uring_setup io_uring_enter io_uring_register io_setup io_submit bpf
perf_event_open userfaultfd add_key request_key keyctl unshare setns mount umount2 mount_setattr
move_mount open_tree fsopen fsconfig fsmount fspick pivot_root chroot mknod mknodat
name_to_handle_at open_by_handle_at fanotify_init fanotify_mark quotactl quotactl_fd swapon swapoff
reboot kexec_load kexec_file_load init_module finit_module delete_module syslog acct iopl ioperm
modify_ldt personality sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex
setpriority ioprio_set ioprio_get sched_setaffinity sched_setscheduler sched_setparam sched_setattr
setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset setpgid
setsid seccomp vhangup nfsservctl migrate_pages move_pages mbind set_mempolicy get_robust_list
lookup_dcookie mlockall munlockall landlock_create_ruleset landlock_add_rule landlock_restrict_self
get_mempolicy vmsplice splice tee fsync fdatasync sync_file_range sync syncfs flock inotify_init
inotify_init1 inotify_add_watch inotify_rm_watch setsockopt chmod fchmod fchmodat fchmodat2 chown
fchown lchown fchownat utime utimes utimensat futimesat setxattr lsetxattr fsetxattr removexattr
lremovexattr fremovexattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
"""
# What makes a file empty, which Landlock governs only from its third version on.
_TRUNCATING = "truncate ftruncate fallocate creat"
# VM, FS, FILES, SIGHAND, THREAD: what makes a thread, with the limits of its process.
_CLONE_THREAD = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000
# Of a socket pair: streams and packets, which cannot be sent elsewhere; less the flags.
_PAIRS, _PAIR_MASK = (int(socket.SOCK_STREAM), int(socket.SOCK_SEQPACKET)), 0xF
_PRCTL = (15, 16, 3, 0x53564D41)  # PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_VMA
_IOCTL = (termios.TCGETS, termios.FIONREAD, termios.TIOCGWINSZ, 0x5421, 0x5450, 0x5451)
# Signals and leases would go to other processes, and so would locks: of files that jails share.
_FCNTL = (
    fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, 1032,
)  # fmt: skip
_LOCKS = (fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW, 36, 37, 38)
# A pipe of packets (O_DIRECT) would keep its reader busy byte by byte.
_FLAGS_NOT_SET = ~(os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | 0o100000) & 0xFFFFFFFF
# CLOSE_RANGE_UNSHARE would give each thread descriptors of its own, each up to the limit.
_CLOSE_RANGE = (0, 4)


class FilterUnavailable(RuntimeError):
    """No filter can be made here: libseccomp or its binding is missing."""


@functools.lru_cache
def compiled(writes: bool) -> bytes:
    """The filter, as the kernel takes it, with `OWN_PID` for the number of the process.

    Args:
        writes: whether the tier has files that may be written.

    Raises:
        FilterUnavailable: libseccomp or its binding is missing.
    """
    try:
        import pyseccomp as seccomp
    except (ImportError, RuntimeError, AttributeError) as error:
        raise FilterUnavailable(
            f"no seccomp filter: {error}; install Debian's libseccomp2 and `pip install pyseccomp`"
        ) from error
    refuse = seccomp.ERRNO(errno.EPERM)
    rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.ENOSYS))
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)
    truncating = _TRUNCATING.split()
    for name in [*_ALLOWED.split(), *([*truncating, "open", "openat"] if writes else [])]:
        _add(rules, seccomp.ALLOW, name)
    for name in [*_REFUSED.split(), *([] if writes else truncating)]:
        _add(rules, refuse, name)
    equal, masked = seccomp.EQ, seccomp.MASKED_EQ
    if not writes:
        for name, place in (("open", 1), ("openat", 2)):
            _add(rules, seccomp.ALLOW, name, seccomp.Arg(place, masked, os.O_TRUNC, 0))
            _add(rules, refuse, name, seccomp.Arg(place, masked, os.O_TRUNC, os.O_TRUNC))
    pair = seccomp.Arg(0, equal, int(socket.AF_UNIX))
    for kind in _PAIRS:
        _add(rules, seccomp.ALLOW, "socketpair", pair, seccomp.Arg(1, masked, _PAIR_MASK, kind))
    # Threads, and no processes.
    thread = seccomp.Arg(0, masked, _CLONE_THREAD, _CLONE_THREAD)
    _add(rules, seccomp.ALLOW, "clone", thread)
    _add(rules, refuse, "clone", seccomp.Arg(0, masked, 0x10000, 0))
    for name in ("kill", "tgkill"):
        _add(rules, seccomp.ALLOW, name, seccomp.Arg(0, equal, OWN_PID))
        _add(rules, refuse, name, seccomp.Arg(0, seccomp.NE, OWN_PID))
    for name, allowed in (
        ("prlimit64", [seccomp.Arg(0, equal, pid) for pid in (0, OWN_PID)]),
        ("prctl", [seccomp.Arg(0, equal, option) for option in _PRCTL]),
        ("ioctl", [seccomp.Arg(1, equal, request) for request in _IOCTL]),
        ("fcntl", [seccomp.Arg(1, equal, command) for command in _FCNTL]),
        ("close_range", [seccomp.Arg(2, equal, flags) for flags in _CLOSE_RANGE]),
    ):
        for argument in allowed:
            _add(rules, seccomp.ALLOW, name, argument)
    for command in _LOCKS:
        _add(rules, refuse, "fcntl", seccomp.Arg(1, equal, command))
    flags = seccomp.Arg(2, masked, _FLAGS_NOT_SET, 0)
    _add(rules, seccomp.ALLOW, "fcntl", seccomp.Arg(1, equal, fcntl.F_SETFL), flags)
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        program = file.read()
    whole = range(0, len(program), INSTRUCTION_SIZE)
    own_pid = [start for start in whole if program[start + 4 : start + 8] == operand(OWN_PID)]
    if not own_pid or len(own_pid) != program.count(operand(OWN_PID)):
        raise FilterUnavailable("no seccomp filter: libseccomp has compiled it in an unknown way")
    return program


def _add(rules: Any, action: int, name: str, *arguments: Any) -> None:
    import pyseccomp as seccomp

    try:
        number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, name)
    except OSError:
        # Unknown to this libseccomp, or no call of this architecture: it stays one that is not.
        return
    if number >= 0:
        rules.add_rule(action, number, *arguments)
