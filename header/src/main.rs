//! Compares `crates/ffi/include/millpond.h` with what cbindgen makes of the sources. With `--write`
//! it writes the file. Run by `cargo xtask header`.

use std::path::Path;
use std::process::ExitCode;

fn generated(ffi: &Path) -> Result<String, String> {
    let config = cbindgen::Config::from_file(ffi.join("cbindgen.toml"))?;
    let sources = ffi.join("src/lib.rs");
    let bindings = cbindgen::Builder::new().with_config(config).with_src(&sources).generate();
    let bindings = bindings.map_err(|e| format!("cbindgen cannot read {}: {e}", sources.display()))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).map_err(|e| format!("the header is no text: {e}"))
}

fn run(write: bool) -> Result<(), String> {
    let ffi = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ffi");
    let (header, text) = (ffi.join("include/millpond.h"), generated(&ffi)?);
    if write {
        return std::fs::write(&header, text).map_err(|e| format!("{}: {e}", header.display()));
    }
    if std::fs::read_to_string(&header).is_ok_and(|committed| committed == text) {
        return Ok(());
    }
    Err("crates/ffi/include/millpond.h does not fit the sources; `cargo xtask header --write` writes it".into())
}

fn main() -> ExitCode {
    match run(std::env::args().nth(1).as_deref() == Some("--write")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("header: {what}");
            ExitCode::FAILURE
        }
    }
}
