//! A client of the server: the text protocol over a Unix socket, as the user root without a
//! password.
//!
//! A statement is sent by one call and its answer is read by another, so that two connections can
//! run the same statement at the same moment.

use crate::compare::answer::{Answer, Column, Row};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// What this client can do: protocol 4.1, long flags, transaction status, authentication plugins.
const CAPABILITIES: u32 = 0x0001 | 0x0004 | 0x0200 | 0x2000 | 0x8000 | 0x0008_0000;
/// utf8mb4_general_ci.
const CHARSET: u8 = 45;
const AUTHENTICATION: &[u8] = b"mysql_native_password\0";
const MAX_PACKET: u32 = 1 << 24;
const COM_QUERY: u8 = 3;
/// The bit of the server's status that says that a transaction is open.
const IN_TRANSACTION: u16 = 1;

/// A connection.
pub(crate) struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    read: usize,
    sequence: u8,
    status: u16,
}

impl Client {
    /// Connects to the server.
    pub(crate) fn connect(socket: &Path) -> Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut client = Client { stream, input: Vec::new(), read: 0, sequence: 0, status: 0 };
        client.packet()?;
        let mut login = Vec::new();
        login.extend(CAPABILITIES.to_le_bytes());
        login.extend(MAX_PACKET.to_le_bytes());
        login.push(CHARSET);
        login.extend([0; 23]);
        login.extend(b"root\0");
        login.push(0);
        login.extend(AUTHENTICATION);
        client.write(&login)?;
        let mut answer = client.packet()?;
        if answer.first() == Some(&0xfe) {
            client.write(&[])?;
            answer = client.packet()?;
        }
        match answer.first() {
            Some(0) => Ok(client),
            _ => Err(Error::other(format!("the server refuses: {}", String::from_utf8_lossy(&answer)))),
        }
    }

    /// Sends a statement. [`Client::receive`] has to follow.
    pub(crate) fn send(&mut self, statement: &str) -> Result<()> {
        self.sequence = 0;
        let mut packet = Vec::with_capacity(statement.len() + 1);
        packet.push(COM_QUERY);
        packet.extend(statement.as_bytes());
        self.write(&packet)
    }

    /// Reads the answer of the statement that was sent last.
    pub(crate) fn receive(&mut self) -> Result<Answer> {
        let packet = self.packet()?;
        match packet.first() {
            Some(0) => {
                let (answer, status) = done(&packet)?;
                self.status = status;
                Ok(answer)
            }
            Some(0xff) => failed(&packet),
            Some(_) => {
                let columns = Reader::new(&packet).number()?;
                self.rows(columns)
            }
            None => Err(broken()),
        }
    }

    /// Tells whether a transaction was open at the end of the last answer that is not an error.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.status & IN_TRANSACTION != 0
    }

    /// Runs a statement.
    pub(crate) fn run(&mut self, statement: &str) -> Result<Answer> {
        self.send(statement)?;
        self.receive()
    }

    fn rows(&mut self, count: u64) -> Result<Answer> {
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(column(&self.packet()?)?);
        }
        self.packet()?;
        let mut rows: Vec<Row> = Vec::new();
        loop {
            let packet = self.packet()?;
            match packet.first() {
                Some(0xff) => return failed(&packet),
                Some(0xfe) if packet.len() < 9 => {
                    let mut end = Reader::new(&packet[1..]);
                    let warnings = end.fixed(2)? as u16;
                    self.status = end.fixed(2)? as u16;
                    return Ok(Answer::Rows { columns, rows, warnings });
                }
                _ => {
                    let mut reader = Reader::new(&packet);
                    let row = (0..count).map(|_| reader.value()).collect::<Result<Row>>()?;
                    rows.push(row);
                }
            }
        }
    }

    fn write(&mut self, payload: &[u8]) -> Result<()> {
        let mut packet = Vec::with_capacity(payload.len() + 4);
        packet.extend(&(payload.len() as u32).to_le_bytes()[..3]);
        packet.push(self.sequence);
        packet.extend(payload);
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.write_all(&packet)
    }

    /// Reads one packet. Answers here are shorter than the 16 MiB from which on packets are split.
    fn packet(&mut self) -> Result<Vec<u8>> {
        let head = self.bytes(4)?;
        let bytes = u32::from_le_bytes([head[0], head[1], head[2], 0]);
        self.sequence = head[3].wrapping_add(1);
        self.bytes(bytes as usize)
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>> {
        while self.input.len() - self.read < count {
            self.input.drain(..self.read);
            self.read = 0;
            let mut chunk = [0; 16384];
            match self.stream.read(&mut chunk) {
                Ok(0) => {
                    return Err(Error::new(ErrorKind::UnexpectedEof, "the server has closed the connection"));
                }
                Ok(bytes) => self.input.extend(&chunk[..bytes]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.read += count;
        Ok(self.input[self.read - count..self.read].to_vec())
    }
}

/// Reads the parts of a packet.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(packet: &'a [u8]) -> Self {
        Reader { rest: packet }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(broken)?;
        self.rest = rest;
        Ok(taken)
    }

    fn fixed(&mut self, count: usize) -> Result<u64> {
        Ok(self.take(count)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// Reads a number in the protocol's variable length.
    fn number(&mut self) -> Result<u64> {
        match self.fixed(1)? {
            0xfc => self.fixed(2),
            0xfd => self.fixed(3),
            0xfe => self.fixed(8),
            small => Ok(small),
        }
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        let bytes = self.number()?;
        Ok(self.take(bytes as usize)?.to_vec())
    }

    /// Reads a column of a row: None is NULL.
    fn value(&mut self) -> Result<Option<Vec<u8>>> {
        if self.rest.first() == Some(&0xfb) {
            self.take(1)?;
            return Ok(None);
        }
        self.text().map(Some)
    }
}

/// Reads an answer without rows, and the server's status.
fn done(packet: &[u8]) -> Result<(Answer, u16)> {
    let mut reader = Reader::new(&packet[1..]);
    let affected = reader.number()?;
    let insert_id = reader.number()?;
    let status = reader.fixed(2)? as u16;
    let warnings = reader.fixed(2)? as u16;
    let info = String::from_utf8_lossy(reader.rest).into_owned();
    Ok((Answer::Done { affected, insert_id, info, warnings }, status))
}

/// An error: its number, a mark, the five letters of its state, its text.
fn failed(packet: &[u8]) -> Result<Answer> {
    let mut reader = Reader::new(&packet[1..]);
    let code = reader.fixed(2)? as u16;
    if reader.rest.first() == Some(&b'#') {
        reader.take(6)?;
    }
    Ok(Answer::Failed { code, text: String::from_utf8_lossy(reader.rest).into_owned() })
}

fn column(packet: &[u8]) -> Result<Column> {
    let mut reader = Reader::new(packet);
    for _ in 0..4 {
        reader.text()?;
    }
    let name = String::from_utf8_lossy(&reader.text()?).into_owned();
    reader.text()?;
    reader.take(1)?;
    let charset = reader.fixed(2)? as u16;
    let length = reader.fixed(4)? as u32;
    let kind = reader.fixed(1)? as u8;
    let flags = reader.fixed(2)? as u16;
    Ok(Column { name, charset, length, kind, flags })
}

fn broken() -> Error {
    Error::new(ErrorKind::InvalidData, "a packet of the server is too short")
}
