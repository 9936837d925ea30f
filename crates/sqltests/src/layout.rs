//! Proves that headers fit the installed server's program, where they are of another patch release.
//!
//! A compiler answers how large the server's classes are by these headers: the probe is an object
//! file with an array of that size for each class, and with classes derived from those that have
//! virtual functions. The program answers in two ways. Its virtual tables are dynamic symbols with
//! a size, which counts the virtual functions. And each function of [`CHECKS`] uses the size of a
//! class, or the place of a member near its end, as a 32-bit constant: its code must have exactly
//! that number.

use super::compiler::compiler;
use super::elf::Elf;
use super::headers::Headers;
use super::{output, target, write};
use std::path::Path;

/// What the probe calls a size, the function of the server that has it as a constant, and what it
/// is, for the error message.
const CHECKS: [(&str, &str, &str); 10] = [
    ("handlerton", "_Z24ha_initialize_handlertonPv", "the size of struct handlerton"),
    ("handler_ha_share", "_ZN7handler16get_ha_share_ptrEv", "the last members of class handler"),
    ("TABLE", OPEN_TABLE, "the size of struct TABLE"),
    (
        "TABLE_SHARE",
        "_Z20init_tmp_table_shareP3THDP11TABLE_SHAREPKcjS4_S4_",
        "the size of struct TABLE_SHARE",
    ),
    ("TABLE_SHARE", "_Z17alloc_table_sharePKcS0_S0_j", "the size of struct TABLE_SHARE"),
    ("TABLE_LIST", ADD_TABLE, "the size of struct TABLE_LIST"),
    ("Field_blob", "_ZNK10Field_blob7size_ofEv", "the size of class Field_blob"),
    ("Field_varstring", "_ZNK15Field_varstring7size_ofEv", "the size of class Field_varstring"),
    ("Field_bit", "_ZNK9Field_bit7size_ofEv", "the size of class Field_bit"),
    ("DsMrr_buf_manager", BEGIN_RANGES, "the last member of class DsMrr_impl"),
];
const ADD_TABLE: &str = "_ZN13st_select_lex17add_table_to_listEP3THDP11Table_identP25st_mysql_const_lex_stringm\
     13thr_lock_type13enum_mdl_typeP4ListI10Index_hintEPS8_I6StringEP19st_mysql_lex_string";
const BEGIN_RANGES: &str = "_ZN10DsMrr_impl10dsmrr_initEP7handlerP15st_range_seq_ifPvjjP17st_handler_buffer";
const OPEN_TABLE: &str =
    "_Z21open_table_from_shareP3THDP11TABLE_SHAREPK25st_mysql_const_lex_stringjjjP5TABLEbP4ListI6StringE";

/// Virtual tables: of the probe's class, of the server's class, and the server's class.
const VIRTUAL: [(&str, &str, &str); 2] =
    [("_ZTV12ProbeHandler", "_ZTV7handler", "handler"), ("_ZTV10ProbeField", "_ZTV5Field", "Field")];

const PROBE: &str = r#"#define MYSQL_SERVER 1
#include "server.h"
#define SIZE(name, type) char size_of_##name[sizeof(type)];
SIZE(handlerton, handlerton)
SIZE(TABLE, TABLE)
SIZE(TABLE_SHARE, TABLE_SHARE)
SIZE(TABLE_LIST, TABLE_LIST)
SIZE(Field_blob, Field_blob)
SIZE(Field_varstring, Field_varstring)
SIZE(Field_bit, Field_bit)
char size_of_handler_ha_share[__builtin_offsetof(handler, ha_share)];
char size_of_DsMrr_buf_manager[__builtin_offsetof(DsMrr_impl, buf_manager)];
struct ProbeHandler : handler { ~ProbeHandler() override; };
ProbeHandler::~ProbeHandler() {}
struct ProbeField : Field { ~ProbeField() override; };
ProbeField::~ProbeField() {}
"#;

/// The server's program.
const SERVER: &str = "/usr/sbin/mariadbd";

/// Checks headers of another patch release against the server's program.
pub(super) fn check(headers: &Headers) -> Result<(), String> {
    let (source, object) = (target().join("probe.cc"), target().join("probe.o"));
    write(&source, PROBE)?;
    let mut compiler = compiler(headers);
    // Members are private; only their places are asked for.
    compiler.args(["-fno-access-control", "-Wno-invalid-offsetof", "-c", "-o"]).arg(&object).arg(&source);
    output(&mut compiler)?;
    let (probe, server) = (Elf::read(&object)?, Elf::read(Path::new(SERVER))?);
    let problem = first_difference(&probe, &server);
    match problem {
        None => Ok(()),
        Some(what) => Err(format!(
            "the installed server is MariaDB {}, the newest headers that can be fetched are of {}, and {what} \
             differs between them: install the server of the headers, or make its source available",
            headers.server, headers.version
        )),
    }
}

/// Returns what differs between the headers and the program.
fn first_difference(probe: &Elf, server: &Elf) -> Option<String> {
    for (ours, theirs, class) in VIRTUAL {
        if probe.size(ours).is_none() || probe.size(ours) != server.size(theirs) {
            return Some(format!("the number of virtual functions of class {class}"));
        }
    }
    for (name, function, what) in CHECKS {
        let size = probe.sizes("size_of_").find(|&(probed, _)| probed == name).map(|(_, size)| size);
        let size = size.and_then(|size| u32::try_from(size).ok());
        let found = size.zip(server.content(function)).is_some_and(|(size, code)| has_constant(code, size));
        if !found {
            return Some(what.to_owned());
        }
    }
    None
}

/// Tells whether machine code has a 32-bit constant.
fn has_constant(code: &[u8], constant: u32) -> bool {
    code.windows(4).any(|bytes| bytes == constant.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_found_only_in_whole() {
        // mov 0x528(%rdi),%rax; mov (%rax),%rax; ret
        let code = [0x48, 0x8b, 0x87, 0x28, 0x05, 0, 0, 0x48, 0x8b, 0, 0xc3];
        assert!(has_constant(&code, 0x528));
        assert!(!has_constant(&code, 0x530));
        assert!(!has_constant(&code[..6], 0x528));
    }
}
