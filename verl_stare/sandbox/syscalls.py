"""Which system calls a model's code may make, and the filter that the kernel holds it to.

What is listed as allowed works; what is listed as refused fails with EPERM, which Python reports as
"Operation not permitted"; any other call does not exist (ENOSYS), so that new ones are not let in
and libraries fall back to older ones. The filter is compiled by libseccomp through pyseccomp.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import socket
import tempfile
import termios
from typing import Any

from verl_stare.sandbox.zygote import INSTRUCTION_SIZE, OWN_PID, operand

_ALLOWED = """
read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range
open openat openat2 creat dup dup2 dup3 pipe pipe2 access faccessat faccessat2 stat fstat lstat
newfstatat statx fstatfs statfs readlink readlinkat getcwd chdir fchdir getdents getdents64
ftruncate truncate fallocate fsync fdatasync sync_file_range fadvise64 flock umask mkdir mkdirat
rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat copy_file_range
sendfile inotify_init1 inotify_add_watch inotify_rm_watch mmap mremap munmap mprotect madvise
mincore msync mlock munlock mlock2 brk futex futex_waitv set_robust_list set_tid_address rseq
membarrier sched_yield arch_prctl exit exit_group restart_syscall getpid getppid gettid getpgid
getpgrp getsid getuid geteuid getgid getegid setrlimit getresuid getresgid getgroups getcpu
sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
getpriority uname sysinfo getrusage getrlimit times capget rt_sigaction rt_sigprocmask rt_sigpending
rt_sigsuspend rt_sigreturn rt_sigtimedwait sigaltstack pause alarm getitimer setitimer timer_create
timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime
timerfd_gettime signalfd signalfd4 eventfd eventfd2 clock_gettime clock_getres clock_nanosleep
nanosleep gettimeofday time poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl
epoll_wait epoll_pwait epoll_pwait2 getrandom wait4 waitid sendto recvfrom sendmsg recvmsg shutdown
getsockopt setsockopt getsockname getpeername
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
get_mempolicy vmsplice splice tee
"""
# Attributes of files, which Landlock does not govern.
_ATTRIBUTES = """
chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat
setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr getxattr lgetxattr fgetxattr
listxattr llistxattr flistxattr
"""
_CLONE_THREAD = 0x10000
_PRCTL = (15, 16, 3, 0x53564D41)  # PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_VMA
_IOCTL = (termios.TCGETS, termios.FIONREAD, termios.TIOCGWINSZ, 0x5421, 0x5450, 0x5451)
# Signals and leases would go to other processes.
_FCNTL = (
    fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL,
    fcntl.F_SETFL, fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW, 36, 37, 38, 1032,
)  # fmt: skip


class FilterUnavailable(RuntimeError):
    """No filter can be made here: libseccomp or its binding is missing."""


@functools.lru_cache
def compiled(attributes: bool) -> bytes:
    """The filter, as the kernel takes it, with `OWN_PID` for the number of the process.

    Args:
        attributes: whether modes, owners, times and the like of files may be changed.

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
    changes = _ATTRIBUTES.split()
    for name in [*_ALLOWED.split(), *(changes if attributes else [])]:
        _add(rules, seccomp.ALLOW, name)
    for name in [*_REFUSED.split(), *([] if attributes else changes)]:
        _add(rules, refuse, name)
    equal, masked = seccomp.EQ, seccomp.MASKED_EQ
    for name, allowed, otherwise in (
        # Threads, and no processes.
        (
            "clone",
            [seccomp.Arg(0, masked, _CLONE_THREAD, _CLONE_THREAD)],
            seccomp.Arg(0, masked, _CLONE_THREAD, 0),
        ),
        ("kill", [seccomp.Arg(0, equal, OWN_PID)], seccomp.Arg(0, seccomp.NE, OWN_PID)),
        ("tgkill", [seccomp.Arg(0, equal, OWN_PID)], seccomp.Arg(0, seccomp.NE, OWN_PID)),
        (
            "socketpair",
            [seccomp.Arg(0, equal, int(socket.AF_UNIX))],
            seccomp.Arg(0, seccomp.NE, int(socket.AF_UNIX)),
        ),
        ("prlimit64", [seccomp.Arg(0, equal, pid) for pid in (0, OWN_PID)], None),
        ("prctl", [seccomp.Arg(0, equal, option) for option in _PRCTL], None),
        ("ioctl", [seccomp.Arg(1, equal, request) for request in _IOCTL], None),
        ("fcntl", [seccomp.Arg(1, equal, command) for command in _FCNTL], None),
    ):
        for argument in allowed:
            _add(rules, seccomp.ALLOW, name, argument)
        if otherwise is not None:
            _add(rules, refuse, name, otherwise)
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
