//! The built-in certificate authority: makes certificates, and tells when they need to be made again.

use k8s_openapi::jiff::{SignedDuration, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::error::Error;

/// How long an authority lives. Its replacement means new trust everywhere, so it outlives most clusters.
const AUTHORITY_DAYS: i64 = 3650;
/// How long a certificate lives.
const CERTIFICATE_DAYS: i64 = 90;
/// Remaining life at which a certificate is made again.
const RENEW_DAYS: i64 = 30;
/// Days before now at which a certificate begins, against clocks that disagree.
const BACKDATE_DAYS: i64 = 1;

/// A certificate and its private key, as PEM.
#[derive(Clone)]
pub struct KeyedCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Certificate(error.to_string())
}

/// Sets the validity of a certificate, in whole days.
fn validity(parameters: &mut CertificateParams, now: Timestamp, days: i64) {
    let date = |offset: i64| {
        let day = (now + SignedDuration::from_hours(24 * offset)).to_zoned(TimeZone::UTC).date();
        // The calendar's own ranges: a year of four digits, a month of 1-12, a day of 1-31.
        rcgen::date_time_ymd(i32::from(day.year()), day.month().unsigned_abs(), day.day().unsigned_abs())
    };
    parameters.not_before = date(-BACKDATE_DAYS);
    parameters.not_after = date(days);
}

/// A new authority for a cluster.
///
/// # Errors
/// When no key can be made.
pub fn new_authority(cluster: &str, now: Timestamp) -> Result<KeyedCertificate, Error> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, format!("{cluster} certificate authority"));
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    validity(&mut parameters, now, AUTHORITY_DAYS);
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = parameters.self_signed(&key).map_err(failed)?;
    Ok(KeyedCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A certificate for some names, good for servers and for clients: a route is both.
///
/// # Errors
/// When the authority cannot be read or a name is not one.
pub fn issue(
    authority: &KeyedCertificate,
    names: &[String],
    now: Timestamp,
) -> Result<KeyedCertificate, Error> {
    let authority_key = KeyPair::from_pem(&authority.key).map_err(failed)?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, authority_key).map_err(failed)?;
    let mut parameters = CertificateParams::new(names.to_vec()).map_err(failed)?;
    // Names stand in the extension; the common name may have 64 characters only, which a host name can exceed.
    parameters.distinguished_name.push(DnType::CommonName, "nats");
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    parameters.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    validity(&mut parameters, now, CERTIFICATE_DAYS);
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = parameters.signed_by(&key, &issuer).map_err(failed)?;
    Ok(KeyedCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// What can be read in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When it ends.
    pub not_after: Timestamp,
    /// DNS names that it is for.
    pub names: Vec<String>,
    /// Who signed it.
    pub issuer_key: Vec<u8>,
}

/// Reads the first certificate of a PEM text.
///
/// # Errors
/// When there is none or it cannot be read.
pub fn read(pem: &str) -> Result<Reading, Error> {
    let der = CertificateDer::pem_slice_iter(pem.as_bytes())
        .next()
        .ok_or_else(|| failed("no certificate in the text"))?
        .map_err(failed)?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(failed)?;
    let names = certificate.subject_alternative_name().map_err(failed)?.map_or_else(Vec::new, |extension| {
        let dns = |name: &GeneralName<'_>| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        };
        extension.value.general_names.iter().filter_map(dns).collect()
    });
    Ok(Reading {
        not_after: Timestamp::from_second(certificate.validity().not_after.timestamp()).map_err(failed)?,
        names,
        issuer_key: certificate.tbs_certificate.issuer.as_raw().to_vec(),
    })
}

/// Whether a built-in certificate must be made again: unreadable, ending soon, or for other names.
#[must_use]
pub fn needs_renewal(pem: &str, names: &[String], now: Timestamp) -> bool {
    let Ok(reading) = read(pem) else {
        return true;
    };
    ends_soon(reading.not_after, now) || reading.names != names
}

/// Whether a certificate is in the last part of its life.
#[must_use]
pub fn ends_soon(not_after: Timestamp, now: Timestamp) -> bool {
    not_after < now + SignedDuration::from_hours(24 * RENEW_DAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(number: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + number * 86_400).unwrap()
    }

    #[test]
    fn a_certificate_is_made_again_before_it_ends_or_when_names_change() {
        let names = vec!["*.demo-headless.ns.svc".to_owned(), "localhost".to_owned()];
        let authority = new_authority("demo", day(0)).unwrap();
        let issued = issue(&authority, &names, day(0)).unwrap();
        assert_eq!(read(&issued.certificate).unwrap().names, names);

        assert!(!needs_renewal(&issued.certificate, &names, day(CERTIFICATE_DAYS - RENEW_DAYS - 1)));
        assert!(needs_renewal(&issued.certificate, &names, day(CERTIFICATE_DAYS - RENEW_DAYS + 1)));
        assert!(needs_renewal(&issued.certificate, &names[..1], day(0)));
        assert!(needs_renewal("no certificate", &names, day(0)));
    }

    #[test]
    fn an_authority_signs_what_it_issues() {
        let authority = new_authority("demo", day(0)).unwrap();
        let issued = issue(&authority, &["a".to_owned()], day(0)).unwrap();
        let (ca, leaf) = (read(&authority.certificate).unwrap(), read(&issued.certificate).unwrap());
        assert_eq!(leaf.issuer_key, ca.issuer_key);
        assert!(!ends_soon(ca.not_after, day(365)));
    }
}
