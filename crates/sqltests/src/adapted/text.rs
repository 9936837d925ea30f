//! Tests whose tables are of one engine, and results in which no engine has a name.

/// Engines whose name a test may give to a table without needing just that engine.
const REPLACED: [&str; 4] = ["innodb", "myisam", "aria", "maria"];
/// Settings of InnoDB that Millpond has too, under a name that begins with its own.
const SETTINGS: [&str; 4] =
    ["lock_wait_timeout", "snapshot_isolation", "flush_log_at_trx_commit", "autoinc_lock_mode"];

/// Returns the text of a test with `engine` in place of the engines that it names. Commands that
/// say which error is expected become comments: such a command ends a test that gets another error,
/// but here each error is a part of the result, and the test goes on.
///
/// The answer of a statement is left out if the test says that a lock may let it fail or not: which
/// of two threads comes first decides, with InnoDB too.
pub(super) fn adapt(text: &[u8], engine: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut is_open = false;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if expects_error(line) {
            out.push(b'#');
        }
        out.extend_from_slice(line);
        if !is_open && may_lose_a_race(line) {
            is_open = true;
            out.extend_from_slice(b"--disable_result_log\n");
        } else if is_open && ends_a_statement(line) {
            is_open = false;
            out.extend_from_slice(b"--enable_result_log\n");
        }
    }
    name_engine(&out, engine)
}

/// Tells whether a line is a command `--error`, in use or commented out, that allows success as
/// well as an error of a lock.
fn may_lose_a_race(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    let Some(codes) = line.trim_start_matches('#').trim_start().strip_prefix("--error ") else {
        return false;
    };
    let mut codes = codes.split(',').map(str::trim);
    codes.clone().any(|code| code == "0") && codes.any(|code| code.starts_with("ER_LOCK_"))
}

/// Tells whether a line is the last one of a statement.
fn ends_a_statement(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.ends_with(b";") || line == b"--reap"
}

/// Tells whether a line is one of the commands `--error` and `--enable_abort_on_error`.
fn expects_error(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line).to_ascii_lowercase();
    let Some(command) = line.trim_start().strip_prefix("--") else { return false };
    let word = command.split_whitespace().next().unwrap_or("");
    matches!(word, "error" | "enable_abort_on_error")
}

fn name_engine(text: &[u8], engine: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut at = 0;
    while at < text.len() {
        let end = word_end(text, at);
        if end == at {
            out.push(text[at]);
            at += 1;
            continue;
        }
        let word = &text[at..end];
        if word.eq_ignore_ascii_case(b"delayed") && follows_insert(&out) {
            at = end;
            continue;
        }
        if word.eq_ignore_ascii_case(b"fixed") && follows_row_format(&out) {
            out.extend_from_slice(b"DEFAULT");
            at = end;
            continue;
        }
        let is_engine = REPLACED.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        if is_engine && follows_engine(&out) {
            out.extend_from_slice(engine.as_bytes());
        } else if let Some((before, setting)) = setting_of(word) {
            out.extend_from_slice(before);
            out.extend_from_slice(engine.to_ascii_lowercase().as_bytes());
            out.extend_from_slice(setting);
        } else {
            out.extend_from_slice(word);
        }
        at = end;
    }
    out
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte >= 0x80
}

/// Returns where the word ends that begins at `from`. Dashes at its start are no part of it.
fn word_end(text: &[u8], from: usize) -> usize {
    if text[from] == b'-' {
        return from;
    }
    from + text[from..].iter().take_while(|&&byte| is_word(byte)).count()
}

/// Tells whether a text ends with a word that says "engine", before an equals sign, a quotation
/// mark, or nothing. Behind SHOW ENGINE stands an engine that is asked for itself.
fn follows_engine(text: &[u8]) -> bool {
    let (before, word) = last_word(text, b" \t\r\n='\"`");
    let of_table = ["engine", "engine_type", "engine_other"].iter().any(|end| word.ends_with(end.as_bytes()));
    of_table && last_word(before, b" \t\r\n").1 != b"show"
}

