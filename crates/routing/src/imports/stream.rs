//! Streams of other accounts, and the shadows that follow them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};

use super::{Import, InvalidImport, MakeSink, Renaming, local_pattern, transform};
use crate::account::Account;
use crate::interest::{Side, Subscription};

/// A stream of another account, as the importing account has it.
#[derive(Debug)]
pub struct StreamImport<S> {
    importer: Weak<Account<S>>,
    exporter: Weak<Account<S>>,
    subject: Box<[u8]>,
    local: Box<[u8]>,
    here: Renaming,
    there: Renaming,
    make: MakeSink<S>,
}

impl<S: Clone + PartialEq> StreamImport<S> {
    /// An import of `subject` of the exporting account as `local`, which may have placeholders.
    pub fn new(
        (importer, exporter): (&Arc<Account<S>>, &Arc<Account<S>>),
        subject: &[u8],
        local: &[u8],
        make: MakeSink<S>,
    ) -> Result<Self, InvalidImport> {
        let (here, there) = match transform(subject, local)? {
            Some(here) => {
                let there = here.reverse().map_err(|error| super::invalid(subject, local, error))?;
                (Renaming::Mapped(Box::new(here)), Renaming::Mapped(Box::new(there)))
            }
            None if subject == local => (Renaming::Same, Renaming::Same),
            None => (Renaming::Fixed(local.into()), Renaming::Fixed(subject.into())),
        };
        Ok(Self {
            importer: Arc::downgrade(importer),
            exporter: Arc::downgrade(exporter),
            subject: subject.into(),
            local: local_pattern(local),
            here,
            there,
            make,
        })
    }

    /// What a subscription of the importing account has to follow in the exporting account; `None` if nothing.
    fn followed(&self, subscribed: &[u8]) -> Option<Vec<u8>> {
        let wanted = subject::intersection(subscribed, &self.local)?;
        if *wanted == *self.local {
            return Some(self.subject.to_vec());
        }
        match &self.there {
            Renaming::Same => Some(wanted),
            Renaming::Fixed(subject) => Some(subject.to_vec()),
            Renaming::Mapped(transform) => transform.apply_pattern(&wanted),
        }
    }
}

/// What stands in the exporting account for a subscription of the importing one.
#[derive(Debug)]
pub struct Shadow<S> {
    import: Arc<StreamImport<S>>,
    /// The subscription it stands for, as it is now.
    original: RwLock<Arc<Subscription<S>>>,
}

impl<S: Clone + PartialEq> Shadow<S> {
    /// The account whose subscription it stands for, unless it is gone.
    pub fn importer(&self) -> Option<Arc<Account<S>>> {
        self.import.importer.upgrade()
    }

    /// The subscription it stands for.
    pub fn original(&self) -> Arc<Subscription<S>> {
        Arc::clone(&self.original.read())
    }

    /// The subject under which a message with this literal subject arrives, if it does.
    pub fn local_subject(&self, literal: &[u8], original: &Subscription<S>) -> Option<Vec<u8>> {
        let subject = self.import.here.apply(literal)?;
        // A wildcard that stands twice in the local name is more than the exporting account can be asked for.
        subject::matches(&subject, &original.subject).then_some(subject)
    }
}

/// A shadow with the account it is in.
type Placed<S> = (Weak<Account<S>>, Arc<Subscription<S>>, Arc<Import<S>>);

/// The streams that one account imports, and the shadows of its subscriptions.
#[derive(Debug)]
pub(crate) struct Streams<S> {
    /// Without imports no subscription has to look further than here.
    active: AtomicBool,
    inner: Mutex<Inner<S>>,
}

#[derive(Debug)]
struct Inner<S> {
    imports: Vec<Arc<StreamImport<S>>>,
    /// By the address of the original, which lives at least as long.
    shadows: HashMap<usize, Vec<Placed<S>>>,
}

impl<S> Default for Streams<S> {
    fn default() -> Self {
        let inner = Inner { imports: Vec::new(), shadows: HashMap::new() };
        Self { active: AtomicBool::new(false), inner: Mutex::new(inner) }
    }
}

impl<S: Clone + PartialEq> Streams<S> {
    /// Has the account such imports?
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// Puts other imports in the place of those that were. `originals` gives the account's local subscriptions.
    pub(crate) fn replace(
        &self,
        imports: Vec<Arc<StreamImport<S>>>,
        originals: impl FnOnce() -> Vec<Arc<Subscription<S>>>,
    ) {
        let mut inner = self.inner.lock();
        if imports.is_empty() && inner.imports.is_empty() {
            return;
        }
        // From here on whoever subscribes waits for the lock, and then finds the new imports.
        self.active.store(!imports.is_empty(), Relaxed);
        inner.imports = imports;
        for (_, placed) in inner.shadows.drain() {
            end(placed);
        }
        for original in originals() {
            inner.follow(&original);
        }
    }

    /// A subscription was added.
    #[cold]
    pub(crate) fn follow(&self, original: &Arc<Subscription<S>>) {
        self.inner.lock().follow(original);
    }

    /// A subscription is gone.
    #[cold]
    pub(crate) fn leave(&self, original: &Arc<Subscription<S>>) {
        if let Some(placed) = self.inner.lock().shadows.remove(&address(original)) {
            end(placed);
        }
    }

    /// Another subscription stands in the place of one with the same subject and queue.
    #[cold]
    pub(crate) fn exchange(&self, old: &Arc<Subscription<S>>, new: &Arc<Subscription<S>>) {
        let mut inner = self.inner.lock();
        let Some(placed) = inner.shadows.remove(&address(old)) else { return };
        for (_, _, import) in &placed {
            if let Import::Shadow(shadow) = &**import {
                *shadow.original.write() = Arc::clone(new);
            }
        }
        inner.shadows.insert(address(new), placed);
    }
}

impl<S: Clone + PartialEq> Inner<S> {
    fn follow(&mut self, original: &Arc<Subscription<S>>) {
        // New imports may have found it already.
        if original.side != Side::Local || self.shadows.contains_key(&address(original)) {
            return;
        }
        let mut placed = Vec::new();
        for import in &self.imports {
            let Some(exporter) = import.exporter.upgrade() else { continue };
            let Some(subject) = import.followed(&original.subject) else { continue };
            let shadow = Shadow { import: Arc::clone(import), original: RwLock::new(Arc::clone(original)) };
            let shadow = Arc::new(Import::Shadow(shadow));
            let sink = (import.make)(Arc::clone(&shadow));
            let subscription =
                Arc::new(Subscription::import(sink, &subject, original.queue.as_deref(), &original.sid));
            if exporter.interest.insert_alone(exporter.name(), &subscription).is_ok() {
                placed.push((Arc::downgrade(&exporter), subscription, shadow));
            }
        }
        if !placed.is_empty() {
            self.shadows.insert(address(original), placed);
        }
    }
}

fn end<S: Clone + PartialEq>(placed: Vec<Placed<S>>) {
    for (account, subscription, _) in placed {
        if let Some(account) = account.upgrade() {
            account.interest.remove_alone(account.name(), &subscription);
        }
    }
}

fn address<S>(subscription: &Arc<Subscription<S>>) -> usize {
    Arc::as_ptr(subscription).addr()
}
