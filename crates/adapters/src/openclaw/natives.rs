//! Which session of another agent a gateway runs behind one of its own. The wire does not say it; the gateway's database on
//! this machine does, and only that is believed: its catalog of others' sessions names what a chat was copied from.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::rows::Row;
use crate::sqlite::{self, Error};

/// The agent's runtime, as the gateway calls it, and whose sessions those are.
const CLAUDE: (&str, &str) = ("claude-cli", "claude-code");

/// A session of another agent on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Native {
    pub(super) adapter: &'static str,
    pub(super) id: String,
}

/// By the key of the gateway's session. A database that is missing or busy says nothing, which costs a row more in a list.
pub(super) fn read(state: &Path, rows: &[Row]) -> Result<HashMap<String, Native>, Error> {
    let run_by_others = rows.iter().filter(|row| row.runtime() == Some(CLAUDE.0));
    let agents: BTreeSet<&str> = run_by_others.clone().filter_map(|row| row.agent_id.as_deref()).collect();
    // A binding outlives its use: a session that another runtime carries now is nobody's twin.
    let bound: BTreeSet<&str> = run_by_others.map(|row| row.key.as_str()).collect();
    let mut natives = HashMap::new();
    // An id is a name of the gateway's own; what would lead out of its folder is none.
    for agent in agents.into_iter().filter(|agent| !agent.contains(['/', '\\']) && *agent != "..") {
        let path = state.join("agents").join(agent).join("agent/openclaw-agent.sqlite");
        let found = sqlite::read(&path, |database| {
            let query = "SELECT session_key, json_extract(entry_json, '$.cliSessionBindings.\"claude-cli\".sessionId') \
                FROM session_nodes WHERE json_valid(entry_json)";
            let mut statement = database.connection.prepare(query)?;
            let pairs = statement
                .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)))?;
            pairs.collect::<Result<Vec<_>, _>>()
        });
        match found {
            Ok(pairs) => natives.extend(
                pairs
                    .into_iter()
                    .filter(|(key, _)| bound.contains(key.as_str()))
                    .filter_map(|(key, id)| Some((key, Native { adapter: CLAUDE.1, id: id? }))),
            ),
            Err(Error::Missing(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(natives)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(key: &str, runtime: &str) -> Row {
        serde_json::from_value(json!({"key": key, "agentId": "main", "agentRuntime": {"id": runtime}}))
            .unwrap()
    }

    #[test]
    fn a_binding_in_the_gateways_own_database_names_the_session_behind() {
        let state = tempfile::tempdir().unwrap();
        let rows = [row("agent:main:a", "claude-cli"), row("agent:main:b", "openclaw")];
        assert!(read(state.path(), &rows).unwrap().is_empty(), "no database");
        let folder = state.path().join("agents/main/agent");
        std::fs::create_dir_all(&folder).unwrap();
        let database = rusqlite::Connection::open(folder.join("openclaw-agent.sqlite")).unwrap();
        let bound = json!({"cliSessionBindings": {"claude-cli": {"sessionId": "native-1"}}}).to_string();
        database
            .execute_batch("CREATE TABLE session_nodes (session_key TEXT, entry_json TEXT NOT NULL)")
            .unwrap();
        // The second one was bound once, and another runtime carries it now.
        for (key, entry) in [("agent:main:a", &*bound), ("agent:main:b", &*bound), ("odd", "no json")] {
            database.execute("INSERT INTO session_nodes VALUES (?1, ?2)", [key, entry]).unwrap();
        }
        drop(database);
        let natives = read(state.path(), &rows).unwrap();
        let native = Native { adapter: "claude-code", id: "native-1".to_owned() };
        assert_eq!(natives, HashMap::from([("agent:main:a".to_owned(), native)]));
        assert!(
            read(state.path(), &rows[1..]).unwrap().is_empty(),
            "nobody else runs anything: it is not opened"
        );
    }
}
