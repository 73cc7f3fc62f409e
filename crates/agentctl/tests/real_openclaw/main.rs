//! A real OpenClaw gateway, read and acted on from outside. Its start takes longest, so each test does much
//! with one gateway.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]

mod automations;
mod behind;
mod outage;
mod runs;
mod scene;