/// Tells whether a text ends with ROW_FORMAT and an equals sign. Only MyISAM's rows have the format
/// that may follow.
fn follows_row_format(text: &[u8]) -> bool {
    last_word(text, b" \t=").1 == b"row_format"
}

/// Tells whether a text ends with INSERT or REPLACE. Only MyISAM inserts rows later on, and tests
/// wait half a minute for each that another engine has refused.
fn follows_insert(text: &[u8]) -> bool {
    matches!(last_word(text, b" \t").1.as_slice(), b"insert" | b"replace")
}

/// Returns the last word of a text in small letters, and what stands before it. Bytes in `skipped`
/// may follow the word.
fn last_word<'a>(text: &'a [u8], skipped: &[u8]) -> (&'a [u8], Vec<u8>) {
    let end = text.iter().rposition(|byte| !skipped.contains(byte)).map_or(0, |last| last + 1);
    let start = text[..end].iter().rposition(|&byte| !is_word(byte)).map_or(0, |before| before + 1);
    (&text[..start], text[start..end].to_ascii_lowercase())
}

/// Returns what stands before and behind InnoDB's name in a setting that Millpond has too.
fn setting_of(word: &[u8]) -> Option<(&[u8], &[u8])> {
    const NAME: &[u8] = b"innodb";
    let loose = word.len() > 6 && word[..5].eq_ignore_ascii_case(b"loose");
    let (before, rest) = word.split_at(if loose { 6 } else { 0 });
    if rest.len() <= NAME.len() || !rest[..NAME.len()].eq_ignore_ascii_case(NAME) {
        return None;
    }
    let setting = &rest[NAME.len()..];
    let lower = |&byte: &u8| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    let plain: Vec<u8> = setting.iter().map(lower).collect();
    SETTINGS.iter().any(|known| plain[1..] == *known.as_bytes()).then_some((before, setting))
}

/// How much is kept of a statement that an error of its syntax quotes. The server quotes 80 bytes,
/// engines' names among them.
const QUOTED: usize = 40;

/// Returns a result with the same name for both engines, however it is written.
pub(super) fn mask(result: &[u8]) -> String {
    shorten_quotes(&mask_names(result))
}

/// Shortens what errors of syntax quote, where the server has cut it off already.
fn shorten_quotes(text: &str) -> String {
    const BEGIN: &str = "for the right syntax to use near '";
    const END: &str = "...' at line";
    let mut parts = text.split(BEGIN);
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        out.push_str(BEGIN);
        match part.split_once(END) {
            Some((quoted, rest)) if !quoted.contains("' at line") => {
                out.extend(quoted.chars().take(QUOTED));
                out.push_str(END);
                out.push_str(rest);
            }
            _ => out.push_str(part),
        }
    }
    out
}

