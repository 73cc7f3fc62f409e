//! HTTP answers and server-sent events.

#![no_main]

agentctl_fuzz::target!(agentctl_fuzz::streams::http, agentctl_fuzz::streams::http_seeds());
