//! Requests to the server: what it is subscribed to, and who answers.

use std::sync::Arc;

use api::ApiError;
use api::event::{ServerApiResponse, ServerId, StatszMessage, decode_request};
use api::json::to_vec;
use api::monitor::{
    AccountzOptions, ConnzOptions, Empty, HealthzOptions, JszOptions, RoutezOptions, SubszOptions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Receiver;

use super::account_requests::{self, AccountHandler};
use super::internal::Delivered;
use super::{actions, events, publish, server_info, subscribers, user};
use crate::monitor::{PageError, accounts, connz, health, jsz, links, routez, statsz, subsz, varz};
use crate::server::Server;

const SERVER: &str = "$SYS.REQ.SERVER.";
const PING: &str = "PING";
const ACCOUNT: &str = "$SYS.REQ.ACCOUNT.";
const RELOAD: &str = "RELOAD";
const USER_INFO: &str = "$SYS.REQ.USER.INFO";
const COUNT_EVERYWHERE: &str = "$SYS.DEBUG.SUBSCRIBERS";

/// Makes the answer to a request from its body; `None` stays silent.
type Handler = fn(&Server, &[u8]) -> Option<Vec<u8>>;

/// Requests to one server by its id, or to all by `PING`.
const PAGES: [(&str, Handler); 12] = [
    ("IDZ", identity),
    ("STATSZ", statistics),
    ("VARZ", |server, body| page(server, body, |_: &Empty| Ok(varz::varz(server)))),
    ("CONNZ", |server, body| page(server, body, |options: &ConnzOptions| connz::connz(server, options))),
    ("ROUTEZ", |server, body| {
        page(server, body, |options: &RoutezOptions| Ok(routez::routez(server, options)))
    }),
    ("SUBSZ", |server, body| page(server, body, |options: &SubszOptions| subsz::subsz(server, options))),
    ("HEALTHZ", |server, body| {
        page(server, body, |options: &HealthzOptions| Ok(health::healthz(server, options)))
    }),
    ("ACCOUNTZ", |server, body| {
        page(server, body, |options: &AccountzOptions| accounts::accountz(server, options))
    }),
    ("GATEWAYZ", |server, body| page(server, body, |_: &Empty| Ok(links::gatewayz(server)))),
    ("LEAFZ", |server, body| page(server, body, |_: &Empty| Ok(links::leafz(server)))),
    ("JSZ", |server, body| page(server, body, |options: &JszOptions| jsz::jsz(server, options))),
    ("PROFILEZ", |server, body| {
        refuse(server, body, "profiles of this server are not taken through requests")
    }),
];

/// Requests to one server that make it do something.
const ACTIONS: [(&str, Handler); 2] = [("KICK", actions::kick), ("LDM", actions::lame_duck)];

/// What a message asks for.
#[derive(Debug)]
enum Request {
    /// Something of the server.
    Server(Handler),
    /// To read the configuration again.
    Reload,
    /// Something of an account.
    Account(String, AccountHandler),
    /// Who the requester is.
    UserInfo,
    /// How many subscribe to a subject here.
    CountHere,
    /// How many subscribe to a subject on all servers.
    CountEverywhere,
}

/// Everything the server of that id subscribes to.
pub(super) fn subjects(id: &str) -> Vec<String> {
    let mut subjects = vec![
        format!("{SERVER}{PING}"),
        format!("{SERVER}{id}.{RELOAD}"),
        format!("{ACCOUNT}{}", subscribers::COUNT_HERE),
        USER_INFO.to_owned(),
        COUNT_EVERYWHERE.to_owned(),
    ];
    for (name, _) in PAGES {
        subjects.push(format!("{SERVER}{PING}.{name}"));
        subjects.push(format!("{SERVER}{id}.{name}"));
    }
    subjects.extend(ACTIONS.iter().map(|(name, _)| format!("{SERVER}{id}.{name}")));
    subjects.extend(account_requests::PAGES.iter().map(|(name, _)| format!("{ACCOUNT}*.{name}")));
    subjects
}

impl Request {
    /// Reads a subject that `subjects` covers.
    fn parse(subject: &[u8]) -> Option<Self> {
        let subject = std::str::from_utf8(subject).ok()?;
        if let Some(rest) = subject.strip_prefix(SERVER) {
            let name = if rest == PING { "STATSZ" } else { rest.split_once('.')?.1 };
            if name == RELOAD {
                return Some(Self::Reload);
            }
            return find(&PAGES, name).or_else(|| find(&ACTIONS, name)).map(Self::Server);
        }
        if let Some(rest) = subject.strip_prefix(ACCOUNT) {
            if rest == subscribers::COUNT_HERE {
                return Some(Self::CountHere);
            }
            let (account, name) = rest.split_once('.')?;
            return find(&account_requests::PAGES, name)
                .map(|handler| Self::Account(account.to_owned(), handler));
        }
        match subject {
            USER_INFO => Some(Self::UserInfo),
            COUNT_EVERYWHERE => Some(Self::CountEverywhere),
            _ => None,
        }
    }
}

fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(candidate, _)| *candidate == name).map(|(_, handler)| *handler)
}