fn mask_names(result: &[u8]) -> String {
    let text = String::from_utf8_lossy(result);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while !rest.is_empty() {
        let names = ["innodb", "millpond"];
        let starts = |name: &&&str| rest.get(..name.len()).is_some_and(|s| s.eq_ignore_ascii_case(name));
        if let Some(name) = names.iter().find(starts) {
            out.push_str("InnoDB");
            rest = &rest[name.len()..];
        } else {
            let mut chars = rest.chars();
            out.extend(chars.next());
            rest = chars.as_str();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapted(text: &str) -> String {
        String::from_utf8(adapt(text.as_bytes(), "Millpond")).unwrap()
    }

    #[test]
    fn an_engine_of_a_table_is_replaced() {
        for text in [
            "CREATE TABLE t (a INT) ENGINE=MyISAM;",
            "create table t (a int) engine = innodb;",
            "ALTER TABLE t ENGINE 'Aria'",
            "SET default_storage_engine=`MYISAM`;",
            "let $engine_type= InnoDB;",
            "create table t (a int) engine =\n innodb;",
        ] {
            assert!(adapted(text).contains("Millpond"), "{text} became {}", adapted(text));
        }
    }

    #[test]
    fn other_words_stay() {
        for text in [
            "--source include/have_innodb.inc",
            "ENGINE=MEMORY",
            "SELECT 'InnoDB'",
            "SET GLOBAL innodb_stats_persistent=1",
            "engine=innodb_like",
            "SHOW ENGINE INNODB STATUS",
        ] {
            assert_eq!(adapted(text), text);
        }
    }

    #[test]
    fn a_row_format_of_myisam_is_none_of_the_engine() {
        assert_eq!(adapted("ENGINE=MEMORY ROW_FORMAT = FIXED;"), "ENGINE=MEMORY ROW_FORMAT = DEFAULT;");
        assert_eq!(adapted("row_format=compact; a fixed one"), "row_format=compact; a fixed one");
    }

    #[test]
    fn rows_are_inserted_at_once() {
        assert_eq!(adapted("INSERT DELAYED INTO t VALUES (1)"), "INSERT  INTO t VALUES (1)");
        assert_eq!(adapted("replace delayed t (delayed)"), "replace  t (delayed)");
    }

    #[test]
    fn settings_of_both_engines_are_renamed() {
        assert_eq!(adapted("SET @@innodb_lock_wait_timeout=1"), "SET @@millpond_lock_wait_timeout=1");
        assert_eq!(adapted("--innodb-lock-wait-timeout=1"), "--millpond-lock-wait-timeout=1");
        let loose = adapted("--loose-innodb_lock_wait_timeout=1");
        assert_eq!(loose, "--loose-millpond_lock_wait_timeout=1");
        assert_eq!(adapted("--innodb-stats-auto-recalc=0"), "--innodb-stats-auto-recalc=0");
    }

    #[test]
    fn expected_errors_become_comments() {
        let text = "--error ER_DUP_ENTRY\nINSERT INTO t VALUES (1);\n-- error 1146,1147\nSELECT 'error';\n";
        let wanted =
            "#--error ER_DUP_ENTRY\nINSERT INTO t VALUES (1);\n#-- error 1146,1147\nSELECT 'error';\n";
        assert_eq!(adapted(text), wanted);
    }

    #[test]
    fn an_answer_that_a_race_decides_is_left_out() {
        let text = "--error 0,ER_LOCK_DEADLOCK\nINSERT t1\nSELECT 1;\nSELECT 2;\n#--error ER_LOCK_DEADLOCK, 0\n\
                    --reap\n--error 0,ER_DUP_ENTRY\nSELECT 3;\n";
        let wanted = "#--error 0,ER_LOCK_DEADLOCK\n--disable_result_log\nINSERT t1\nSELECT 1;\n\
                      --enable_result_log\nSELECT 2;\n#--error ER_LOCK_DEADLOCK, 0\n--disable_result_log\n\
                      --reap\n--enable_result_log\n#--error 0,ER_DUP_ENTRY\nSELECT 3;\n";
        assert_eq!(String::from_utf8(adapt(text.as_bytes(), "InnoDB")).unwrap(), wanted);
    }

    #[test]
    fn the_length_of_an_engine_s_name_does_not_show_in_errors() {
        let error = |engine: &str| {
            let said = format!(
                "use near 'list (a) engine {engine} subpartition x11 engine {engine} values in (0), subpartition x12"
            );
            format!("ERROR 42000: check the manual for the right syntax to {}...' at line 7\n", &said[..80])
        };
        assert_eq!(mask(error("InnoDB").as_bytes()), mask(error("Millpond").as_bytes()));
        let short = "for the right syntax to use near 'a' at line 1\nb...' at line 2";
        assert_eq!(mask(short.as_bytes()), short);
    }

    #[test]
    fn a_result_names_no_engine() {
        assert_eq!(mask("Millpond and INNODB and ä".as_bytes()), "InnoDB and InnoDB and ä");
    }
}
