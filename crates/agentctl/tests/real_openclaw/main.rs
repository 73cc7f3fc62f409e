//! A real OpenClaw gateway, heard and acted on from outside. Its start takes longest, so each test asks one gateway for much.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]

mod automations;
mod behind;
mod outage;
mod runs;
mod scene;
