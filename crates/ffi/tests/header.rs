//! `include/millpond.h` is what cbindgen makes of the sources.

use std::path::Path;

#[test]
fn the_committed_header_is_the_generated_one() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(dir.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut text = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(dir.join("src/lib.rs"))
        .generate()
        .expect("cbindgen reads the sources")
        .write(&mut text);
    let generated = String::from_utf8(text).expect("a header is text");
    let path = dir.join("include/millpond.h");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &generated).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "{} is not current; UPDATE_EXPECT=1 cargo test -p millpond-ffi --test header writes it again",
        path.display()
    );
}
