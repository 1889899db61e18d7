//! The model as the kernel asks for it.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;

use crate::content::PAGE;
use crate::model::{Attributes, Model};

/// Nothing may be remembered: a crash changes everything behind the kernel's back.
const REMEMBERED: Duration = Duration::ZERO;
/// The first answer about a number is as good as any: numbers are never given twice.
const GENERATION: Generation = Generation(0);
/// Unit of the blocks that a file takes.
const BLOCK: u64 = 512;
const NAME_MAX: u32 = 255;
/// `FALLOC_FL_KEEP_SIZE`.
const KEEP_SIZE: i32 = 1;

/// Answers the kernel from a model that others crash.
pub(crate) struct Served(pub(crate) Arc<Mutex<Model>>);

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from(io::Error::from(error))
}

fn attr(request: &Request, of: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(of.node),
        size: of.len,
        blocks: of.pages * (PAGE as u64 / BLOCK),
        atime: of.modified,
        mtime: of.modified,
        ctime: of.modified,
        crtime: of.modified,
        kind: kind(of.is_directory),
        perm: of.mode,
        nlink: if of.is_directory { 2 } else { 1 },
        uid: request.uid(),
        gid: request.gid(),
        rdev: 0,
        blksize: PAGE as u32,
        flags: 0,
    }
}

fn kind(is_directory: bool) -> FileType {
    if is_directory { FileType::Directory } else { FileType::RegularFile }
}

/// The permission bits of a mode.
fn permissions(mode: u32, umask: u32) -> u16 {
    (mode & !umask & 0o7777) as u16
}

impl Served {
    fn empty(&self, reply: ReplyEmpty, act: impl FnOnce(&mut Model) -> Result<(), rustix::io::Errno>) {
        let result = act(&mut self.0.lock());
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn entry(
        &self,
        request: &Request,
        reply: ReplyEntry,
        act: impl FnOnce(&mut Model) -> Result<u64, rustix::io::Errno>,
    ) {
        let mut model = self.0.lock();
        let found = act(&mut model).and_then(|number| model.attributes(number));
        drop(model);
        match found {
            Ok(found) => reply.entry(&REMEMBERED, &attr(request, &found), GENERATION),
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Answers with the attributes of a node, after a change of it.
    fn attributes(
        &self,
        request: &Request,
        node: INodeNo,
        reply: ReplyAttr,
        change: impl FnOnce(&mut Model) -> Result<(), rustix::io::Errno>,
    ) {
        let mut model = self.0.lock();
        let found = change(&mut model).and_then(|()| model.attributes(node.0));
        drop(model);
        match found {
            Ok(found) => reply.attr(&REMEMBERED, &attr(request, &found)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn opened(&self, node: INodeNo, flags: FopenFlags, reply: ReplyOpen) {
        let opened = self.0.lock().open(node.0);
        match opened {
            Ok(handle) => reply.opened(FileHandle(handle), flags),
            Err(error) => reply.error(errno(error)),
        }
    }
}

impl Filesystem for Served {
    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(request, reply, |model| model.lookup(parent.0, name));
    }

    fn getattr(&self, request: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.attributes(request, node, reply, |_| Ok(()));
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.attributes(request, node, reply, |model| {
            if let Some(mode) = mode {
                model.set_mode(node.0, permissions(mode, 0))?;
            }
            size.map_or(Ok(()), |size| model.set_len(node.0, size))
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.entry(request, reply, |model| model.create(parent.0, name, permissions(mode, umask), true));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(reply, |model| model.remove(parent.0, name, false));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.empty(reply, |model| model.remove(parent.0, name, true));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.empty(reply, |model| {
            if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
                return Err(rustix::io::Errno::INVAL);
            }
            if !flags.is_empty() && model.lookup(to_parent.0, to_name).is_ok() {
                return Err(rustix::io::Errno::EXIST);
            }
            model.rename((parent.0, name), (to_parent.0, to_name))
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let mut model = self.0.lock();
        let created = model.create(parent.0, name, permissions(mode, umask), false).and_then(|number| {
            let handle = model.open(number)?;
            Ok((model.attributes(number)?, handle))
        });
        drop(model);
        match created {
            Ok((found, handle)) => {
                let (found, handle) = (attr(request, &found), FileHandle(handle));
                reply.created(&REMEMBERED, &found, GENERATION, handle, FopenFlags::FOPEN_DIRECT_IO);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.opened(node, FopenFlags::FOPEN_DIRECT_IO, reply);
    }

    fn read(
        &self,
        _: &Request,
        _node: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = self.0.lock().read(handle.0, offset, size as usize);
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _node: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.0.lock().write(handle.0, offset, data);
        match written {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Closing makes nothing durable.
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.empty(reply, |model| model.sync(handle.0));
    }

    fn release(
        &self,
        _: &Request,
        _node: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.lock().close(handle.0);
        reply.ok();
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.opened(node, FopenFlags::empty(), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        _node: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let model = self.0.lock();
        match model.listing(handle.0) {
            Ok(entries) => {
                let first = usize::try_from(offset).unwrap_or(usize::MAX);
                for (next, entry) in (1u64..).zip(entries).skip(first) {
                    if reply.add(INodeNo(entry.node), next, kind(entry.is_directory), &entry.name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.lock().close(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.empty(reply, |model| model.sync(handle.0));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (taken, total) = self.0.lock().usage();
        let (total, free) = (total as u64, total.saturating_sub(taken) as u64);
        reply.statfs(total, free, free, 0, 0, PAGE as u32, NAME_MAX, PAGE as u32);
    }

    fn fallocate(
        &self,
        _: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.empty(reply, |model| match mode {
            // Space is not set aside: the capacity is for what is written.
            KEEP_SIZE => Ok(()),
            0 => {
                let len = model.attributes(node.0)?.len;
                model.set_len(node.0, len.max(offset.saturating_add(length)))
            }
            _ => Err(rustix::io::Errno::OPNOTSUPP),
        });
    }
}
