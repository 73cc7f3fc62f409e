//! WebSocket: greeting and messages.

#![no_main]

agentctl_fuzz::target!(agentctl_fuzz::streams::websocket, agentctl_fuzz::streams::websocket_seeds());
