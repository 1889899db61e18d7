//! From the options to what accounts give to each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use config::options::{
    Account as AccountOptions, Export, ExportKind, Import as ImportOptions, ImportKind, Mapping, Options,
    RESPONSE_THRESHOLD_DEFAULT, ResponseType,
};
use routing::account::Mappings;
use routing::imports::{InvalidImport, Request, Response, ServiceImport, StreamImport};

use super::deliver::Import;
use crate::net::sink::{Account, Sink, Subscription};

/// What every account may ask the system account about itself, and how many answer. The name of the account stands for
/// `*` in what the request becomes there.
const SYSTEM_SERVICES: [(&str, &str, Response); 4] = [
    ("$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.ACCOUNT.*.CONNZ", Response::Many),
    ("$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.ACCOUNT.*.CONNZ", Response::Many),
    ("$SYS.REQ.ACCOUNT.PING.STATZ", "$SYS.REQ.ACCOUNT.*.STATZ", Response::Many),
    ("$SYS.REQ.USER.INFO", "$SYS.REQ.USER.INFO", Response::Single),
];
/// Numbers of exports that no configuration reaches.
const SYSTEM_EXPORT: usize = 0xff00;

/// What was built from which options, so that it can be taken back.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Exports and imports by account.
    from: Vec<(String, Vec<Export>, Vec<ImportOptions>)>,
    /// All accounts.
    names: Vec<String>,
    /// Subscriptions of services, with the accounts they are in.
    services: Vec<(Arc<Account>, Arc<Subscription>)>,
}

/// Accounts by name.
type Accounts = BTreeMap<String, Arc<Account>>;

impl Links {
    /// Brings exports, imports and mappings in line with new options. What has not changed is left alone, with the replies
    /// that are waited for.
    pub(super) fn update(&mut self, options: &Options, accounts: &Accounts) {
        map(options, accounts);
        let from: Vec<_> = options
            .accounts
            .iter()
            .map(|account| (account.name.clone(), account.exports.clone(), account.imports.clone()))
            .collect();
        let names: Vec<String> = accounts.keys().cloned().collect();
        if from == self.from && names == self.names {
            return;
        }
        for (name, _, _) in &self.from {
            if let Some(account) = accounts.get(name) {
                account.set_streams(Vec::new());
            }
        }
        for (account, subscription) in self.services.drain(..) {
            account.interest.remove(account.name(), &subscription);
        }
        self.from = from;
        self.names = names;
        for configured in &options.accounts {
            self.link(options, configured, accounts);
        }
        self.link_system(accounts);
    }

    /// Lets every account ask the system account about itself.
    fn link_system(&mut self, accounts: &Accounts) {
        let Some(system) = accounts.values().find(|account| account.is_system()) else { return };
        for importer in accounts.values().filter(|account| !account.is_system()) {
            for (number, (local, there, response)) in SYSTEM_SERVICES.iter().enumerate() {
                let subject = there.replace('*', importer.name());
                let request = Request {
                    importer,
                    exporter: system,
                    subject: subject.as_bytes(),
                    local: local.as_bytes(),
                    export: identity(system, SYSTEM_EXPORT + number),
                    response: *response,
                    threshold: RESPONSE_THRESHOLD_DEFAULT,
                    share: true,
                };
                let service = ServiceImport::new(&request, Sink::Import, rand::random());
                // A name with dots or blanks makes no subject: such an account cannot ask.
                if let Some(subscription) = service.ok().and_then(|service| subscribe(importer, service)) {
                    self.services.push((Arc::clone(importer), subscription));
                }
            }
        }
    }

    fn link(&mut self, options: &Options, configured: &AccountOptions, accounts: &Accounts) {
        let Some(importer) = accounts.get(&configured.name) else { return };
        let mut streams = Vec::new();
        for import in &configured.imports {
            let exporter = accounts.get(&import.account);
            let Some(pair) = options.account(&import.account).zip(exporter) else { continue };
            let result = match import.kind {
                ImportKind::Stream => stream(importer, pair.1, import).map(|stream| streams.push(stream)),
                ImportKind::Service { share } => service(importer, pair, (import, share)).map(|service| {
                    if let Some(subscription) = subscribe(importer, service) {
                        self.services.push((Arc::clone(importer), subscription));
                    }
                }),
            };
            // The configuration was checked with the same transforms.
            assert!(result.is_ok(), "{result:?} in a configuration that was accepted");
        }
        importer.set_streams(streams);
    }
}

