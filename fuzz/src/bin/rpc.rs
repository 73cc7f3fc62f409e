//! agentctl: lines of JSON-RPC, from MCP and ACP clients.

#![no_main]

agentctl_fuzz::target!(agentctl_program::fuzzing::rpc, agentctl_fuzz::written::rpc());
