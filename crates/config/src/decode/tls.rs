//! `tls` blocks.

use super::field::Field;
use super::{Report, described, set};
use crate::duration;
use crate::lang::{Kind, Map, Value};
use crate::options::{
    Certificate, CipherSuite, Curve, HANDSHAKE_FIRST_FALLBACK_DEFAULT, HandshakeFirst, Tls, TlsVersion,
};
use crate::schema::Section;

/// Where the block stands.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Use {
    Clients,
    Cluster,
}

/// Cipher suites by their registry names.
const CIPHER_SUITES: [(&str, CipherSuite); 11] = [
    ("TLS_AES_128_GCM_SHA256", CipherSuite::Tls13Aes128GcmSha256),
    ("TLS_AES_256_GCM_SHA384", CipherSuite::Tls13Aes256GcmSha384),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::Tls13Chacha20Poly1305Sha256),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", CipherSuite::EcdheEcdsaAes128GcmSha256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", CipherSuite::EcdheEcdsaAes256GcmSha384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::EcdheEcdsaChacha20Poly1305Sha256),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", CipherSuite::EcdheEcdsaChacha20Poly1305Sha256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::EcdheRsaAes128GcmSha256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::EcdheRsaAes256GcmSha384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::EcdheRsaChacha20Poly1305Sha256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", CipherSuite::EcdheRsaChacha20Poly1305Sha256),
];

/// Suites that nats-server knows and this server does not have: they lack forward secrecy or authenticated encryption.
const CIPHER_SUITES_ABSENT: [&str; 15] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
];

/// Decodes a `tls` block.
pub(super) fn decode(field: &Field<'_>, place: Use, report: &mut Report) -> Option<Tls> {
    let map = field.map(report)?;
    let mut tls = Tls::default();
    let (mut cert_file, mut key_file) = (None, None);
    for inner in report.fields(Section::Tls, map) {
        match inner.name() {
            "cert_file" => cert_file = file(&inner, report),
            "key_file" => key_file = file(&inner, report),
            "ca_file" => tls.ca_file = file(&inner, report),
            "certs" => tls.certificates = certificates(&inner, report),
            "timeout" => set(&mut tls.timeout, inner.timeout("tls", report).filter(|time| !time.is_zero())),
            "connection_rate_limit" => {
                set(&mut tls.connection_rate_limit, inner.optional_count(u32::MAX, report));
            }
            "cipher_suites" => tls.cipher_suites = cipher_suites(&inner, report),
            "curve_preferences" => tls.curve_preferences = curves(&inner, report),
            "min_version" => set(&mut tls.min_version, min_version(&inner, report)),
            "pinned_certs" => pinned(&inner, &mut tls, report),
            "handshake_first" => set(&mut tls.handshake_first, handshake_first(&inner, place, report)),
            _ => switch(&inner, &mut tls, place, report),
        }
    }
    let has_pair = cert_file.is_some() || key_file.is_some();
    match (cert_file, key_file) {
        _ if has_pair && !tls.certificates.is_empty() => {
            report.error(
                field.position,
                "error parsing tls config, cannot combine 'cert_file' option with 'certs' option",
            );
        }
        (Some(cert_file), Some(key_file)) => tls.certificates.push(Certificate { cert_file, key_file }),
        (Some(_), None) => report.error(field.position, "missing 'key_file' in TLS configuration"),
        (None, Some(_)) => report.error(field.position, "missing 'cert_file' in TLS configuration"),
        (None, None) => {}
    }
    Some(tls)
}

fn file(field: &Field<'_>, report: &mut Report) -> Option<String> {
    let text = field.value.as_str().filter(|text| !text.is_empty());
    if text.is_none() {
        let message = format!("error parsing tls config, expected '{}' to be filename", field.name());
        report.error(&field.value.position, message);
    }
    text.map(Into::into)
}

fn switch(field: &Field<'_>, tls: &mut Tls, place: Use, report: &mut Report) {
    let Kind::Bool(value) = field.value.kind else {
        let message = format!("error parsing tls config, expected '{}' to be a boolean", field.name());
        report.error(&field.value.position, message);
        return;
    };
    match field.name() {
        "verify" => tls.verify |= value,
        "insecure" => tls.insecure = value,
        "verify_and_map" => {
            tls.map = value;
            tls.verify |= value;
        }
        "verify_cert_and_check_known_urls" if value && place == Use::Clients => {
            report.error(field.position, "verify_cert_and_check_known_urls not supported in this context");
        }
        "verify_cert_and_check_known_urls" => {
            tls.check_known_urls = value;
            tls.verify |= value;
        }
        name => unreachable!("tls key {name}"),
    }
}

fn certificates(field: &Field<'_>, report: &mut Report) -> Vec<Certificate> {
    let mut certificates = Vec::new();
    for value in field.array(report).unwrap_or_default() {
        match value.as_map() {
            Some(map) => certificates.extend(certificate(map, value, report)),
            None => {
                let found = described(&value.kind);
                report.error(
                    &value.position,
                    format!("error parsing certificates config: expected a map, got {found}"),
                );
            }
        }
    }
    certificates
}

