//! A few lives of a soak, which show that the command works; by hand it takes hours.

use std::process::Command;

#[test]
fn a_short_soak_loses_nothing() {
    let dir = std::env::temp_dir().join(format!("millpond-soak-{}", std::process::id()));
    let out = Command::new(env!("CARGO_BIN_EXE_history"))
        .args(["soak", "--seconds", "6", "--kill-every", "1", "--clients", "4", "--dir"])
        .arg(&dir)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains(" at rest") && text.contains(" kills"), "{text}");
    assert!(!dir.exists(), "a clean soak removes its directory");
}

#[test]
fn short_kills_in_a_row_lose_nothing() {
    let dir = std::env::temp_dir().join(format!("millpond-kills-{}", std::process::id()));
    let out = Command::new(env!("CARGO_BIN_EXE_history"))
        .args([
            "kills",
            "--kills",
            "12",
            "--directories",
            "2",
            "--longest-ms",
            "400",
            "--clients",
            "4",
            "--dir",
        ])
        .arg(&dir)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("24 kills of 2 databases, 0 refused; 4 times all was read"), "{text}");
    assert!(!dir.exists(), "kills that find nothing remove their directory");
}

#[test]
fn an_existing_directory_is_refused() {
    let dir = env!("CARGO_MANIFEST_DIR");
    let out =
        Command::new(env!("CARGO_BIN_EXE_history")).args(["soak", "--dir", dir]).output().expect("it starts");
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("is there already"));
}
