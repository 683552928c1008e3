//! Where io_uring is forbidden, as in many containers.

use crate::support::{Notes, listen, reactor, until};
use std::process::Command;
use weir_reactor::{Backend, Reactor, Transport, Waker};

/// Set for the child, which forbids it to itself.
const CHILD: &str = "WEIR_REACTOR_FORBIDDEN";

const FILES_MAX: u64 = 64;

#[test]
fn without_io_uring_everything_works_up_to_the_limit_on_open_files() {
    if std::env::var_os(CHILD).is_none() {
        let name = "forbidden::without_io_uring_everything_works_up_to_the_limit_on_open_files";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(child.status.success() && out.contains("1 passed"), "{out}\n{err}");
        return;
    }
    forbid();
    for backend in [Backend::IoUring, Backend::Auto] {
        let text = backend.check().unwrap_err().to_string();
        assert!(text.contains("forbidden") && text.contains("seccomp"), "{text}");
    }
    assert!(Reactor::with_backend(Waker::new().unwrap(), Backend::IoUring).is_err());

    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = Some(FILES_MAX);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    assert_eq!(Backend::Auto.connections_max(), FILES_MAX as usize);
    let mut reactor = reactor(Backend::Auto);
    let address = listen(&mut reactor);
    let mut notes = Notes::default();
    let mut connected = 0;
    let error = loop {
        match reactor.io().connect(&Transport::Plain, address, None) {
            Ok(_) => connected += 1,
            Err(error) => break error,
        }
        until(&mut reactor, &mut notes, |notes| notes.connected.len() == connected);
    };
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
    assert!(connected > FILES_MAX as usize / 3, "{connected} connections on each side");
}

/// Makes io_uring_setup fail with EPERM from now on, as a container's seccomp profile does.
#[expect(unsafe_code, reason = "the system is told addresses")]
fn forbid() {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_EQUAL, 0, 1, libc::SYS_io_uring_setup as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: a program of four steps that the system copies (seccomp(2)). It holds for this
    // thread, which is the test's own, and for those that it starts.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(done, "{}", std::io::Error::last_os_error());
}