/// Answers requests one after the other, for the life of the server.
pub(super) async fn serve(server: Arc<Server>, mut queue: Receiver<Delivered>) {
    while let Some(message) = queue.recv().await {
        match Request::parse(&message.subject) {
            None => {}
            Some(Request::Reload) => {
                let answer = actions::reload(&server, &message.body).await;
                reply(&server, &message, answer);
            }
            Some(Request::CountEverywhere) => subscribers::count_everywhere(&server, &message),
            Some(request) => {
                let server = Arc::clone(&server);
                // A page may list many connections: it is made where it holds up no message.
                let made = tokio::task::spawn_blocking(move || {
                    let answer = answer(&server, &request, &message);
                    reply(&server, &message, answer);
                });
                if let Err(e) = made.await {
                    tracing::error!("system request failed: {e}");
                }
            }
        }
    }
}

fn answer(server: &Server, request: &Request, message: &Delivered) -> Option<Vec<u8>> {
    match request {
        Request::Server(handler) => handler(server, &message.body),
        Request::Account(name, handler) => handler(server, name, &message.body),
        Request::UserInfo => user::info(server, message),
        Request::CountHere => subscribers::count_here(server, &message.body),
        Request::Reload | Request::CountEverywhere => unreachable!("not a page"),
    }
}

/// Sends an answer. Statistics that nobody waits for go where they go at intervals.
fn reply(server: &Server, message: &Delivered, answer: Option<Vec<u8>>) {
    let (Some(answer), Some(account)) = (answer, server.accounts.system()) else { return };
    let statistics = message.subject.ends_with(b".STATSZ") || message.subject.ends_with(b".PING");
    match &message.reply {
        Some(reply) => publish(server, &account, reply, None, &answer),
        None if statistics => {
            publish(server, &account, events::statistics_subject(server).as_bytes(), None, &answer)
        }
        None => 0,
    };
}

/// The envelope of a page, with the page or an error. Silent if the request is for other servers.
pub(super) fn page<O, T>(
    server: &Server,
    body: &[u8],
    build: impl FnOnce(&O) -> Result<T, PageError>,
) -> Option<Vec<u8>>
where
    O: DeserializeOwned,
    T: Serialize,
{
    let info = server_info(server);
    let (filter, options) = match decode_request::<O>(body) {
        Ok(decoded) => decoded,
        Err(error) => return encode(&ServerApiResponse::<Empty>::unreadable(info, &error)),
    };
    if !filter.selects(&info) {
        return None;
    }
    match build(&options) {
        Ok(data) => encode(&ServerApiResponse::data(info, data)),
        Err(error) => {
            encode(&ServerApiResponse::<Empty>::failed(info, ApiError::internal(error.to_string())))
        }
    }
}

/// The answer to what this server does not do.
fn refuse(server: &Server, body: &[u8], text: &str) -> Option<Vec<u8>> {
    let info = server_info(server);
    match decode_request::<Empty>(body) {
        Ok((filter, _)) if !filter.selects(&info) => None,
        Ok(_) => encode(&ServerApiResponse::<Empty>::failed(info, ApiError::internal(text))),
        Err(error) => encode(&ServerApiResponse::<Empty>::unreadable(info, &error)),
    }
}

/// A document as it is sent.
pub(super) fn encode<T: Serialize>(document: &T) -> Option<Vec<u8>> {
    to_vec(document).inspect_err(|e| tracing::error!("error encoding a system message: {e}")).ok()
}

/// Name and id, the only answer without an envelope.
fn identity(server: &Server, body: &[u8]) -> Option<Vec<u8>> {
    let info = server_info(server);
    match decode_request::<Empty>(body) {
        Ok((filter, _)) if !filter.selects(&info) => None,
        Ok(_) => encode(&ServerId { name: info.name, host: info.host, id: info.id }),
        Err(error) => encode(&ServerApiResponse::<Empty>::unreadable(info, &error)),
    }
}

/// The figures that are also sent at intervals.
fn statistics(server: &Server, body: &[u8]) -> Option<Vec<u8>> {
    let info = server_info(server);
    match decode_request::<Empty>(body) {
        Ok((filter, _)) if !filter.selects(&info) => None,
        Ok(_) => encode(&StatszMessage { server: info, statsz: statsz::statsz(server) }),
        Err(error) => encode(&ServerApiResponse::<Empty>::unreadable(info, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_that_is_subscribed_to_is_understood() {
        for subject in subjects("NAAA") {
            assert!(subject::is_valid(subject.as_bytes()), "{subject}");
            let published = subject.replace('*', "ACC");
            assert!(Request::parse(published.as_bytes()).is_some(), "{subject}");
        }
    }

    #[test]
    fn an_account_is_named_by_the_subject() {
        let request = Request::parse(b"$SYS.REQ.ACCOUNT.APP.INFO");
        assert!(matches!(request, Some(Request::Account(name, _)) if name == "APP"));
        for unknown in ["$SYS.REQ.SERVER.N.NOPE", "$SYS.REQ.ACCOUNT.INFO", "$SYS.REQ.OTHER", ""] {
            assert!(Request::parse(unknown.as_bytes()).is_none(), "{unknown}");
        }
    }
}
