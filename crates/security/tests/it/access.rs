//! What clients may do.

use std::sync::Arc;

use security::{
    Authority, Caller, Certificate, Clearance, ClientRequest, DatabaseAccess, Identification,
    KeyAlgorithm, KeyPair, Permissions, RegisteredCertificate, Requirement, Standing,
    TrustedCertificates,
};

use crate::{DAY, NOW, authority, client};

const REQUIREMENTS: [Requirement; 7] = [
    Requirement::Anyone,
    Requirement::ValidUser,
    Requirement::Read,
    Requirement::Write,
    Requirement::DatabaseAdmin,
    Requirement::Operator,
    Requirement::ClusterAdmin,
];

fn registered(
    certificate: &Certificate,
    clearance: Clearance,
    access: Option<DatabaseAccess>,
) -> RegisteredCertificate {
    let permissions = Permissions::new(access.map(|access| ("Shop".to_owned(), access)));
    RegisteredCertificate::new(certificate, "app".to_owned(), clearance, permissions)
}

fn caller(clearance: Clearance, access: Option<DatabaseAccess>) -> Caller {
    let made = client(&authority(), "app");
    let certificate = made.certificate();
    let registered = Arc::new(registered(certificate, clearance, access));
    Caller::Certified(Arc::new(certificate.clone()), Standing::Registered(registered))
}

/// For each requirement whether it is allowed in the database, in another one, and without one.
fn allowed(caller: &Caller) -> Vec<(bool, bool, bool)> {
    let one = |requirement| {
        let check = |database| caller.check(requirement, database).is_ok();
        (check(Some("shop")), check(Some("other")), check(None))
    };
    REQUIREMENTS.into_iter().map(one).collect()
}

#[test]
fn each_clearance_allows_what_it_says_and_nothing_else() {
    const ALL: (bool, bool, bool) = (true, true, true);
    const NONE: (bool, bool, bool) = (false, false, false);
    const HERE: (bool, bool, bool) = (true, false, false);
    const USER: (bool, bool, bool) = (true, false, true);
    let user = |access| allowed(&caller(Clearance::ValidUser, access));
    assert_eq!(allowed(&Caller::Unsecured), [ALL; 7]);
    for identification in
        [Identification::Certificates, Identification::CertificatesAndKeys, Identification::Keys]
    {
        let anonymous = Caller::Anonymous(identification);
        assert_eq!(allowed(&anonymous), [ALL, NONE, NONE, NONE, NONE, NONE, NONE]);
    }
    assert_eq!(allowed(&caller(Clearance::ClusterAdmin, None)), [ALL; 7]);
    assert_eq!(allowed(&caller(Clearance::ClusterNode, None)), [ALL; 7]);
    assert_eq!(allowed(&caller(Clearance::Operator, None)), [ALL, ALL, ALL, ALL, ALL, ALL, NONE]);
    let nowhere = (false, false, true);
    assert_eq!(user(None), [ALL, nowhere, NONE, NONE, NONE, NONE, NONE]);
    assert_eq!(user(Some(DatabaseAccess::Read)), [ALL, USER, HERE, NONE, NONE, NONE, NONE]);
    assert_eq!(user(Some(DatabaseAccess::ReadWrite)), [ALL, USER, HERE, HERE, NONE, NONE, NONE]);
    assert_eq!(user(Some(DatabaseAccess::Admin)), [ALL, USER, HERE, HERE, HERE, NONE, NONE]);
    let none = allowed(&caller(Clearance::UnauthenticatedClients, Some(DatabaseAccess::Admin)));
    assert_eq!(none[2..], [NONE; 5]);
}

#[test]
fn a_certificate_is_trusted_while_it_is_registered_and_valid() {
    let authority = authority();
    let (one, other) = (client(&authority, "app"), client(&authority, "app"));
    let entry = registered(one.certificate(), Clearance::Operator, None);
    let trusted = TrustedCertificates::new([(one.certificate().clone(), entry.clone())]);
    let standing = |pair: &KeyPair, now| trusted.standing(pair.certificate(), now);
    assert_eq!(standing(&one, NOW), Standing::Registered(Arc::new(entry)));
    assert_eq!(standing(&other, NOW), Standing::Unknown, "the same name is not the same key");
    assert_eq!(standing(&one, NOW - 3 * DAY), Standing::NotYetValid);
    assert_eq!(standing(&one, NOW + 6 * 366 * DAY), Standing::Expired);
    // The configuration comes first: nobody takes an administrator's rights away by registering him.
    let mut configured = TrustedCertificates::new([(
        one.certificate().clone(),
        registered(one.certificate(), Clearance::ValidUser, None),
    )]);
    configured.trust_thumbprints(&[one.certificate().thumbprint().to_owned()]);
    let Standing::Registered(seen) = configured.standing(one.certificate(), NOW) else {
        panic!("it is not trusted")
    };
    assert_eq!(seen.security_clearance, Clearance::ClusterAdmin);
    let nothing = TrustedCertificates::default();
    assert_eq!(nothing.standing(one.certificate(), NOW), Standing::Unknown);
}

#[test]
fn a_certificate_for_servers_alone_identifies_no_client() {
    let made = crate::server(&authority());
    assert!(made.certificate().is_for_clients(), "servers are clients of each other");
}

#[test]
fn a_denial_names_the_certificate_and_what_is_missing() {
    let caller = caller(Clearance::ValidUser, Some(DatabaseAccess::Read));
    let denial = caller.check(Requirement::DatabaseAdmin, Some("shop")).unwrap_err().to_string();
    assert!(
        denial.starts_with("Could not authorize access to database 'shop' using provided client")
    );
    assert!(denial.contains("CN=app(Thumbprint: "));
    assert!(
        denial.ends_with("DatabaseAdmin access is required but not given to this certificate.")
    );
    let anonymous = Caller::Anonymous(Identification::Certificates);
    let denial = anonymous.check(Requirement::Read, Some("shop")).unwrap_err();
    assert!(denial.to_string().starts_with("This server requires client certificate"));
}

#[test]
fn the_stored_form_is_the_protocols() {
    let made = Authority::generate("a", NOW).unwrap();
    let request =
        ClientRequest { name: "app".to_owned(), not_after: None, key: KeyAlgorithm::Ecdsa };
    let made = made.issue_client(&request, NOW).unwrap();
    let entry =
        registered(made.certificate(), Clearance::ValidUser, Some(DatabaseAccess::ReadWrite));
    let json = serde_json::to_value(&entry).unwrap();
    assert_eq!(json["SecurityClearance"], "ValidUser");
    assert_eq!(json["Permissions"]["Shop"], "ReadWrite");
    assert_eq!(json["Thumbprint"], made.certificate().thumbprint());
    assert_eq!(serde_json::from_value::<RegisteredCertificate>(json).unwrap(), entry);
}
