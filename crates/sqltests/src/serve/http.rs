//! One request of HTTP on the loopback address, for programs that a test has started itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a request, and returns the status and the body.
pub(super) fn ask(
    port: u16,
    method: &str,
    path: &str,
    more: &str,
    body: &str,
) -> Result<(u16, String), String> {
    let broken = |e: std::io::Error| format!("{method} {path} on port {port}: {e}");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(broken)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).map_err(broken)?;
    let mut answer = BufReader::new(stream);
    let (mut status, mut length, mut chunked) = (0, None, false);
    loop {
        let mut line = String::new();
        answer.read_line(&mut line).map_err(broken)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
        }
        chunked |= line.eq_ignore_ascii_case("transfer-encoding: chunked");
        let field = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        length = field.and_then(|(_, value)| value.trim().parse::<u64>().ok()).or(length);
    }
    if chunked {
        return Ok((status, String::from_utf8_lossy(&joined(answer).map_err(broken)?).into_owned()));
    }
    let mut bytes = Vec::new();
    answer.take(length.unwrap_or(u64::MAX)).read_to_end(&mut bytes).map_err(broken)?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Reads a body that comes in chunks, each after its length.
fn joined(mut answer: impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut line = String::new();
        answer.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim_end(), 16).map_err(std::io::Error::other)?;
        if length == 0 {
            return Ok(bytes);
        }
        answer.by_ref().take(length).read_to_end(&mut bytes)?;
        answer.read_line(&mut line)?;
    }
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.port())
}