/// Puts mappings in force.
fn map(options: &Options, accounts: &Accounts) {
    let cluster = options.cluster.as_ref().and_then(|cluster| cluster.name.as_deref());
    for (name, account) in accounts {
        let own = options.account(name).map(|account| account.mappings.as_slice());
        let global = (*name == config::options::GLOBAL_ACCOUNT).then_some(options.mappings.as_slice());
        let mappings = own.or(global).unwrap_or_default();
        let made = Mappings::new(mappings.iter().map(|mapping| destinations(mapping, cluster)));
        assert!(made.is_ok(), "{made:?} in a configuration that was accepted");
        account.set_mappings(made.unwrap_or_default());
    }
}

/// A source with the destinations that count in this cluster.
fn destinations<'a>(mapping: &'a Mapping, cluster: Option<&str>) -> (&'a [u8], Vec<(&'a [u8], u8)>) {
    let of = |cluster: Option<&str>| {
        let chosen = mapping.destinations.iter().filter(|one| one.cluster.as_deref() == cluster);
        chosen.map(|one| (one.subject.as_bytes(), one.weight)).collect::<Vec<_>>()
    };
    let mut destinations = if cluster.is_some() { of(cluster) } else { Vec::new() };
    if destinations.is_empty() {
        destinations = of(None);
    }
    (mapping.source.as_bytes(), destinations)
}

fn stream(
    importer: &Arc<Account>,
    exporter: &Arc<Account>,
    import: &ImportOptions,
) -> Result<Arc<StreamImport<Sink>>, InvalidImport> {
    let (subject, local) = (import.subject.as_bytes(), import.local.as_bytes());
    StreamImport::new((importer, exporter), subject, local, Sink::Import).map(Arc::new)
}

fn service(
    importer: &Arc<Account>,
    (configured, exporter): (&AccountOptions, &Arc<Account>),
    (import, share): (&ImportOptions, bool),
) -> Result<ServiceImport<Sink>, InvalidImport> {
    let (index, response, threshold) = export(configured, &import.subject);
    let request = Request {
        importer,
        exporter,
        subject: import.subject.as_bytes(),
        local: import.local.as_bytes(),
        export: identity(exporter, index),
        response,
        threshold,
        share,
    };
    ServiceImport::new(&request, Sink::Import, rand::random())
}

/// The export that a subject belongs to: its place, and how it answers.
fn export(account: &AccountOptions, subject: &str) -> (usize, Response, std::time::Duration) {
    let services = || {
        account.exports.iter().enumerate().filter_map(|(index, export)| match export.kind {
            ExportKind::Service { response, threshold } => Some((index, export, response, threshold)),
            ExportKind::Stream => None,
        })
    };
    let exact = services().find(|(_, export, ..)| export.subject == subject);
    let covering = || {
        services().find(|(_, export, ..)| subject::is_subset(subject.as_bytes(), export.subject.as_bytes()))
    };
    exact.or_else(covering).map_or(
        (0, Response::Single, RESPONSE_THRESHOLD_DEFAULT),
        |(index, _, response, threshold)| {
            let is_single = response == ResponseType::Singleton;
            (index, if is_single { Response::Single } else { Response::Many }, threshold)
        },
    )
}

/// A number that no other export has: the account's address, which has room for small numbers behind it.
fn identity(exporter: &Arc<Account>, index: usize) -> u64 {
    let address = Arc::as_ptr(exporter).addr() as u64;
    address.wrapping_mul(0x1_0000).wrapping_add(index as u64)
}

fn subscribe(importer: &Arc<Account>, service: ServiceImport<Sink>) -> Option<Arc<Subscription>> {
    let local: Box<[u8]> = service.local().into();
    let sink = Sink::Import(Arc::new(Import::Service(service)));
    let subscription = Arc::new(Subscription::service(sink, &local));
    importer.interest.insert(importer.name(), &subscription).ok().map(|()| subscription)
}
