//! Hosts of the bus that answer as they are told to: well, badly or never. Many of them live in one process.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use super::wire::{RawMessage, RawNats};

/// How a host answers every request.
#[derive(Debug, Clone)]
pub enum Script {
    /// With this body.
    Body(Vec<u8>),
    /// With bytes that are no answer.
    Garbage,
    /// With half of this body.
    Half(Vec<u8>),
    /// With a first part, and a further one that never comes.
    Unfinished(Vec<u8>),
    /// With this many bytes, in parts.
    Huge(usize),
    Never,
    /// As another host, whose name it puts where its own belongs.
    As(String, Vec<u8>),
}

/// One scripted host.
#[derive(Debug, Clone)]
pub struct Responder {
    pub name: String,
    /// The group of its name.
    pub bucket: u8,
    pub script: Script,
}

/// No part is larger.
const PART: usize = 192 << 10;

/// Lets these hosts answer over this many connections, until the server goes away. Returns when the server knows them.
pub fn respond(port: u16, hosts: &[Responder], connections: usize) -> io::Result<Vec<JoinHandle<()>>> {
    let share = hosts.len().div_ceil(connections.max(1)).max(1);
    let mut threads = Vec::new();
    for share in hosts.chunks(share) {
        let share = share.to_vec();
        let mut raw = RawNats::connect(port)?;
        for (number, host) in share.iter().enumerate() {
            raw.subscribe(
                &format!("agentctl.read.all.{}", host.bucket),
                &format!("{}-i", host.name),
                2 * number,
            )?;
            raw.subscribe(&format!("agentctl.read.{}.>", host.name), &host.name, 2 * number + 1)?;
        }
        raw.settle()?;
        threads.push(std::thread::spawn(move || {
            while let Ok(message) = raw.receive() {
                let host = &share[message.sid / 2];
                if answer(&mut raw, host, &message).is_err() {
                    return;
                }
            }
        }));
    }
    Ok(threads)
}

/// One host that answers until this value is dropped.
#[derive(Debug)]
pub struct Liar(TcpStream);

impl Liar {
    pub fn begin(port: u16, host: Responder) -> io::Result<Self> {
        let mut raw = RawNats::connect(port)?;
        raw.subscribe(&format!("agentctl.read.all.{}", host.bucket), &format!("{}-i", host.name), 0)?;
        raw.subscribe(&format!("agentctl.read.{}.>", host.name), &host.name, 1)?;
        raw.settle()?;
        let stream = raw.stream()?;
        std::thread::spawn(move || {
            while let Ok(message) = raw.receive() {
                if answer(&mut raw, &host, &message).is_err() {
                    return;
                }
            }
        });
        Ok(Self(stream))
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn answer(raw: &mut RawNats, host: &Responder, message: &RawMessage) -> io::Result<()> {
    let head = message.payload.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let head: Value = serde_json::from_slice(head).unwrap_or_default();
    let word = |name: &str| head[name].as_str().unwrap_or_default().to_owned();
    let name = match &host.script {
        Script::As(other, _) => other,
        _ => &host.name,
    };
    let to = match &message.reply {
        Some(reply) => reply.clone(),
        None => format!("agentctl.answer.{name}.{}.{}", word("asker"), word("nonce")),
    };
    if matches!(host.script, Script::Never) {
        return Ok(());
    }
    if message.subject.rsplit('.').next() == Some("hello") {
        let greeting = json!({"version": "0.1.0", "host": host.name, "instance": format!("i-{}", host.name), "caller": null});
        return raw.publish(&to, &part(host, 0, greeting.to_string().as_bytes(), None));
    }
    let asked = head["part"].as_u64();
    match &host.script {
        Script::Never => Ok(()),
        Script::Body(body) | Script::As(_, body) => raw.publish(&to, &part(host, 0, body, None)),
        Script::Garbage => raw.publish(&to, b"\x00\xff{}\nnothing of this is an answer"),
        Script::Half(body) => {
            let whole = part(host, 0, body, None);
            raw.publish(&to, &whole[..whole.len() - body.len() / 2])
        }
        Script::Unfinished(_) if asked.is_some() => Ok(()),
        Script::Unfinished(body) => raw.publish(&to, &part(host, 0, body, Some("more"))),
        Script::Huge(size) => {
            let number = asked.unwrap_or(0);
            let before = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(PART);
            let left = size.saturating_sub(before);
            let more = (left > PART).then_some("more");
            raw.publish(&to, &part(host, number, &vec![b' '; left.min(PART)], more))
        }
    }
}

fn part(host: &Responder, number: u64, body: &[u8], more: Option<&str>) -> Vec<u8> {
    let mut head = json!({"road": 1, "status": 200, "version": "0.1.0", "instance": format!("i-{}", host.name),
        "part": number, "bytes": body.len()});
    if let Some(more) = more {
        head["more"] = json!(more);
    }
    let mut message = head.to_string().into_bytes();
    message.push(b'\n');
    message.extend_from_slice(body);
    message
}
