//! The list of faults and their tests is true.

use pelton_tests::peer::own_file;

/// Goal: `faults.md` names tests that exist. Method: each `file#function` in it is looked up.
#[test]
fn every_test_exists() {
    let list = std::fs::read_to_string(own_file("faults.md")).expect("the list is there");
    let mut named = 0;
    for (file, function) in list.split('`').filter_map(|word| word.split_once('#')) {
        if !file.contains('/') {
            continue;
        }
        let path = own_file("..").join(file);
        let source =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let there = source.contains(&format!("fn {function}("));
        assert!(there, "{file} has no {function}");
        named += 1;
    }
    assert!(50 < named, "{named}");
}