fn certificate(map: &Map, value: &Value, report: &mut Report) -> Option<Certificate> {
    let (mut cert_file, mut key_file) = (None, None);
    let errors_before = report.errors.len();
    for inner in report.fields(Section::Certificate, map) {
        match inner.name() {
            "cert_file" => cert_file = file(&inner, report),
            _ => key_file = file(&inner, report),
        }
    }
    if let (Some(cert_file), Some(key_file)) = (cert_file, key_file) {
        return Some(Certificate { cert_file, key_file });
    }
    if report.errors.len() == errors_before {
        let message =
            "error parsing certificates config: both 'cert_file' and 'cert_key' options are required";
        report.error(&value.position, message);
    }
    None
}

fn cipher_suites(field: &Field<'_>, report: &mut Report) -> Vec<CipherSuite> {
    let mut suites = Vec::new();
    for (name, position) in listed(field, report) {
        if let Some((_, suite)) = CIPHER_SUITES.iter().find(|(known, _)| *known == name) {
            suites.push(*suite);
        } else if CIPHER_SUITES_ABSENT.contains(&name) {
            report.error(position, format!("cipher suite \"{name}\" is not supported in this version"));
        } else {
            report.error(position, format!("unrecognized cipher {name}"));
        }
    }
    suites
}

fn curves(field: &Field<'_>, report: &mut Report) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (name, position) in listed(field, report) {
        match name {
            "X25519" => curves.push(Curve::X25519),
            "CurveP256" => curves.push(Curve::P256),
            "CurveP384" => curves.push(Curve::P384),
            "CurveP521" | "X25519MLKEM768" => {
                report.error(position, format!("curve \"{name}\" is not supported in this version"));
            }
            _ => report.error(position, format!("unrecognized curve preference {name}")),
        }
    }
    curves
}

/// The names of a list that must not be empty.
fn listed<'a>(field: &Field<'a>, report: &mut Report) -> Vec<(&'a str, &'a crate::Position)> {
    if field.value.kind == Kind::Array(Vec::new()) {
        report.error(field.position, format!("error parsing tls config, '{}' cannot be empty", field.name()));
    }
    field.strings(report).unwrap_or_default()
}

fn min_version(field: &Field<'_>, report: &mut Report) -> Option<TlsVersion> {
    let message = match &field.value.kind {
        Kind::String(text) => match text.as_str() {
            "1.2" => return Some(TlsVersion::V1_2),
            "1.3" => return Some(TlsVersion::V1_3),
            "1.0" | "1.1" => format!("error parsing tls config: unsupported TLS version: TLS {text}"),
            _ => format!("error parsing tls config: unknown version: {text}"),
        },
        Kind::Float(number) => format!("error parsing tls config: 'min_version' wrong type: {number}"),
        kind => format!("error parsing tls config: 'min_version' wrong type: {}", kind.name()),
    };
    report.error(&field.value.position, message);
    None
}

fn pinned(field: &Field<'_>, tls: &mut Tls, report: &mut Report) {
    if !matches!(field.value.kind, Kind::Array(_)) {
        let message = "error parsing tls config, expected 'pinned_certs' to be a list of hex-encoded sha256 of DER \
                       encoded SubjectPublicKeyInfo";
        report.error(&field.value.position, message);
        return;
    }
    for (written, position) in field.strings(report).unwrap_or_default() {
        let digest = written.to_ascii_lowercase();
        if digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            tls.pinned_certs.insert(digest);
        } else {
            let message = format!(
                "error parsing tls config, 'pinned_certs' key {digest} does not look like hex-encoded sha256 of DER \
                 encoded SubjectPublicKeyInfo"
            );
            report.error(position, message);
        }
    }
}

fn handshake_first(field: &Field<'_>, place: Use, report: &mut Report) -> Option<HandshakeFirst> {
    let first = match &field.value.kind {
        Kind::Bool(true) => HandshakeFirst::On,
        Kind::Bool(false) => HandshakeFirst::Off,
        Kind::String(text) if matches!(text.to_ascii_lowercase().as_str(), "auto" | "auto_fallback") => {
            HandshakeFirst::Auto(HANDSHAKE_FIRST_FALLBACK_DEFAULT)
        }
        Kind::String(text) => match duration::parse(text) {
            Ok((false, wait)) if !wait.is_zero() => HandshakeFirst::Auto(wait),
            _ => {
                report.error(
                    &field.value.position,
                    format!("field \"handshake_first\"'s value \"{text}\" is invalid"),
                );
                return None;
            }
        },
        kind => {
            let found = kind.name();
            let message = format!("field \"handshake_first\" should be a boolean or a string, got {found}");
            report.error(&field.value.position, message);
            return None;
        }
    };
    // Between servers the handshake is always first, so there is nothing to wait for.
    if place == Use::Cluster && matches!(first, HandshakeFirst::Auto(_)) {
        report.error(&field.value.position, "handshake_first of a cluster is a boolean");
        return None;
    }
    Some(first)
}
