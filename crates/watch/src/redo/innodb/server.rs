//! What a server says: where its log and its files are, and the names of tablespaces and indexes.

use super::files::Files;
use super::logfile::LogFile;
use client::{Access, Connection, LoginFlags, Row};
use output::failure::{Failure, Outcome};
use std::collections::BTreeMap;
use std::path::Path;

const FACTS: &str = "SELECT @@version, @@datadir, @@innodb_log_group_home_dir, @@innodb_undo_directory, \
                     @@innodb_data_home_dir, @@innodb_data_file_path";
const SPACES: &str = "SELECT SPACE, NAME, FILENAME FROM information_schema.INNODB_SYS_TABLESPACES";
const INDEXES: &str = "SELECT i.INDEX_ID, i.NAME, t.NAME, t.TABLE_ID FROM information_schema.INNODB_SYS_INDEXES i \
                       JOIN information_schema.INNODB_SYS_TABLES t ON t.TABLE_ID = i.TABLE_ID";
const CHECKPOINT: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_lsn_last_checkpoint'";
/// Access denied: the privilege PROCESS is missing.
const NO_PRIVILEGE: u16 = 1227;
/// How often the checkpoint of the file is compared with that of the server, which moves.
const COMPARISONS: u32 = 50;

/// Names that a server has told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// `shop/orders`, by tablespace.
    pub(super) spaces: BTreeMap<u32, String>,
    /// Table, as above, and index, by the number of the index.
    pub(super) indexes: BTreeMap<u64, (String, String)>,
    /// Table, by its number.
    pub(super) tables: BTreeMap<u64, String>,
}

/// A server of this machine.
pub(super) struct Server {
    pub(super) name: String,
    connection: Connection,
    pub(super) names: Names,
    /// Why names are missing.
    pub(super) nameless: Option<String>,
    facts: Vec<String>,
}

impl Server {
    /// Asks a server. It must run here, and its log must be the file that it names.
    pub(super) fn open(target: &str, login: &LoginFlags) -> Outcome<(Server, LogFile)> {
        let access = Access::to(target, login)?;
        let mut connection = access.connect()?;
        let facts = facts(&mut connection, access.name())?;
        let datadir = Path::new(&facts[1]);
        // An absolute path replaces the data directory.
        let log = datadir.join(&facts[2]);
        let mut server = Server {
            name: access.name().to_owned(),
            connection,
            names: Names::default(),
            nameless: None,
            facts,
        };
        if !log.exists() {
            return Err(server.elsewhere(&format!("there is no {} here", log.display())));
        }
        let mut file = LogFile::open(&log)?;
        if !server.writes(&mut file)? {
            let why = format!("{} is the log of another server", log.join("ib_logfile0").display());
            return Err(server.elsewhere(&why));
        }
        server.ask()?;
        Ok((server, file))
    }

    /// Returns the files of the server's tablespaces.
    pub(super) fn files(&self) -> Files {
        let datadir = Path::new(&self.facts[1]);
        let home = datadir.join(&self.facts[4]);
        let system = self.facts[5].split(';').filter_map(|part| part.split(':').next());
        let system = system.filter(|name| !name.is_empty()).map(|name| home.join(name)).collect();
        Files::new(datadir, system, datadir.join(&self.facts[3]))
    }

    /// Returns the server's version.
    pub(super) fn version(&self) -> &str {
        &self.facts[0]
    }

    /// Asks for the names again. Those of tables that are gone are kept.
    pub(super) fn ask(&mut self) -> Outcome {
        let spaces = self.connection.rows(SPACES);
        let indexes = spaces.and_then(|spaces| Ok((spaces, self.connection.rows(INDEXES)?)));
        match indexes {
            Ok((spaces, indexes)) => self.keep(spaces, indexes),
            Err(client::Trouble::Refused { code: NO_PRIVILEGE, .. }) => {
                self.nameless = Some(
                    "the user lacks the privilege PROCESS, so indexes have numbers instead of names".into(),
                );
            }
            Err(trouble) => return Err(Failure::failed(trouble.to_string())),
        }
        Ok(())
    }

    fn keep(&mut self, spaces: Vec<Row>, indexes: Vec<Row>) {
        for row in spaces {
            if let [Some(space), Some(name), ..] = row.as_slice()
                && let Ok(space) = space.parse()
            {
                self.names.spaces.insert(space, name.clone());
            }
        }
        for row in indexes {
            if let [Some(index), Some(name), Some(table), Some(number)] = row.as_slice()
                && let (Ok(index), Ok(number)) = (index.parse(), number.parse())
            {
                self.names.tables.insert(number, table.clone());
                self.names.indexes.insert(index, (table.clone(), name.clone()));
            }
        }
    }

    /// Whether the server writes this file: then the file's checkpoint is that of the server, which
    /// may move between two looks.
    fn writes(&mut self, file: &mut LogFile) -> Outcome<bool> {
        for _ in 0..COMPARISONS {
            let before = self.checkpoint()?;
            file.refresh()?;
            let after = self.checkpoint()?;
            let here = file.head.checkpoint;
            if before.is_some() && before <= here && here <= after {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn checkpoint(&mut self) -> Outcome<Option<u64>> {
        let rows =
            self.connection.rows(CHECKPOINT).map_err(|trouble| Failure::failed(trouble.to_string()))?;
        Ok(rows.first().and_then(|row| row.get(1)?.as_ref()?.parse().ok()))
    }

    fn elsewhere(&self, why: &str) -> Failure {
        Failure::misuse(format!(
            "the log of {} is read from its file, and {why}: run this command on the server's machine \
             (in its container), or give the directory with its log",
            self.name
        ))
    }
}

/// Returns what the server says of itself: its version and where its files are.
fn facts(connection: &mut Connection, name: &str) -> Outcome<Vec<String>> {
    let rows = connection.rows(FACTS).map_err(|trouble| match trouble {
        client::Trouble::Refused { code: 1193, .. } => Failure::misuse(format!(
            "{name} does not have the settings of MariaDB's InnoDB (innodb_log_group_home_dir): this command \
             reads the log of MariaDB 10.8 and later"
        )),
        trouble => Failure::failed(trouble.to_string()),
    })?;
    let facts: Vec<String> =
        rows.into_iter().next().unwrap_or_default().into_iter().map(Option::unwrap_or_default).collect();
    if facts.len() != 6 {
        return Err(Failure::failed(format!("{name} does not say where its files are")));
    }
    if !facts[0].contains("MariaDB") {
        return Err(Failure::misuse(format!(
            "{name} is MySQL {}: its log has logical records in blocks of 512 bytes, whose lengths follow \
             from the definitions of indexes, and no reader of them is built in; this command reads \
             the format of MariaDB 10.8 and later",
            facts[0]
        )));
    }
    Ok(facts)
}
