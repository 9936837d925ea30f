//! MySQL's `caching_sha2_password`: Debian has no server with it, so this is the server's half of
//! the handshake, written after the protocol's documentation. It knows one user, accepts the right
//! password only, and answers the first statement with an error that says that the login is done.
//!
//! Hashes and keys come from the program `openssl`; over TLS it stands between the client and here.

use super::certificates::certificate;
use super::place::Lab;
use super::runs::refused;
use crate::output;
use crate::steps::expect;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a packet may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the nonce, which is laid over it again and again.
const PASSWORD: &str = "a password that is longer than the nonce";
/// What the server says to the first statement.
const INSIDE: &str = "the login is done";
const NONCE: &[u8; 20] = b"Zq1rT7uXc9LmB3vNd5wK";
/// Long passwords, the protocol of today, TLS, transactions, the nonce in two parts, the name of
/// the method.
const CAPABILITIES: u32 = 0x1 | 0x200 | 0x800 | 0x2000 | 0x8000 | 0x8_0000;
/// In the client's answer: it goes on with TLS.
const TLS: u32 = 0x800;

/// How a password is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The server knows a hash of it from before.
    Cached,
    /// The server knows nothing: it wants the password, over TLS or under its key.
    Full,
}

/// Logs in on each way, with the right password and with a wrong one.
pub(super) fn logins(lab: &Lab<'_>) -> Result<(), String> {
    let private = lab.dir.join("sha2.pem");
    output(Command::new("openssl").args(["genrsa", "-out"]).arg(&private).arg("2048"))?;
    certificate(lab, "sha2-authority", None)?;
    certificate(lab, "sha2-server", Some("sha2-authority"))?;
    let trusted = format!("?ca={}", lab.dir.join("sha2-authority.pem").display());
    for (way, tls) in [(Way::Cached, ""), (Way::Full, ""), (Way::Cached, &trusted), (Way::Full, &trusted)] {
        for (password, wanted) in [(PASSWORD, INSIDE), ("wrong", "the password is wrong")] {
            let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
            let port = listener.local_addr().map_err(|e| e.to_string())?.port();
            let (dir, private) = (lab.dir.to_owned(), private.clone());
            let server = std::thread::spawn(move || Login::accept(&listener, dir, private)?.judge(way));
            let url = format!("mysql://ann@localhost:{port}/{tls}");
            let said = refused(lab.millpond(&["age", &url]).env("MYSQL_PWD", password));
            let what = format!("{way:?}, {tls:?}, password {password:?}");
            let (_, said) = said.map_err(|why| format!("{what}: {why}"))?;
            expect(&what, &said, wanted)?;
            let judged = server.join().map_err(|_| format!("{what}: the server's half broke"))?;
            judged.map_err(|why| format!("{what}: {why}"))?;
        }
    }
    Ok(())
}

/// A client that wants to log in.
struct Login {
    client: TcpStream,
    dir: PathBuf,
    private: PathBuf,
    /// The number of the next packet.
    next: u8,
    /// The password may come as it is.
    is_secret: bool,
    /// Ends with the login.
    _tls: Option<Terminator>,
}

impl Login {
    fn accept(listener: &TcpListener, dir: PathBuf, private: PathBuf) -> Result<Login, String> {
        let (client, _) = listener.accept().map_err(|e| e.to_string())?;
        client.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
        Ok(Login { client, dir, private, next: 0, is_secret: false, _tls: None })
    }

    fn judge(mut self, way: Way) -> Result<(), String> {
        self.write(&greeting())?;
        let mut answer = self.read()?;
        if capabilities(&answer)? & TLS != 0 {
            let (terminator, inside) = Terminator::start(&self.dir, self.client)?;
            (self.client, self.is_secret, self._tls) = (inside, true, Some(terminator));
            answer = self.read()?;
        }
        let is_right = match way {
            Way::Cached => {
                let is_right = scramble_of(&answer)? == scramble(PASSWORD)?;
                if is_right {
                    self.write(&[1, 3])?;
                }
                is_right
            }
            Way::Full => {
                self.write(&[1, 4])?;
                self.password()? == format!("{PASSWORD}\0").as_bytes()
            }
        };
        if !is_right {
            return self.write(&error(1045, "Access denied"));
        }
        // OK: no rows, no identifier, autocommit, no warnings.
        self.write(&[0, 0, 0, 2, 0, 0, 0])?;
        self.next = 0;
        let statement = self.read()?;
        if statement.first() != Some(&3) {
            return Err(format!("after the login comes {statement:?}"));
        }
        self.write(&error(1142, INSIDE))
    }

    /// Asks for the password itself, and returns it with the zero behind it.
    fn password(&mut self) -> Result<Vec<u8>, String> {
        let packet = self.read()?;
        if self.is_secret {
            return Ok(packet);
        }
        if packet != [2] {
            return Err("the client does not ask for the key".to_owned());
        }
        let public = piped(Command::new("openssl").args(["rsa", "-pubout", "-in"]).arg(&self.private), b"")?;
        self.write(&[&[1], public.as_slice()].concat())?;
        let encrypted = self.read()?;
        let mut decrypt = Command::new("openssl");
        decrypt
            .args(["pkeyutl", "-decrypt", "-pkeyopt", "rsa_padding_mode:oaep", "-inkey"])
            .arg(&self.private);
        let laid_over = piped(&mut decrypt, &encrypted)?;
        Ok(laid_over.iter().zip(NONCE.iter().cycle()).map(|(a, b)| a ^ b).collect())
    }

