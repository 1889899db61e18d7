//! System calls that the store borrows.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use store::disk::os::Calls;

/// The calls of this system.
pub fn calls() -> Calls {
    Calls { reserve: Some(reserve), free_space: Some(free_space) }
}

fn reserve(file: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    Ok(fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes)?)
}

fn free_space(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}
