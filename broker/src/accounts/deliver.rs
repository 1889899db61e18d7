//! The way of a message from one account into another.
//!
//! A request goes on in the exporting account as if it had been published there, with a reply that leads back; the answer
//! goes on in the account that asked. Both end up in an ordinary [`Dispatch`] of the other account, which shares the buffers
//! and counters of the one that they came through.

use std::sync::Arc;

use api::event::ClientInfo;
use routing::deliver::{self, Deliver};
use routing::imports::{Import as RoutingImport, Shadow};
use routing::random::Random;

use super::request_info;
use crate::clock;
use crate::net::dispatch::{Dispatch, Message};
use crate::net::sink::{Account, Sink, Subscription};

/// What takes messages into another account, as this server holds it.
pub type Import = RoutingImport<Sink>;
/// A service of another account, as this server holds it.
type ServiceImport = routing::imports::ServiceImport<Sink>;

/// Accounts that one message goes through. Each costs stack, and the configuration may chain as many as it likes.
const HOPS_MAX: usize = 16;
/// Replies of pull consumers have to stay as they are: they name the message that is acknowledged.
const ACK_PREFIX: &[u8] = b"$JS.ACK.";

/// A way from account to account that a message has gone, the last step first.
struct Hop<'a> {
    /// Identity of the export.
    export: u64,
    /// The first import of the way shares who asks.
    share: bool,
    /// Who asks, as the services before were told.
    info: Option<&'a ClientInfo>,
    previous: Option<&'a Self>,
}

impl Hop<'_> {
    /// Was the message there already, or has it gone far enough?
    fn ends(via: Option<&Self>, export: u64) -> bool {
        let mut hops = 0;
        let mut next = via;
        while let Some(hop) = next {
            hops += 1;
            if hop.export == export || hops >= HOPS_MAX {
                return true;
            }
            next = hop.previous;
        }
        false
    }
}

/// A message in an account that it came into from another one.
struct Imported<'d, 'a> {
    dispatch: Dispatch<'d>,
    hop: Hop<'a>,
}

impl Deliver<Sink> for Imported<'_, '_> {
    fn local(&mut self, subscription: &Arc<Subscription>) -> bool {
        match &subscription.sink {
            Sink::Import(import) => match &**import {
                Import::Service(service) => request(&mut self.dispatch, service, Some(&self.hop)),
                Import::Responses => answer(&mut self.dispatch, Some(&self.hop)),
                // What came in as a request or an answer is not passed on as a stream.
                Import::Shadow(_) => false,
            },
            _ => self.dispatch.local(subscription),
        }
    }

    fn route(&mut self, route: &Sink, queues: &[&[u8]]) -> bool {
        self.dispatch.route(route, queues)
    }
}

/// Takes a message that was published in its own account, or came from a peer, into another account.
#[cold]
pub fn import(dispatch: &mut Dispatch<'_>, import: &Import) -> bool {
    match import {
        Import::Service(service) => request(dispatch, service, None),
        Import::Responses => answer(dispatch, None),
        Import::Shadow(shadow) => follow(dispatch, shadow),
    }
}

/// A request goes on in the account that exports the service. False if nobody gets it there.
fn request(dispatch: &mut Dispatch<'_>, service: &ServiceImport, via: Option<&Hop<'_>>) -> bool {
    if Hop::ends(via, service.export) {
        return false;
    }
    let (Some(importer), Some(exporter)) = (service.importer(), service.exporter()) else { return false };
    let mut random = Random::new(rand::random());
    let message = dispatch.message;
    let Some(subject) = service.target(&exporter, message.subject, &mut random) else { return false };
    let (_, plan) = exporter.interest.plan(&subject);
    if plan.is_empty() {
        return false;
    }
    let opened = message.reply.filter(|reply| !reply.starts_with(ACK_PREFIX)).map(|reply| {
        let from = (Arc::downgrade(&importer), reply);
        exporter.responses.open(&exporter, service, from, clock::now())
    });
    let share = via.map_or(service.share, |hop| hop.share);
    let asks = request_info::Request {
        importer: importer.name(),
        reply: message.reply,
        shared_first: share,
        shared_here: service.share,
        for_system: exporter.is_system(),
    };
    let info = request_info::describe(dispatch.publisher, via.and_then(|hop| hop.info), &asks);
    let (payload, header_len) = request_info::set(&message, &info);
    let forwarded = Message {
        subject: &subject,
        reply: opened.as_deref().or(message.reply),
        header_len,
        payload: &payload,
    };
    let hop = Hop { export: service.export, share, info: Some(&info), previous: via };
    let mut imported = Imported { dispatch: within(dispatch, &exporter, forwarded), hop };
    let receivers = deliver::from_client(&plan, &mut random, &mut imported);
    if receivers == 0
        && let Some(reply) = &opened
    {
        exporter.responses.forget(reply);
    }
    receivers > 0
}

/// An answer goes back to the account that asked, on this server and on peers: who asked may have subscribed elsewhere.
fn answer(dispatch: &mut Dispatch<'_>, via: Option<&Hop<'_>>) -> bool {
    let (message, now) = (dispatch.message, clock::now());
    let is_last = message.payload.is_empty();
    let Some(answer) = dispatch.account.responses.take(message.subject, is_last, now) else { return false };
    let Some(requestor) = answer.requestor.upgrade() else { return false };
    let (_, plan) = requestor.interest.plan(&answer.reply);
    if plan.is_empty() {
        dispatch.account.responses.forget(message.subject);
        return false;
    }
    let opened = message.reply.filter(|reply| !reply.starts_with(ACK_PREFIX)).and_then(|reply| {
        requestor.responses.open_again(&requestor, (&dispatch.account.responses, &answer), reply, now)
    });
    let forwarded = Message { subject: &answer.reply, reply: opened.as_deref().or(message.reply), ..message };
    let hop = Hop { export: answer.export, share: false, info: None, previous: via };
    let mut imported = Imported { dispatch: within(dispatch, &requestor, forwarded), hop };
    let receivers = deliver::from_client(&plan, &mut Random::new(rand::random()), &mut imported);
    if receivers == 0 {
        dispatch.account.responses.forget(message.subject);
        if let Some(reply) = &opened {
            requestor.responses.forget(reply);
        }
    }
    receivers > 0
}

/// A message of a stream goes to the subscription that follows it, under the subject it has there.
fn follow(dispatch: &mut Dispatch<'_>, shadow: &Shadow<Sink>) -> bool {
    let Some(importer) = shadow.importer() else { return false };
    let original = shadow.original();
    let message = dispatch.message;
    let Some(mapped) = shadow.local_subject(dispatch.routed_by, &original) else { return false };
    // A stored message is shown under the subject it was stored with, whatever way it takes.
    let is_stored = dispatch.routed_by != message.subject;
    let subject = if is_stored { message.subject } else { &mapped };
    let mut there = within(dispatch, &importer, Message { subject, ..message });
    there.routed_by = &mapped;
    there.local(&original)
}

/// The delivery of a message in another account, with the buffers and counters of this one.
fn within<'b>(dispatch: &'b mut Dispatch<'_>, account: &'b Account, message: Message<'b>) -> Dispatch<'b> {
    Dispatch {
        message,
        routed_by: message.subject,
        account,
        publisher: dispatch.publisher,
        skip: dispatch.skip,
        drop_for_slow: dispatch.drop_for_slow,
        dirty: dispatch.dirty,
        tally: dispatch.tally,
        finished: dispatch.finished,
        stall: dispatch.stall,
    }
}
