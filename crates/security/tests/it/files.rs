//! Certificates in files.

use security::{Certificate, ClientRequest, KeyAlgorithm, KeyFileError, KeyPair};

use crate::{DAY, NOW, authority, client, server};

#[test]
fn a_key_pair_is_the_same_after_writing_and_reading() {
    let made = server(&authority());
    assert_eq!(made.chain().len(), 2, "the authority's certificate follows");
    for password in ["", "secret", "pässword"] {
        let pfx = made.to_pfx("node", password).unwrap();
        let read = KeyPair::from_file(&pfx, None, password).unwrap();
        assert_eq!(read.chain(), made.chain());
        assert_eq!(read.private_key(), made.private_key());
        let other = KeyPair::from_file(&pfx, None, "another one");
        assert!(matches!(other, Err(KeyFileError::Pkcs12 { .. })), "{other:?}");
    }
    let (chain, key) = (made.chain_pem(), made.key_pem());
    let separate = KeyPair::from_file(chain.as_bytes(), Some(key.as_bytes()), "").unwrap();
    let one_file = format!("{}{chain}", *key);
    let together = KeyPair::from_file(one_file.as_bytes(), None, "").unwrap();
    for read in [separate, together] {
        assert_eq!(read.chain(), made.chain());
        assert_eq!(read.private_key(), made.private_key());
    }
}

#[test]
fn damaged_and_incomplete_files_are_refused_with_the_reason() {
    let made = server(&authority());
    let chain = made.chain_pem();
    let without_key = KeyPair::from_file(chain.as_bytes(), None, "");
    assert!(matches!(without_key, Err(KeyFileError::NoKey)), "{without_key:?}");
    let key = made.key_pem();
    let without_certificate = KeyPair::from_file(key.as_bytes(), None, "");
    assert!(matches!(without_certificate, Err(KeyFileError::NoCertificate)));
    let pfx = made.to_pfx("node", "secret").unwrap();
    for length in [0, 1, pfx.len() / 2, pfx.len() - 1] {
        assert!(KeyPair::from_file(&pfx[..length], None, "secret").is_err());
    }
}

#[test]
fn a_server_needs_a_certificate_that_is_valid_now_and_for_servers() {
    let authority = authority();
    let made = server(&authority);
    made.check_for_server(NOW).unwrap();
    let early = made.check_for_server(NOW - 3 * DAY);
    assert!(matches!(early, Err(KeyFileError::NotYetValid { .. })), "{early:?}");
    let late = made.check_for_server(NOW + 6 * 366 * DAY);
    assert!(matches!(late, Err(KeyFileError::Expired { .. })), "{late:?}");
    let of_client = client(&authority, "app").check_for_server(NOW);
    assert!(matches!(of_client, Err(KeyFileError::NotForServers)), "{of_client:?}");
}

#[test]
fn a_certificate_says_what_it_is() {
    let made = client(&authority(), "app");
    let certificate = made.certificate();
    assert_eq!(certificate.subject(), "CN=app");
    assert_eq!(certificate.thumbprint().len(), 40);
    assert!(certificate.is_for_clients() && !certificate.is_for_servers());
    assert!(certificate.not_before() <= NOW && NOW + 5 * 365 * DAY <= certificate.not_after());
    let read = Certificate::from_der(certificate.der()).unwrap();
    assert_eq!(&read, certificate);
    let mut longer = certificate.der().to_vec();
    longer.push(0);
    assert!(Certificate::from_der(&longer).is_err());
}

#[test]
fn a_client_certificate_may_be_valid_for_a_shorter_time() {
    let request = ClientRequest {
        name: "app".to_owned(),
        not_after: Some(NOW + 10 * DAY),
        key: KeyAlgorithm::Ecdsa,
    };
    let made = authority().issue_client(&request, NOW).unwrap();
    assert!(made.certificate().not_after() <= NOW + 11 * DAY);
}

#[test]
fn rsa_keys_are_made_on_request_and_read_by_old_clients() {
    let request = ClientRequest { name: "app".to_owned(), not_after: None, key: KeyAlgorithm::Rsa };
    let made = authority().issue_client(&request, NOW).unwrap();
    assert_eq!(made.certificate().rsa_bits(), Some(2048));
    let (certificate, key) = (made.certificate().to_pem(), made.key_pem());
    assert!(key.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"), "{}", &key[..32]);
    let from_pem = KeyPair::from_file(certificate.as_bytes(), Some(key.as_bytes()), "").unwrap();
    assert_eq!(from_pem.key_pem(), key);
    let from_pfx = KeyPair::from_file(&made.to_pfx("app", "pw").unwrap(), None, "pw").unwrap();
    assert_eq!(from_pfx.key_pem(), key);
    // It certifies others, too, whose chains have all that certify it.
    let authority = security::Authority::from_key_pair(std::sync::Arc::new(from_pfx));
    assert_eq!(authority.issue_client(&request, NOW).unwrap().chain().len(), 3);
}
