//! What a reload of the users means for a connection that is already in.

use std::sync::Arc;

use super::{Authenticator, Grant, Presented, Refusal};
use crate::net::client::Binding;
use crate::tls;

/// Whether, and with which rights, a connection stays.
#[derive(Debug)]
pub enum Renewal {
    /// As before.
    Unchanged,
    /// Same account and user, other rights.
    Changed(Binding),
    /// Its user is gone or is another one now. It may connect again and be told what it is then.
    Gone,
    /// What it has presented is no longer good.
    Refused(Refusal),
}

impl Authenticator {
    /// Judges a connection that `old` had let in. Secrets that have not changed are not hashed again: there may be thousands of
    /// connections, and a hash takes a tenth of a second.
    pub async fn renew(
        &self,
        old: &Self,
        presented: &Presented,
        tls: Option<&tls::Session>,
        binding: &Binding,
    ) -> Renewal {
        let grant = match self.grant_as_before(old, presented, binding) {
            Some(grant) => grant,
            None => self.authenticate(presented, tls).await,
        };
        match grant {
            Ok(grant) if Arc::ptr_eq(&grant.account, &binding.account) && grant.user == binding.user => {
                grant.renewed(binding)
            }
            Ok(_) => Renewal::Gone,
            Err(_) if binding.user.as_ref().is_some_and(|user| !self.has_user(user, binding)) => {
                Renewal::Gone
            }
            Err(refusal) => Renewal::Refused(refusal),
        }
    }

    fn has_user(&self, name: &str, binding: &Binding) -> bool {
        self.users.get(name).is_some_and(|user| Arc::ptr_eq(&user.account, &binding.account))
    }

    /// What the connection gets if the secret it has shown before is still the same. `None` if it has to be checked.
    fn grant_as_before(
        &self,
        old: &Self,
        presented: &Presented,
        binding: &Binding,
    ) -> Option<Result<Grant, Refusal>> {
        if self.map_certificates || old.map_certificates {
            return None;
        }
        match (&binding.user, &presented.user) {
            (Some(bound), Some(claimed)) if bound == claimed => {
                let (before, now) = (old.users.get(bound)?, self.users.get(bound)?);
                (before.password == now.password).then(|| self.grant(bound))
            }
            (None, None) if presented.token.is_some() => {
                let ((before, _), (now, account)) = (old.token.as_ref()?, self.token.as_ref()?);
                let grant = || Ok(Grant { account: Arc::clone(account), user: None, permissions: None });
                (before == now).then(grant)
            }
            _ => None,
        }
    }
}

impl Grant {
    /// Compares with a binding to the same account and user. Open rights to answer stay if they are granted as before.
    fn renewed(self, binding: &Binding) -> Renewal {
        if self.permissions == binding.permissions {
            return Renewal::Unchanged;
        }
        let limit = |permissions: &Option<Arc<routing::permission::Permissions>>| {
            permissions.as_ref().and_then(|permissions| permissions.responses)
        };
        let same_responses = limit(&self.permissions) == limit(&binding.permissions);
        let mut renewed = self.into_binding();
        if same_responses {
            renewed.responses.clone_from(&binding.responses);
        }
        Renewal::Changed(renewed)
    }
}