    fn write(&mut self, payload: &[u8]) -> Result<(), String> {
        let mut packet = (payload.len() as u32).to_le_bytes();
        packet[3] = self.next;
        self.next = self.next.wrapping_add(1);
        self.client.write_all(&[&packet[..], payload].concat()).map_err(|e| e.to_string())
    }

    fn read(&mut self) -> Result<Vec<u8>, String> {
        let mut head = [0; 4];
        self.client.read_exact(&mut head).map_err(|e| format!("no packet: {e}"))?;
        self.next = head[3].wrapping_add(1);
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.client.read_exact(&mut payload).map_err(|e| format!("half a packet: {e}"))?;
        Ok(payload)
    }
}

/// The first packet: version 10 of the protocol, what this server can, the nonce.
fn greeting() -> Vec<u8> {
    let capabilities = CAPABILITIES.to_le_bytes();
    let mut out = b"\x0a8.4.0\0\x07\0\0\0".to_vec();
    out.extend(&NONCE[..8]);
    out.push(0);
    out.extend(&capabilities[..2]);
    out.extend([45, 2, 0]);
    out.extend(&capabilities[2..]);
    out.push(NONCE.len() as u8 + 1);
    out.extend([0; 10]);
    out.extend(&NONCE[8..]);
    out.extend(b"\0caching_sha2_password\0");
    out
}

fn error(code: u16, message: &str) -> Vec<u8> {
    [&[0xff], &code.to_le_bytes()[..], b"#28000", message.as_bytes()].concat()
}

fn capabilities(answer: &[u8]) -> Result<u32, String> {
    let four = answer.first_chunk::<4>().ok_or("the client's answer is too short")?;
    Ok(u32::from_le_bytes(*four))
}

/// Finds the hash in the client's answer: behind the fixed part and the name.
fn scramble_of(answer: &[u8]) -> Result<Vec<u8>, String> {
    let rest = answer.get(32..).ok_or("the client's answer is too short")?;
    let name = rest.iter().position(|byte| *byte == 0).ok_or("the user's name does not end")?;
    let length = usize::from(*rest.get(name + 1).ok_or("there is no hash")?);
    Ok(rest.get(name + 2..name + 2 + length).ok_or("the hash is cut off")?.to_vec())
}

/// SHA(password) xor SHA(SHA(SHA(password)), nonce).
fn scramble(password: &str) -> Result<Vec<u8>, String> {
    let sha = |bytes: &[u8]| piped(Command::new("openssl").args(["dgst", "-sha256", "-binary"]), bytes);
    let once = sha(password.as_bytes())?;
    let mixed = sha(&[sha(&once)?.as_slice(), NONCE].concat())?;
    Ok(once.iter().zip(mixed).map(|(a, b)| a ^ b).collect())
}

/// Runs a program with bytes as its input, and returns its output.
fn piped(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, String> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = piped.spawn().map_err(|e| format!("cannot start openssl: {e}"))?;
    let mut keys = child.stdin.take().ok_or("openssl has no input")?;
    keys.write_all(input).map_err(|e| format!("openssl: {e}"))?;
    drop(keys);
    let done = child.wait_with_output().map_err(|e| format!("openssl: {e}"))?;
    if done.status.success() { Ok(done.stdout) } else { Err(format!("openssl ended with {}", done.status)) }
}

/// `openssl s_server`, which speaks TLS with a client. Dropping it ends it.
struct Terminator(Child);

impl Terminator {
    /// Starts it for one client. Returns the connection on which its packets come and go as they
    /// are.
    fn start(dir: &Path, client: TcpStream) -> Result<(Terminator, TcpStream), String> {
        let failed = |e: std::io::Error| format!("openssl s_server: {e}");
        let port = crate::serve::free_port()?;
        let mut command = Command::new("timeout");
        command.args(["60", "openssl", "s_server", "-quiet", "-naccept", "1", "-accept", &port.to_string()]);
        command.args(["-cert", "sha2-server.pem", "-key", "sha2-server.key"]).current_dir(dir);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (input, out) = (child.stdin.take(), child.stdout.take());
        let terminator = Terminator(child);
        let outside = connect(port)?;
        let copy = |stream: &TcpStream| stream.try_clone().map_err(failed);
        pump(copy(&client)?, copy(&outside)?, Some(copy(&outside)?));
        pump(outside, copy(&client)?, Some(client));
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let inside = TcpStream::connect(listener.local_addr().map_err(failed)?).map_err(failed)?;
        let (other, _) = listener.accept().map_err(failed)?;
        pump(copy(&other)?, input.ok_or("openssl has no input")?, None);
        pump(out.ok_or("openssl has no output")?, copy(&other)?, Some(other));
        inside.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        Ok((terminator, inside))
    }
}

impl Drop for Terminator {
    fn drop(&mut self) {
        // What was written last is still under way to the client, which ends the connection then.
        let _ = self.0.wait();
    }
}

fn connect(port: u16) -> Result<TcpStream, String> {
    let mut found = Err("openssl s_server does not start".to_owned());
    crate::steps::until("openssl s_server", || {
        found = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string());
        found.is_ok()
    })?;
    found
}

/// Copies in a thread of its own until one side ends, and then ends the given connection.
fn pump(mut from: impl Read + Send + 'static, mut to: impl Write + Send + 'static, then: Option<TcpStream>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n) = from.read(&mut bytes)
            && n > 0
            && to.write_all(&bytes[..n]).and_then(|()| to.flush()).is_ok()
        {}
        if let Some(then) = then {
            let _ = then.shutdown(Shutdown::Both);
        }
    });
}
