//! The one place of this crate with `unsafe`: what runs between fork and exec.
#![expect(unsafe_code, reason = "no safe interface reaches between fork and exec")]

use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::sync::atomic::AtomicPtr;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

/// Starts `program` in a process group of its own, with three pipes.
///
/// The child dies with the *thread* that calls this: the kernel counts threads as parents here. It
/// keeps no descriptor but its three pipes, has no signal blocked, and is never given to a shell:
/// the C library's `execvp` would run a file without a known format through `sh`.
///
/// # Errors
///
/// What the operating system says, be it to the parent or to the child before its exec.
pub(super) fn spawn(
    program: &Path,
    name: &OsStr,
    args: &[OsString],
    environment: Vec<OsString>,
    cwd: Option<&Path>,
) -> io::Result<Child> {
    let path = c_string(program.as_os_str())?;
    let arguments = StringArray::new([name].into_iter().chain(args.iter().map(OsString::as_os_str)))?;
    let environment = StringArray::new(environment.iter().map(OsString::as_os_str))?;
    let host = getpid();

    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    let replace = move || {
        die_with(host)?;
        unblock_signals();
        close_the_rest_on_exec();
        // SAFETY: `path` is a C string and both arrays are arrays of pointers to C strings, ended by
        // a null pointer; all are owned by this closure and outlive the call. execve is
        // async-signal-safe, and returns only if it failed.
        unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        Err(io::Error::last_os_error())
    };
    // SAFETY: the closure runs in a child forked from a process with other threads. It only makes
    // system calls that are async-signal-safe, on memory prepared before the fork; it neither
    // allocates nor takes a lock, and errors made from a system error code hold no allocation.
    unsafe { command.pre_exec(replace) };
    command.spawn()
}

/// Asks the kernel for SIGKILL when the parent dies, and checks that it has not died before.
fn die_with(host: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // No parent at all means that it lives in an outer process namespace, where it cannot be asked.
    if getppid().is_some_and(|parent| parent != host) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    Ok(())
}

/// A host that blocks SIGTERM in its threads must not make its children deaf to it.
fn unblock_signals() {
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set it is given a valid pointer to, and only then it is
    // read; both functions are async-signal-safe. They cannot fail with these arguments.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// Keeps descriptors of the host that somebody opened without close-on-exec away from the child.
fn close_the_rest_on_exec() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the call changes nothing but the flags of this child's own descriptors. Kernels before
    // 5.11 do not know it; then the descriptors stay as their openers wanted.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

/// C strings, and an array of pointers to them with a null pointer at its end.
struct StringArray {
    /// Owns what the pointers point to.
    _strings: Vec<CString>,
    /// Atomic because a plain pointer could not be moved into the closure; laid out like one.
    pointers: Vec<AtomicPtr<c_char>>,
}

impl StringArray {
    fn new<'a>(texts: impl IntoIterator<Item = &'a OsStr>) -> io::Result<Self> {
        let strings = texts.into_iter().map(c_string).collect::<io::Result<Vec<_>>>()?;
        let ends = std::iter::once(ptr::null_mut());
        let pointers = strings.iter().map(|string| string.as_ptr().cast_mut()).chain(ends);
        Ok(Self { pointers: pointers.map(AtomicPtr::new).collect(), _strings: strings })
    }

    fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr().cast()
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn output(script: &str) -> String {
        let arguments = [OsString::from("-c"), script.into()];
        let environment = vec!["A=1".into(), "B=x y".into()];
        let mut child =
            spawn(Path::new("/bin/sh"), "shell".as_ref(), &arguments, environment, Some(Path::new("/")))
                .unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        text
    }

    #[test]
    fn the_child_gets_what_it_is_given_and_nothing_else() {
        let text =
            output("echo $0; pwd; echo $A,$B,$HOME; tr '\\0' '\\n' </proc/$$/environ; exec ls /proc/self/fd");
        assert_eq!(text, "shell\n/\n1,x y,\nA=1\nB=x y\n0\n1\n2\n3\n");
    }

    #[test]
    fn the_child_leads_its_own_group() {
        let text = output("read -r pid comm state ppid group rest </proc/$$/stat; echo $pid $group");
        let (pid, group) = text.trim().split_once(' ').unwrap();
        assert_eq!(pid, group);
    }

    #[test]
    fn descriptors_without_close_on_exec_stay_with_the_host() {
        let open = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
        // The last one is the listing itself.
        assert_eq!(output("exec ls /proc/self/fd"), "0\n1\n2\n3\n");
    }

    #[test]
    fn blocked_signals_are_not_inherited() {
        let blocked = std::thread::spawn(|| {
            // SAFETY: the set is initialised before it is used, and the mask is this thread's alone.
            unsafe {
                let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
                libc::sigfillset(all.as_mut_ptr());
                libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut());
            }
            output("exec grep SigBlk /proc/self/status")
        });
        assert_eq!(blocked.join().unwrap().trim(), "SigBlk:\t0000000000000000");
    }

    #[test]
    fn a_child_dies_with_the_thread_that_made_it() {
        let maker = std::thread::spawn(|| {
            spawn(Path::new("/bin/cat"), "cat".as_ref(), &[], Vec::new(), None).unwrap()
        });
        let mut child = maker.join().unwrap();
        // Its input is still open, so nothing but the signal can have ended it.
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[test]
    fn f004_a_file_without_a_format_is_not_given_to_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script");
        std::fs::write(&file, "echo a shell has run this\n").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let error = spawn(&file, "script".as_ref(), &[], Vec::new(), None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOEXEC));
    }

    #[test]
    fn a_parent_that_is_gone_already_stops_the_start() {
        assert!(die_with(getpid()).is_err(), "nobody is a parent of itself");
        set_parent_process_death_signal(None).unwrap();
    }
}
