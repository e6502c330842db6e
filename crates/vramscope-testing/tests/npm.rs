//! The npm packages of the page: npm checks each against a committed hash.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde_json::Value;

#[test]
fn every_npm_package_has_a_hash_and_no_registry() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../viewer/package-lock.json");
    let lock: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let packages = lock["packages"].as_object().unwrap();
    let others: Vec<_> = packages.iter().filter(|(path, _)| !path.is_empty()).collect();
    assert!(others.len() > 50, "{}", others.len());
    for (path, package) in others {
        let hash = package["integrity"].as_str();
        assert!(hash.is_some_and(|hash| hash.starts_with("sha512-")), "{path}: {package}");
        // Without an address, npm takes the package from the registry of its user.
        assert_eq!(package["resolved"], Value::Null, "{path}");
    }
}
