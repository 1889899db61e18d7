//! Things to do later on a shard's thread.

use api::ApiError;
use jetstream::Response;

use super::Outgoing;

/// Called once with something the shard owns.
pub struct Call<T>(Box<dyn FnOnce(&mut T) + Send>);

impl<T> Call<T> {
    /// Wraps a closure.
    pub fn new(call: impl FnOnce(&mut T) + Send + 'static) -> Self {
        Self(Box::new(call))
    }

    /// Calls it.
    pub fn call(self, with: &mut T) {
        (self.0)(with);
    }
}

impl<T> std::fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Call")
    }
}

type Respondent = dyn FnOnce(&mut Outgoing, Result<Response, ApiError>) + Send;

/// What is done with a stream's answer to a request.
pub struct Respond(Box<Respondent>);

impl Respond {
    /// Wraps a closure.
    pub fn new(respond: impl FnOnce(&mut Outgoing, Result<Response, ApiError>) + Send + 'static) -> Self {
        Self(Box::new(respond))
    }

    /// Gives it the answer.
    pub fn call(self, outgoing: &mut Outgoing, result: Result<Response, ApiError>) {
        (self.0)(outgoing, result);
    }
}

impl std::fmt::Debug for Respond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Respond")
    }
}
